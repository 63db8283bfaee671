"""Writes tests/vectors/v1/pairs.json. Run by hand when a pair metric means something else.

    python tests/vectors/make_pairs_v1.py

Beside the other vectors of version 1, none of which it changes: reports of pairs travel as any
others, and a client without the kind refuses its metrics file by name (docs/porting.md).
"""

import json
from pathlib import Path
from typing import Any

from rappor_core.errors import RapporError
from rappor_core.metrics.compiled import compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric

HERE = Path(__file__).parent / "v1"
HEAD = """
[metrics.{name}]
kind = "pair"
description = "A vector"
owner = "vectors@example.org"
expires = 2099-06-30
mechanism = "l-osue"
epsilon_infinity = 3.0
epsilon_one = 2.0
max_memoized_values = 3
of = ["first", "second"]
"""
TABLES = {
    "listed": 'values = { first = ["a", "caf\\u00e9", "b c"], second = [true, false] }\n'
    'fallback = "a | false"\nno_data = "b c | false"\n',
    "hashed": 'values = { first = ["a", "caf\\u00e9"], second = ["x", "y", "\\u6771"] }\n'
    'fallback = "a | x"\nnum_bits = 24\nnum_cohorts = 4\n',
}
TOML = "".join(HEAD.format(name=name) + more for name, more in TABLES.items())
VALUES: dict[str, list[Any]] = {
    "listed": [["a", True], ["caf\u00e9", False], ["cafe\u0301", False], "b c | true"],
    "hashed": [["a", "y"], ["cafe\u0301", "\u6771"], "caf\u00e9 | x"],
}
REFUSED: dict[str, list[Any]] = {
    "listed": [["a"], ["a", 1], ["a", "true"], ["A", True], [True, "a"], ["a", True, 1], "a,true",
               "a|true", 5, None, True],
    "hashed": [["a", "z"], ["a", True], "a | ", ["", "x"]],
}  # fmt: skip


def refusal(metric: Metric, value: Any) -> str:
    try:
        metric.value_bits(value, 0)
    except RapporError as error:
        return str(error)
    raise AssertionError(value)


def content() -> dict[str, Any]:
    file = parse_metrics(TOML)
    return {
        "version": 1,
        "toml": TOML,
        "compiled": compiled(file),
        "values": [
            {
                "metric": name,
                "value": value,
                "bits": [
                    file.metrics[name].value_bits(value, cohort)
                    for cohort in range(file.metrics[name].params.num_cohorts)
                ],
            }
            for name, values in VALUES.items()
            for value in values
        ],
        "refused": [
            {"metric": name, "value": value, "error": refusal(file.metrics[name], value)}
            for name, values in REFUSED.items()
            for value in values
        ],
    }


if __name__ == "__main__":
    text = json.dumps(content(), indent=1, ensure_ascii=True)
    (HERE / "pairs.json").write_text(text + "\n")
