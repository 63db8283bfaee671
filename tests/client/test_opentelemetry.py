"""The bridge from OpenTelemetry: what is declared is recorded, and nothing else leaves."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_sdk.opentelemetry import DeclaredMeterProvider
from client_sdk.testing import ObservedApp
from rappor_core.metrics.file import parse_metrics
from tests.core.test_typescript import NUMBER, SUM

DECLARED = parse_metrics(NUMBER + SUM)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObservedApp]:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    with ObservedApp(DECLARED, tmp_path) as opened:
        yield opened


def test_declared_instruments_record_through_their_metrics(app) -> None:
    meter = DeclaredMeterProvider(app.client, DECLARED).get_meter("library", "1.0")
    counter, histogram = meter.create_counter("Crashes"), meter.create_histogram("startup", "ms")
    counter.add(1, {"user": "ada@example.org"})
    counter.add(2)
    meter.create_up_down_counter("crashes").add(1)
    histogram.record(812.5, {"file": "/home/ada/x"})
    app.assert_recorded("crashes", 1, 2, 1)
    app.assert_recorded("startup", 812.5)
    assert "ada" not in str(app.client.inspect())


def test_the_undeclared_is_dropped_and_told_once(app, caplog) -> None:
    caplog.set_level(logging.WARNING)
    provider = DeclaredMeterProvider(app.client, DECLARED)
    for library in ("one", "two"):
        meter = provider.get_meter(library)
        meter.create_counter("requests").add(1)
        meter.create_counter("startup").add(1)  # declared, but no sum
        meter.create_histogram("crashes").record(3)
        meter.create_observable_gauge("memory", [lambda _: pytest.fail("asked")])
        meter.create_observable_counter("crashes", [lambda _: pytest.fail("asked")])
        meter.create_observable_up_down_counter("fifth", [lambda _: pytest.fail("asked")])
        meter.create_gauge("load").set(3)
        meter.create_up_down_counter("waiting").add(3)
    provider.force_flush()
    assert app.client.recorded == []
    app.assert_nothing_sent()
    told = [one.getMessage() for one in caplog.records if "is dropped" in one.getMessage()]
    assert [line.split(" is dropped")[0] for line in told] == [
        "counter 'requests'", "counter 'startup'", "histogram 'crashes'",
        "observable gauge 'memory'", "observable counter 'crashes'",
        "observable up-down counter 'fifth'", "gauge 'load'", "up-down counter 'waiting'",
    ]  # fmt: skip
    assert "of_period" in told[0]
    assert "running total" in told[4]
