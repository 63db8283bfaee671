"""The interface of an app: quiet in trouble, loud in development, honest in `inspect`."""

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Delivery, UnknownMetricError
from client_sdk.inspection import render
from client_sdk.testing import MemoryCollector
from rappor_core.errors import MetricsFileError, ParameterError, ValueRefusedError
from rappor_core.metrics.file import parse_metrics
from tests.waiting import flush_in_vain, until, waited

YEAR = 365 * 86_400.0


@pytest.mark.parametrize("consent", [None, "yes", 1])
def test_consent_is_said_in_so_many_words(open_client: Any, consent: object) -> None:
    with pytest.raises(ParameterError, match="consent"):
        open_client(consent=consent)


def test_mistakes_of_the_app_raise_when_opening(open_client: Any, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="address"):
        open_client(collector="collector.example.org")
    with pytest.raises(ParameterError, match="None is not an address"):
        open_client(collector=None)
    for key in ("a b", "", 5):
        with pytest.raises(ParameterError, match="the key is"):
            open_client(key=key)
    with pytest.raises(TypeError, match="PathLike"):
        open_client(metrics=3)  # of a file that is open, perhaps
    with pytest.raises(ParameterError, match="privacy_level"):
        open_client(privacy_level="none")
    with pytest.raises(ParameterError, match="mean_delay = -1"):
        open_client(delivery=Delivery(mean_delay=-1))
    with pytest.raises(ParameterError, match="delivery = 'x'"):
        open_client(delivery="x")
    with pytest.raises(ParameterError, match="state_dir = 5"):
        open_client(state_dir=5)
    with pytest.raises(MetricsFileError, match="nosuch"):
        open_client(metrics=tmp_path / "nosuch.toml")


def test_mistakes_raise_in_development_and_count_in_production(open_client: Any) -> None:
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


def test_without_consent_nothing_is_made(open_client: Any, tmp_path: Path) -> None:
    client = open_client(consent=False)
    assert client.status.condition == "no_consent"
    assert not client.record("homepage", "a")
    assert not (tmp_path / "state").exists()


def test_do_not_track_wins_and_wipes_nothing(
    open_client: Any, monkeypatch: pytest.MonkeyPatch, collector: MemoryCollector
) -> None:
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


def files_hold(directory: Path, marker: bytes) -> bool:
    return any(marker in path.read_bytes() for path in directory.iterdir())


def test_consent_withdrawn_wipes_all_but_the_numbers(open_client: Any, tmp_path: Path) -> None:
    client = open_client(delivery=Delivery())
    for value in ("a", "b"):
        assert client.record("homepage", value)
    state = client._life.session.state
    secret = state.identity().secret
    digests = [entry.digest for entry in state.entries("homepage")]
    committed = client.inspect()["metrics"][0]["epsilon_committed"]
    client.close()  # reading a file that SQLite has open would drop its locks
    assert files_hold(tmp_path / "state", secret)
    client = open_client(delivery=Delivery())

    client.set_consent(False)

    assert client.status.condition == "no_consent"
    assert not client.record("homepage", "a")
    for marker in (secret, *digests):
        assert not files_hold(tmp_path / "state", marker)
    client.set_consent(True)
    account = client.inspect()
    assert account["queued"] == {}
    (line,) = account["metrics"]
    assert line["values_memoised"] == 3
    assert line["epsilon_committed"] == pytest.approx(committed)
    assert line["epsilon_spent"] == 0  # nothing was sent
    assert not client.record("homepage", "a")  # three values were spent: none is left
    assert client.record("crashed", True)


def test_opening_without_consent_wipes_an_earlier_run(
    open_client: Any, collector: MemoryCollector
) -> None:
    with open_client(delivery=Delivery()) as client:
        client.record("homepage", "a")
    open_client(consent=False).close()
    with open_client() as client:
        assert client.flush(20)
    assert not collector.counted()


def test_a_person_sees_what_is_queued_and_sent(open_client: Any) -> None:
    client = open_client(delivery=Delivery())
    client.record("homepage", "my-private-page")
    client.record("theme", "dark")
    account = client.inspect()
    assert account["queued"] == {"homepage": 1, "theme": 1}
    assert "my-private-page" not in json.dumps(account)
    text = render(account)
    assert "homepage: reports made: 1" in text
    assert "after what was sent so far" in text
    client.flush(20)
    after = client.inspect()
    assert after["queued"] == {}
    assert after["counters"]["accepted:homepage"] == 1


