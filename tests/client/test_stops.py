"""Metrics that the collector stops by its answer: a device records less, and says so."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from client_sdk import Delivery
from client_sdk.inspection import render
from client_sdk.testing import MemoryCollector
from tests.waiting import until

WHEN_FLUSHED = Delivery(mean_delay=3_600.0, first_pause=0.05)
DAY = 86_400.0


class StoppingCollector(MemoryCollector):
    """Refuses reports of a metric with a reason."""

    def __init__(self, metrics: Any) -> None:
        super().__init__(metrics)
        self.reasons: dict[str, str] = {}

    def _result(self, report: Any) -> dict[str, str]:
        if reason := self.reasons.get(report.metric):
            return {"status": "refused", "reason": reason}
        return super()._result(report)


@pytest.fixture
def collector(metrics: Any) -> Iterator[StoppingCollector]:
    with StoppingCollector(metrics.metrics) as running:
        yield running


@pytest.fixture
def open_phone(open_client: Any) -> Any:
    return lambda **more: open_client(delivery=WHEN_FLUSHED, development=False, **more)


def stop(client: Any, collector: StoppingCollector, reason: str) -> None:
    collector.reasons["homepage"] = reason
    assert client.record("homepage", "a")
    assert not client.flush(20)
    assert client.inspect()["counters"][f"refused:homepage:{reason}"] == 1


def test_a_retired_metric_is_recorded_no_more(open_phone, collector, clock) -> None:
    client = open_phone()
    stop(client, collector, "metric_retired")
    clock.now += 400 * DAY
    assert not client.record("homepage", "a")
    assert "collects it no more" in client.last_refusal
    assert client.record("theme", "dark")
    client.close()
    client = open_phone()
    assert not client.record("homepage", "b")
    account = client.inspect()
    assert account["stopped"][0]["metric"] == "homepage"
    assert "homepage: the collector no longer collects it" in render(account)
    assert account["counters"]["stopped:homepage"] == 2


def test_a_new_version_of_a_retired_metric_is_recorded(open_phone, collector, metrics_text) -> None:
    from rappor_core.metrics.file import parse_metrics

    client = open_phone()
    stop(client, collector, "metric_retired")
    client.close()
    newer = parse_metrics(metrics_text.replace("num_cohorts = 32", "num_cohorts = 16"))
    assert open_phone(metrics=newer).record("homepage", "a")


def test_a_paused_metric_sends_one_report_a_day(open_phone, collector, clock) -> None:
    client = open_phone()
    stop(client, collector, "metric_paused")
    sent = len(collector.requests)
    clock.now += 0.9 * DAY
    assert not client.record("homepage", "b")
    clock.now += 0.2 * DAY
    assert client.record("homepage", "b")
    assert not client.record("homepage", "b")  # also before its answer has come
    assert not client.flush(20)
    assert len(collector.requests) == sent + 1
    assert client.inspect()["metrics"][0]["values_memoised"] == 3  # the refused one stays charged
    clock.now += 0.9 * DAY
    assert not client.record("homepage", "b")
    clock.now += 0.2 * DAY
    collector.reasons.clear()
    assert client.record("homepage", "b")
    assert client.flush(20)
    assert client.inspect()["stopped"] == []
    assert client.record("homepage", "a")
    assert client.record("homepage", "b")


def test_a_busy_state_keeps_the_report_of_the_day(open_phone, collector, clock, tmp_path) -> None:
    client = open_phone()
    stop(client, collector, "metric_paused")
    assert not client.record("homepage", "a")
    clock.now += 1.1 * DAY
    holder = sqlite3.connect(tmp_path / "state" / "state.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert client.record("homepage", "a")
    holder.close()
    until(lambda: client.inspect()["held"] == 0)
    assert client.inspect()["queued"] == {"homepage": 1}


def test_a_withdrawal_forgets_what_was_stopped(open_phone, collector) -> None:
    client = open_phone()
    stop(client, collector, "metric_paused")
    assert client.set_consent(False)
    assert client.set_consent(True)
    assert client.inspect()["stopped"] == []
    assert client.record("homepage", "a")


@pytest.mark.parametrize("reason", ["unknown_metric", "day_closed", "metric_expired", "metric"])
def test_no_other_reason_stops_a_metric(open_phone, collector, reason) -> None:
    client = open_phone()
    stop(client, collector, reason)
    assert client.record("homepage", "a")
