"""Metrics of an association are declared anew: what is linked goes on being counted and served."""

from __future__ import annotations

from typing import Any

import pytest

from rappor_core.association_aggregate import AssociationAggregate
from rappor_core.metrics.association import CountedAssociation
from tests.association_support import linked_file
from tests.collector.support import TODAY, Bench
from tests.collector.test_associations import pairs_of, submit

RULES: dict[str, dict[str, dict[str, Any]]] = {
    "not linked any more": {"engine": {"cohort_with": None}},
    "first takes another's cohort": {"homepage": {"cohort_with": "elsewhere"}},
    "several reports a day": {"engine": {"max_reports_per_period": 2}},
    "another period": {"homepage": {"period": "week"}},
    "in browsers, too": {"engine": {"platforms": ("app", "web"), "lives": 2, "max_reports": 3}},
}


@pytest.mark.parametrize("what", RULES)
def test_metrics_declared_anew_stop_no_collector(bench: Bench, what: str) -> None:
    """As by a host that starts with an older file: no rule is part of what a report means."""
    file = linked_file()
    push = bench.collector.push_metrics
    push(file.metrics.values(), "test", associations=file.associations)
    pairs = pairs_of(file, 60)
    assert submit(bench, pairs[:30]).accepted == 60
    anew = [file.metrics[name].replace(**changes) for name, changes in RULES[what].items()]
    push(anew, "test", weaken=True)
    assert submit(bench, pairs[30:]).accepted == 60
    bench.clock.pass_days(1)
    bench.collector.close_day(TODAY, "test")
    one = bench.collector.read_association("test", "home_engine")
    assert one.num_reports == 60
    assert AssociationAggregate.from_json(one.to_json()) == one
    assert isinstance(one.association, CountedAssociation)
    assert bench.collector.list_associations()[0]["state"] == "current"


def test_an_association_of_retired_metrics_stops_nothing(bench: Bench) -> None:
    """The metric was declared before it was linked, and its declaration stays as it was."""
    file = linked_file()
    push = bench.collector.push_metrics
    push([file.metrics["engine"].replace(cohort_with=None)], "test")
    bench.collector.retire_metric("engine", "test")
    links: dict[str, Any] = {"associations": file.associations, "weaken": True}
    assert "engine" in push(file.metrics.values(), "test", **links).still_retired
    reasons = [one and one.reason.value for one in submit(bench, pairs_of(file, 2)).results]
    assert reasons == [None, "metric_retired"] * 2
    push(file.metrics.values(), "test", revive=True, **links)
    assert submit(bench, pairs_of(file, 2, seed=2)).accepted == 4
    assert bench.collector.list_associations()[0]["linked"] == 2
