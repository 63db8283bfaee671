"""Writes tests/vectors/v1/platforms.json. Run by hand when the web profile changes.

    python -m tests.vectors.make_platforms_v1

Compiled metrics that say where they may run, what each promises there, whether a client of a
platform records it, and documents that must be refused (docs/porting.md, part 9).
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rappor_core.metrics.compiled import compiled
from rappor_core.metrics.file import parse_metrics

HERE = Path(__file__).parent / "v1"
COMMON = """
owner = "web-team@example.org"
expires = 2027-03-01
"""
TEXT = f"""
budget = 60.0

[metrics.page]
kind = "string"
description = "On both platforms, with permanent responses"{COMMON}
num_bits = 16
num_hashes = 2
num_cohorts = 8
prob_f = 0.75
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 3
fallback = "other"
max_reports = 4
platforms = ["app", "web"]
lives = 6

[metrics.answer]
kind = "category"
description = "In browsers alone, once in each life of the storage"{COMMON}
categories = ["yes", "no"]
max_memoized_values = 2
prob_f = 0.0
prob_p = 0.35
prob_q = 0.65
max_reports = 1
platforms = ["web"]
lives = 10

[metrics.disk]
kind = "string"
description = "In apps alone, which is the default"{COMMON}
num_bits = 16
num_hashes = 2
num_cohorts = 8
prob_f = 0.75
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 3
fallback = "other"
"""
PLATFORMS = ("app", "web")
PAGE, ANSWER, DISK = 0, 1, 2
BAD: list[tuple[str, int, Callable[[dict[str, Any]], object]]] = [
    ("no platform", PAGE, lambda d: d.update(platforms=[])),
    ("an unknown platform", PAGE, lambda d: d.update(platforms=["web", "ios"])),
    ("a platform twice", PAGE, lambda d: d.update(platforms=["web", "web"])),
    ("a platform as text", PAGE, lambda d: d.update(platforms="web")),
    ("the default said", DISK, lambda d: d.update(platforms=["app"])),
    ("no lives", PAGE, lambda d: d.pop("lives")),
    ("no life", PAGE, lambda d: d.update(lives=0)),
    ("lives as boolean", ANSWER, lambda d: d.update(lives=True)),
    ("half a life", PAGE, lambda d: d.update(lives=1.5)),
    ("too many lives", PAGE, lambda d: d.update(lives=10_001)),
    ("lives without a browser", DISK, lambda d: d.update(lives=2)),
    ("a browser without a bound on reports", PAGE, lambda d: d.update(max_reports=None)),
    ("lives that the budget does not hold", PAGE, lambda d: d.update(lives=1000)),
]


def make() -> dict[str, Any]:
    """The whole file."""
    file = parse_metrics(TEXT)
    document = compiled(file)
    promises = {
        metric.name: {
            "lifetime_epsilon": {on: metric.lifetime_epsilon_on(on) for on in metric.platforms},
            "recorded": {on: on in metric.platforms for on in PLATFORMS},
        }
        for metric in file.metrics.values()
    }
    return {
        "metrics.toml": TEXT,
        "document": document,
        "promises": promises,
        "budget_needed": {on: file.lifetime_epsilon_on(on) for on in ("app", "web")},
        "bad": [
            {"name": name, "document": _spoilt(document, at, spoil)} for name, at, spoil in BAD
        ],
    }


def _spoilt(good: dict[str, Any], at: int, spoil: Callable[[dict[str, Any]], object]) -> object:
    document = copy.deepcopy(good)
    spoil(document["metrics"][at]["definition"])
    return document


if __name__ == "__main__":
    text = json.dumps(make(), indent=1, ensure_ascii=True) + "\n"
    (HERE / "platforms.json").write_text(text)
