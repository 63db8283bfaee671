"""Aggregates: shapes, sums, files."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from rappor_core.aggregate import Aggregate
from rappor_core.errors import AggregateError, RapporError
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import aggregate_of_metric
from tests.metric_texts import declaration

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "v1" / "aggregates.json").read_text())
SHAPE = {"num_bits": 4, "num_hashes": 2, "num_cohorts": 2}
COINS = {"prob_f": 0.5, "prob_p": 0.5, "prob_q": 0.75}
LIMITS = {"max_memoized_values": 3, "fallback": "other"}
METRIC = parse_metrics(declaration("homepage", "string", **SHAPE, **COINS, **LIMITS)).declared[0]
COUNTS = (3, 0), ((0, 1, 2, 3), (0, 0, 0, 0))
ONE = aggregate_of_metric(METRIC, *map(np.array, COUNTS), date(2026, 1, 1), date(2026, 1, 7))
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
