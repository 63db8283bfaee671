"""Writes tests/vectors/v1/digests.json. Run by hand when a compiled form is added.

    python tests/vectors/make_digests_v1.py

Digests of compiled metrics (docs/porting.md, part 9): of the good documents of compiled.json, by
name, and of values that no metrics file holds, to try the form of numbers and texts.
"""

import json
from pathlib import Path
from typing import Any

from rappor_core.metrics.compiled import digest_of

HERE = Path(__file__).parent / "v1"
ODD: list[dict[str, Any]] = [
    {"budget": 40.0, "metrics": [0, -0.0, 1, 1.5, 1e-7, 1e21, 2**53, 65_536, -74.3]},
    {"budget": None, "metrics": [True, False, None, "", 'a "quoted" \\ text', "\t\n\u0001\u007f"]},
    {"budget": 1, "metrics": ["\u00e4 \u20ac \U0001f600", "\u2028", {"b": 1, "a": [{}]}]},
]


def make() -> dict[str, Any]:
    """The whole file."""
    good = json.loads((HERE / "compiled.json").read_text())["good"]
    return {
        "compiled": {name: digest_of(row["document"]) for name, row in good.items()},
        "odd": [{"document": document, "digest": digest_of(document)} for document in ODD],
    }


if __name__ == "__main__":
    (HERE / "digests.json").write_text(json.dumps(make(), indent=1) + "\n")
