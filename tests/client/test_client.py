"""The interface of an app: quiet in trouble, loud in development, honest in `inspect`."""

import time

import pytest

from client_sdk import Delivery, UnknownMetricError
from rappor_core.errors import MetricsFileError, ParameterError, ValueRefusedError
from rappor_core.metrics.file import parse_metrics
from tests.client.lock_support import holds
from tests.waiting import flush_in_vain, until

YEAR = 365 * 86_400.0


MISTAKES = [
    ("consent", None, "consent"),
    ("consent", "yes", "consent"),
    ("consent", 1, "consent"),
    ("collector", "collector.example.org", "address"),
    ("collector", None, "None is not an address"),
    ("key", "a b", "the key is"),
    ("key", "a\r\nX: y", "the key is"),
    ("key", "", "the key is"),
    ("key", 5, "the key is"),
    ("privacy_level", "none", "privacy_level"),
    ("delivery", "x", "delivery = 'x'"),
    ("state_dir", 5, "state_dir = 5"),
    ("state_dir", "", "state_dir = ''"),
]


@pytest.mark.parametrize(("name", "value", "said"), MISTAKES)
def test_mistakes_of_the_app_raise_when_opening(open_client, name, value, said) -> None:
    with pytest.raises(ParameterError, match=said):
        open_client(**{name: value})


def test_metrics_that_are_none_raise_when_opening(open_client, tmp_path) -> None:
    with pytest.raises(TypeError, match="PathLike"):
        open_client(metrics=3)  # of a file that is open, perhaps
    with pytest.raises(MetricsFileError, match="nosuch"):
        open_client(metrics=tmp_path / "nosuch.toml")


def test_mistakes_raise_in_development_and_count_in_production(open_client) -> None:
    development = open_client()
    with pytest.raises(UnknownMetricError):
        development.record("nosuch", 1)
    with pytest.raises(ValueRefusedError):
        development.record("theme", "no such color")
    production = open_client(development=False)
    assert not production.record("nosuch", 1)
    assert not production.record("theme", "no such color")
    assert not production.record("homepage", {"a", "set"})
    counters = production.inspect()["counters"]
    assert counters["mistake:UnknownMetricError"] == 1
    assert counters["mistake:ValueRefusedError"] == 2


def test_without_consent_nothing_is_made(open_client, tmp_path) -> None:
    client = open_client(consent=False)
    assert client.status.condition == "no_consent"
    assert not client.record("homepage", "a")
    assert not (tmp_path / "state").exists()


def test_do_not_track_wins_and_wipes_nothing(open_client, monkeypatch, collector) -> None:
    with open_client(delivery=Delivery()) as client:
        assert client.record("homepage", "a")
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    with open_client() as client:
        assert client.status.condition == "do_not_track"
        assert not client.record("homepage", "a")
        client.set_consent(True)
        assert client.status.condition == "do_not_track"
        assert not client.flush(1)  # what waits is kept
    assert not collector.requests
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    with open_client() as client:
        assert client.flush(20)
    assert collector.counted() == {"homepage": 1}


def test_consent_withdrawn_wipes_all_but_the_numbers(open_client, tmp_path) -> None:
    client = open_client(delivery=Delivery())
    for value in ("a", "b"):
        assert client.record("homepage", value)
    state = client._life.session.state
    secret = state.identity().secret
    digests = [entry.digest for entry in state.entries("homepage")]
    committed = client.inspect()["metrics"][0]["epsilon_committed"]
    client.close()  # reading a file that SQLite has open would drop its locks
    assert holds(tmp_path / "state", secret)
    client = open_client(delivery=Delivery())

    client.set_consent(False)

    assert client.status.condition == "no_consent"
    assert not client.record("homepage", "a")
    for marker in (secret, *digests):
        assert not holds(tmp_path / "state", marker)
    client.set_consent(True)
    account = client.inspect()
    assert account["queued"] == {}
    (line,) = account["metrics"]
    assert line["values_memoised"] == 3
    assert line["epsilon_committed"] == pytest.approx(committed)
    assert line["epsilon_spent"] == 0  # nothing was sent
    assert not client.record("homepage", "a")  # three values were spent: none is left
    assert client.record("crashed", True)


def test_a_read_only_place_keeps_the_client_quiet(open_client, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    client = open_client(state_dir=tmp_path / "file" / "state")
    assert client.status.condition == "state_unavailable"
    assert not client.record("homepage", "a")
    assert not client.flush(1)
    (tmp_path / "file").unlink()  # the trouble is over: the next look finds out
    assert client.flush(1)
    assert client.record("homepage", "a")


def test_a_defect_never_reaches_an_app_in_production(open_client, clock) -> None:
    clock.now = float("nan")
    development = open_client(delivery=Delivery())
    with pytest.raises(ValueError, match="NaN"):
        development.record("homepage", "a")
    production = open_client(delivery=Delivery(), development=False)
    assert not production.record("homepage", "a")
    assert production.inspect()["counters"]["fault:ValueError"] == 1


@pytest.mark.parametrize("jump", [10 * YEAR, -10 * YEAR])
def test_a_clock_that_jumps_by_years_loses_nothing(open_client, collector, clock, jump) -> None:
    client = open_client()
    for _ in range(3):
        assert client.record("homepage", "a")
        clock.now += jump
        assert client.record("homepage", "a")
        clock.now -= jump
    assert client.flush(20)
    assert collector.counted() == {"homepage": 6}


def test_a_time_of_sending_far_ahead_is_redrawn(open_client, collector, clock) -> None:
    clock.now += 10 * YEAR
    with open_client(delivery=Delivery(mean_delay=0.05)) as client:
        client.record("homepage", "a")
        state = client._life.session.state
        until(lambda: state.get("send_at") is not None or collector.counted())
    clock.now -= 10 * YEAR
    with open_client(delivery=Delivery(mean_delay=0.05)):
        until(collector.counted)
    assert collector.counted() == {"homepage": 1}


def test_a_closed_client_records_nothing_and_closes_again(open_client) -> None:
    client = open_client()
    client.close()
    client.close()
    assert client.status.condition == "closed"
    assert not client.record("homepage", "a")
    assert not client.flush(1)


def test_a_period_without_data_is_reported_at_start(
    open_client, collector, clock, metrics_text
) -> None:
    text = metrics_text.replace('fallback = "other"\n', 'fallback = "other"\nno_data = "none"\n')
    metrics = parse_metrics(text)
    with open_client(metrics=metrics) as client:
        assert client.record("homepage", "a")
        assert client.flush(20)
    clock.now += 3 * 86_400
    with open_client(metrics=metrics) as client:
        deadline = time.monotonic() + 30
        while collector.counted()["homepage"] < 3 and time.monotonic() < deadline:
            client.flush(0.1)
    assert sorted(report.day.day for report in collector.reports) == [21, 22, 23]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_shows_in_the_status(open_client, collector, status) -> None:
    collector.answer = lambda _: (status, {}, b"{}")
    client = open_client(key="k")
    assert client.record("homepage", "a")
    flush_in_vain(client, lambda: client.status.condition == "key_refused")
    assert client.record("homepage", "a")  # nothing is lost meanwhile
    collector.answer = None
    assert client.flush(20)
    assert client.status.condition == "active"
    assert collector.counted() == {"homepage": 2}
