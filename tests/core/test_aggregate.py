"""Aggregates: shapes, sums, files."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from rappor_core.aggregate import Aggregate
from rappor_core.errors import (
    AggregateError,
    MetricsFileError,
    ParameterError,
    RapporError,
    WireFormatError,
)
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "aggregates.json").read_text())
PARAMS = RapporParams.rappor(
    num_bits=4, num_hashes=2, num_cohorts=2, prob_f=0.5, prob_p=0.5, prob_q=0.75
)
METRIC = Metric(
    name="homepage",
    kind="string",
    description="Home page",
    owner="web-team@example.org",
    expires=date(2027, 6, 30),
    params=PARAMS,
    max_memoized_values=3,
    fallback="other",
)
ONE = Aggregate(
    metric="homepage",
    params=PARAMS,
    reports_per_cohort=(3, 0),
    bit_counts=((0, 1, 2, 3), (0, 0, 0, 0)),
    params_id=METRIC.params_id,
    first_day=date(2026, 1, 1),
    last_day=date(2026, 1, 7),
    definition=METRIC.to_dict(),
)
NEXT = replace(ONE, first_day=date(2026, 1, 8), last_day=date(2026, 1, 8))


def test_a_file_gives_it_back() -> None:
    assert Aggregate.from_json(ONE.to_json()) == ONE
    assert Aggregate.from_json(ONE.to_json().encode()) == ONE
    undated = replace(ONE, first_day=None, last_day=None)
    assert Aggregate.from_json(undated.to_json()) == undated


def test_the_golden_file() -> None:
    found = Aggregate.from_json(VECTORS["good"])
    assert found.to_json() == VECTORS["good"]
    assert (found.metric, found.num_reports) == ("theme", 1200)


@pytest.mark.parametrize("vector", VECTORS["bad"], ids=lambda vector: vector["name"])
def test_golden_files_that_must_fail(vector: dict[str, str]) -> None:
    with pytest.raises(RapporError) as caught:
        Aggregate.from_json(vector["json"])
    assert vector["message"] in str(caught.value)


def test_cohorts_are_left_out_but_not_all_with_reports() -> None:
    two = replace(ONE, reports_per_cohort=(3, 4), bit_counts=((0, 1, 2, 3), (4, 0, 0, 0)))
    assert two.without([0]).reports_per_cohort == (0, 4)
    for one, cohorts in ((two, [0, 1]), (ONE, [0])):
        with pytest.raises(AggregateError, match="leave out fewer"):
            one.without(cohorts)
    with pytest.raises(AggregateError, match="cohort 2 is not one of 0 to 1"):
        two.without([2])


def test_merging_adds_counts_and_joins_windows() -> None:
    both = ONE.merge(NEXT)
    assert both.reports_per_cohort == (6, 0)
    assert both.bit_counts == ((0, 2, 4, 6), (0, 0, 0, 0))
    assert (both.first_day, both.last_day) == (date(2026, 1, 1), date(2026, 1, 8))
    assert both.num_reports == 6


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (replace(NEXT, metric="other"), "'other'"),
        (replace(NEXT, params_id="cd" * 16), "cdcd"),
        (ONE, "overlap"),
        (replace(ONE, first_day=ONE.last_day, last_day=date(2026, 1, 9)), "overlap"),
        (replace(ONE, first_day=date(2025, 12, 30), last_day=ONE.first_day), "overlap"),
        (replace(NEXT, first_day=None, last_day=None), "might count twice"),
    ],
)
def test_what_does_not_fit_is_not_added(other: Aggregate, message: str) -> None:
    with pytest.raises(AggregateError, match=message):
        ONE.merge(other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reports_per_cohort": (3,)}, "num_cohorts = 2"),
        ({"bit_counts": ((0, 1, 2, 3),)}, "1 rows"),
        ({"bit_counts": ((0, 1, 2), (0, 0, 0))}, "cohort 0 has 3"),
        ({"reports_per_cohort": (3, -1)}, "-1 reports"),
        ({"reports_per_cohort": (10**400, 0)}, "an integer of 1329 bits"),
    ],
)
def test_counts_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AggregateError, match=message):
        replace(ONE, **changes)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"version": 1.0}, WireFormatError),
        ({"params_id": "zzz"}, AggregateError),
        ({"definition": METRIC.to_dict() | {"owner": ""}}, MetricsFileError),
        ({"metric": 3}, WireFormatError),
        ({"params": []}, WireFormatError),
        ({"params": {}}, ParameterError),
        ({"bit_counts": 3}, WireFormatError),
        ({"reports_per_cohort": [True, 0]}, WireFormatError),
        ({"first_day": 3}, WireFormatError),
    ],
)
def test_files_that_must_fail(changes: dict[str, Any], error: type[Exception]) -> None:
    text = json.dumps(json.loads(ONE.to_json()) | changes)
    with pytest.raises(error):
        Aggregate.from_json(text)
    for broken in ("", "[]", "{}", "null", text[:-1]):
        with pytest.raises(WireFormatError):
            Aggregate.from_json(broken)
