"""Writes tests/vectors/v1/places_no_data.json. Run by hand when the protocol changes.

    python tests/vectors/make_places_no_data_v1.py

The metrics of places.json with `no_data` declared: what changes for a client (docs/porting.md,
part 7). `compiled` is the same file as `rappor metrics compile` writes it.
"""

import json
from pathlib import Path
from typing import Any

import make_places_v1 as places

from rappor_core.errors import MetricsFileError
from rappor_core.metrics.compiled import compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.reserved import NO_DATA, OTHER

HERE = Path(__file__).parent / "v1"
APART = f'no_data = "{NO_DATA}"\n'
KIND = 'kind = "location"\n'
METRICS = places.METRICS.replace(KIND, KIND + APART)
VALUES = {
    "filter/night/13": ["0320101101322", OTHER, NO_DATA],
    "symbol/day/3": ["rv7", OTHER, NO_DATA],
    "window/late/0": ["0-3-2", OTHER, NO_DATA, "not a cell"],
    "once/day/1": ["1-3-2>1-0-0", NO_DATA],
}
BAD = [
    ("another name", APART, 'no_data = "none"\n'),
    ("the name of the other reserved value", APART, f'no_data = "{OTHER}"\n'),
    ("not text", APART, "no_data = true\n"),
    ("no place beside both", "max_memoized_values = 3", "max_memoized_values = 2"),
    ("no place for a symbol", "num_symbols = 4", "num_symbols = 4\nmax_memoized_values = 2"),
]


def bad_metrics() -> list[dict[str, str]]:
    rows = []
    for reason, good, bad in BAD:
        text = METRICS.replace(good, bad, 1)
        assert text != METRICS
        try:
            parse_metrics(text)
        except MetricsFileError as error:
            rows.append({"reason": reason, "error": str(error), "metrics.toml": text})
    assert len(rows) == len(BAD)
    return rows


def responses() -> list[dict[str, Any]]:
    file = parse_metrics(METRICS)
    return [
        places._response(file.metrics[name], secret, value)
        for name, several in VALUES.items()
        for value in several
        for secret in places.SECRETS
    ]


def main() -> None:
    places.METRICS = METRICS
    file = parse_metrics(METRICS)
    content = {
        "metrics": places.metrics(),
        "compiled": compiled(file),
        "bad_metrics": bad_metrics(),
        "usual": places.usual(),
        "responses": responses(),
    }
    sent = {value for row in content["usual"] for _, value, _ in row["reports"]}
    assert {OTHER, NO_DATA} <= sent
    (HERE / "places_no_data.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
