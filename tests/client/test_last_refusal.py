"""`record` says why it returned False: to the developer, in `last_refusal` and in `inspect`."""

import logging
import time

import pytest

from client_sdk.randomization.metric_encoder import MAX_VALUE_CHARS
from rappor_core.errors import ValueRefusedError
from rappor_core.metrics.file import parse_metrics
from tests.client.conftest import METRICS

DAILY = parse_metrics(METRICS.replace("max_reports_per_period = 10000\n", ""))


def test_a_full_period_is_named(open_client, caplog) -> None:
    client = open_client(metrics=DAILY)
    assert client.last_refusal == ""
    assert client.record("homepage", "a")
    with caplog.at_level(logging.WARNING):
        assert not client.record("homepage", "b")
        assert not client.record("homepage", "c")
    assert client.last_refusal == "homepage has its one report of today"
    assert [r.getMessage() for r in caplog.records] == [f"not recorded: {client.last_refusal}"]
    assert client.inspect()["last_refusal"] == client.last_refusal


def test_in_production_nothing_is_logged(open_client, caplog) -> None:
    client = open_client(metrics=DAILY, development=False)
    assert [client.record("homepage", "a") for _ in range(3)] == [True, False, False]
    assert "one report of today" in client.last_refusal
    assert not client.record("theme", "secret color")
    assert "not one of its 3 categories" in client.last_refusal
    assert "secret color" not in client.last_refusal
    assert not client.record("nosuch", 1)
    assert "'nosuch' is not declared" in client.last_refusal
    assert not caplog.records


def test_reasons_of_the_device_are_sentences(open_client, clock) -> None:
    client = open_client()
    clock.now = 5e9
    assert not client.record("homepage", "a")
    assert client.last_refusal.startswith("homepage expired on 2099-06-30")
    client.set_consent(False)
    assert not client.record("homepage", "a")
    assert client.last_refusal == "nothing is recorded: the status is 'no_consent'"


@pytest.mark.parametrize("length", [MAX_VALUE_CHARS + 1, 50_000_000])
def test_a_long_value_is_refused_at_once(open_client, length) -> None:
    """50 million characters blocked the app for 254 ms. Seconds are those of the app's thread."""
    client, value = open_client(), "x" * length
    client.record("homepage", "a")
    started = time.thread_time()
    with pytest.raises(ValueRefusedError, match="2,048 characters at most"):
        client.record("homepage", value)
    assert time.thread_time() - started < 0.02
    assert client.record("homepage", "x" * MAX_VALUE_CHARS)


def test_the_longest_value_is_quick_at_its_worst(open_client) -> None:
    client, value = open_client(), "\u0301\u0327" * (MAX_VALUE_CHARS // 2)
    client.record("homepage", "a")
    started = time.thread_time()
    assert client.record("homepage", value)
    assert time.thread_time() - started < 0.2  # about 10 ms with nothing alongside it
