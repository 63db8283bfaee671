"""Metrics that are paused: refused by name, directly and behind a relay, until they are resumed."""

import pytest

from rappor_server.errors import NotFoundError
from tests.collector.support import TODAY, Bench, make_metric

METRIC = make_metric(min_reports=1)


def reason_of(bench: Bench) -> str:
    result = bench.send(bench.sender.reports(METRIC, 1))[0].results[0]  # type: ignore[union-attr]
    return "" if result is None else result.reason


def test_a_paused_metric_is_refused_until_it_is_resumed(bench: Bench) -> None:
    bench.collector.push_metrics([METRIC], "test")
    assert reason_of(bench) == ""
    assert bench.collector.pause_metric("homepage", "test", paused=True) == [METRIC.params_id]
    assert reason_of(bench) == "metric_paused"
    bench.collector.push_metrics([METRIC], "test")  # as a start with --metrics does
    assert reason_of(bench) == "metric_paused"
    bench.collector.pause_metric("homepage", "test", paused=False)
    assert reason_of(bench) == ""
    bench.collector.close_day(TODAY, "test")
    assert bench.collector.read_aggregate("test", "homepage").num_reports == 2
    acts = [row.act for row in bench.collector.read_audit(100)]
    assert {"pause", "resume"} <= set(acts)


def test_an_unknown_metric_cannot_be_paused(bench: Bench) -> None:
    with pytest.raises(NotFoundError, match="no metric 'nothing' to pause"):
        bench.collector.pause_metric("nothing", "test", paused=True)
