"""What other bridges of OpenTelemetry drop in silence: here it is recorded, or warned of once."""

import logging
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from opentelemetry.metrics import CallbackOptions, Observation

from client_sdk.opentelemetry import DeclaredMeterProvider
from client_sdk.testing import ObservedApp
from rappor_core.metrics.file import parse_metrics
from tests.core.test_typescript import NUMBER, SUM
from tests.waiting import until

DECLARED = parse_metrics(NUMBER + SUM)


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObservedApp]:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    with ObservedApp(DECLARED, tmp_path) as opened:
        yield opened


@pytest.fixture
def provider(app: ObservedApp) -> Iterator[DeclaredMeterProvider]:
    made = DeclaredMeterProvider(app.client, DECLARED, read_seconds=0.01)
    yield made
    made.shutdown()


def observed(_: CallbackOptions) -> list[Observation]:
    return [Observation(3, {"user": "ada"}), Observation(4)]


def asked_once() -> Iterator[Iterable[Observation]]:
    yield []  # OpenTelemetry: the first `yield` takes the options
    yield [Observation(3), Observation(4)]


def test_a_gauge_of_a_declared_metric_records(app, provider) -> None:
    """apm-server #4718: gauges were dropped, and nothing said so."""
    provider.get_meter("app").create_gauge("Startup", "ms").set(3, {"user": "ada"})
    app.assert_recorded("startup", 3)


@pytest.mark.parametrize("callback", [lambda: observed, asked_once])
def test_an_observable_gauge_is_read_by_itself(app, provider, callback) -> None:
    """apm-server #4718, opentelemetry-python #3254: functions and generators, several numbers."""
    provider.get_meter("app").create_observable_gauge("startup", [callback()])
    until(lambda: len(app.client.recorded) >= 2)
    provider.shutdown()
    assert [one.value for one in app.client.recorded[:2]] == [3, 4]
    assert not any(one.refusal for one in app.client.recorded)


def test_a_gauge_is_read_a_last_time_and_no_more(app: ObservedApp) -> None:
    """A short run's numbers: the first reading, and that of `shutdown`."""
    provider = DeclaredMeterProvider(app.client, DECLARED)
    first = threading.Event()

    def observe(_: CallbackOptions) -> list[Observation]:
        first.set()
        return [Observation(3)]

    provider.get_meter("app").create_observable_gauge("startup", [observe])
    assert first.wait(10)
    provider.shutdown()
    provider.shutdown()
    app.assert_recorded("startup", 3, 3)


def test_a_callback_that_fails_harms_no_other(app, provider, caplog) -> None:
    """It is asked again, warned of once, and the app continues."""
    asked = []
    meter = provider.get_meter("app")
    meter.create_observable_gauge("startup", [lambda _: asked.append(1) or 1 / 0, observed])  # type: ignore[func-returns-value]
    until(lambda: len(asked) > 2)
    assert app.client.recorded
    assert caplog.text.count("could not be read: ZeroDivisionError") == 1


def test_what_is_dropped_of_a_declared_instrument_is_warned_of_once(app, provider, caplog) -> None:
    """apm-server #4718: attributes, an amount below 0, and what the client does not record."""
    caplog.set_level(logging.WARNING)
    counter = provider.get_meter("app").create_counter("crashes")
    for _ in range(2):
        counter.add(-1)
        counter.add(1, {"user": "ada@example.org"})
    app.assert_recorded("crashes", 1, 1)
    app.client.close()
    counter.add(1)
    counter.add(1)
    lines = [one.getMessage() for one in caplog.records if "'crashes'" in one.getMessage()]
    assert [line.partition(":")[0] for line in lines] == [
        "an amount of counter 'crashes' is dropped",
        "attributes of counter 'crashes' are dropped",
        "an amount of counter 'crashes' is not recorded",
    ]
    assert "closed" in lines[2]
    assert "ada" not in caplog.text


def test_a_callback_may_make_another_gauge(app, provider) -> None:
    """With a lock that its own thread cannot take again, the app would wait for ever."""
    meter = provider.get_meter("app")

    def plug_in(_: CallbackOptions) -> list[Observation]:
        meter.create_observable_gauge("startup", [observed])
        return []

    meter.create_observable_gauge("startup", [plug_in])
    until(lambda: len(app.client.recorded) >= 2)