def test_a_read_only_place_keeps_the_client_quiet(open_client: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    client = open_client(state_dir=tmp_path / "file" / "state")
    assert client.status.condition == "state_unavailable"
    assert not client.record("homepage", "a")
    assert not client.flush(1)
    (tmp_path / "file").unlink()  # the trouble is over: the next look finds out
    assert client.flush(1)
    assert client.record("homepage", "a")


def test_a_full_disk_is_counted_and_recovers(open_client: Any) -> None:
    client = open_client(delivery=Delivery(), development=False)
    assert client.record("homepage", "a")
    database = client._life.session.state.database
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    outcomes = [client.record("homepage", "a") for _ in range(200)]
    assert not all(outcomes)
    database.execute("PRAGMA max_page_count = 100000").fetchall()
    assert client.record("homepage", "a")
    account = client.inspect()
    assert account["counters"]["trouble:OperationalError"] == outcomes.count(False)
    assert account["queued"]["homepage"] == 2 + outcomes.count(True)


def test_a_defect_never_reaches_an_app_in_production(open_client: Any, clock: Any) -> None:
    clock.now = float("nan")
    development = open_client(delivery=Delivery())
    with pytest.raises(ValueError, match="NaN"):
        development.record("homepage", "a")
    production = open_client(delivery=Delivery(), development=False)
    assert not production.record("homepage", "a")
    assert production.inspect()["counters"]["fault:ValueError"] == 1


@pytest.mark.parametrize("jump", [10 * YEAR, -10 * YEAR])
def test_a_clock_that_jumps_by_years_loses_nothing(
    open_client: Any, collector: MemoryCollector, clock: Any, jump: float
) -> None:
    client = open_client()
    for _ in range(3):
        assert client.record("homepage", "a")
        clock.now += jump
        assert client.record("homepage", "a")
        clock.now -= jump
    assert client.flush(20)
    assert collector.counted() == {"homepage": 6}


def test_a_time_of_sending_far_ahead_is_redrawn(
    open_client: Any, collector: MemoryCollector, clock: Any
) -> None:
    clock.now += 10 * YEAR
    with open_client(delivery=Delivery(mean_delay=0.05)) as client:
        client.record("homepage", "a")
        state = client._life.session.state
        until(lambda: state.get("send_at") is not None or collector.counted())
    clock.now -= 10 * YEAR
    with open_client(delivery=Delivery(mean_delay=0.05)):
        until(collector.counted)
    assert collector.counted() == {"homepage": 1}


def test_threads_and_coroutines_record_side_by_side(
    open_client: Any, collector: MemoryCollector
) -> None:
    client = open_client()

    def record() -> None:
        for _ in range(100):
            assert client.record("homepage", "a")

    threads = [threading.Thread(target=record) for _ in range(4)]
    for thread in threads:
        thread.start()

    async def app() -> None:
        for _ in range(50):
            assert client.record("homepage", "a")
            await asyncio.sleep(0)

    asyncio.run(app())
    for thread in threads:
        thread.join()
    assert client.flush(20)
    assert collector.counted() == {"homepage": 450}


def test_a_closed_client_records_nothing_and_closes_again(open_client: Any) -> None:
    client = open_client()
    client.close()
    client.close()
    assert client.status.condition == "closed"
    assert not client.record("homepage", "a")
    assert not client.flush(1)


def test_recording_does_not_wait_for_a_hanging_collector(
    open_client: Any, collector: MemoryCollector
) -> None:
    asked, release = threading.Event(), threading.Event()

    def hang(_: object) -> None:
        asked.set()
        release.wait(10)

    collector.answer = hang
    client = open_client(delivery=Delivery(mean_delay=0, timeout=10))
    client.record("homepage", "a")
    assert asked.wait(10)
    assert waited(lambda: [client.record("homepage", "a") for _ in range(100)]) < 1.0
    client.close()
    release.set()


def test_two_clients_of_one_process_share_a_directory(
    open_client: Any, collector: MemoryCollector
) -> None:
    one, other = open_client(), open_client()
    assert one.record("homepage", "a")
    assert other.record("homepage", "a")
    one.flush(5)
    other.flush(5)
    assert collector.counted() == {"homepage": 2}
    assert collector.duplicates == 0


def test_a_client_that_lost_its_secret_goes_quiet(open_client: Any) -> None:
    one, other = open_client(delivery=Delivery()), open_client(delivery=Delivery())
    assert one.record("homepage", "a")
    assert other.record("homepage", "a")
    other.set_consent(False)
    assert not one.record("homepage", "a")
    assert one.status.condition == "no_consent"
    assert not one.record("homepage", "a")


def test_a_period_without_data_is_reported_at_start(
    open_client: Any, collector: MemoryCollector, clock: Any, metrics_text: str
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


def test_development_lets_a_key_go_to_an_emulator(open_client: Any) -> None:
    client = open_client(collector="http://10.0.2.2:9", key="k", delivery=Delivery())
    assert client.status.condition == "active"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_shows_in_the_status(
    open_client: Any, collector: MemoryCollector, status: int
) -> None:
    collector.answer = lambda _: (status, {}, b"{}")
    client = open_client(key="k")
    assert client.record("homepage", "a")
    flush_in_vain(client, lambda: client.status.condition == "key_refused")
    assert client.record("homepage", "a")  # nothing is lost meanwhile
    collector.answer = None
    assert client.flush(20)
    assert client.status.condition == "active"
    assert collector.counted() == {"homepage": 2}
