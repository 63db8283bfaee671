"""A clock that is ahead closes and deletes nothing that other clocks do not bear out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from collector.domain.clock import GuardedClock, utc_now
from collector.errors import NotServedError
from rappor_core.calendar import day_of
from tests.collector.support import (
    BOTH_DATABASES,
    TODAY,
    Bench,
    Clock,
    Sender,
    make_bench,
    make_metric,
    running_server,
)
from tests.waiting import until

METRIC = make_metric(min_reports=1, accept_days=7, keep_raw_days=30)
DAY = day_of(TODAY)


@dataclass
class TwoClocks:
    """A wall clock that may be set, and elapsed seconds that nobody sets."""

    wall: Clock = field(default_factory=Clock)
    seconds: float = 0.0

    def guarded(self) -> GuardedClock:
        return GuardedClock(self.wall, elapsed=lambda: self.seconds)

    def pass_hours(self, hours: float) -> None:
        self.wall.now += timedelta(hours=hours)
        self.seconds += 3600 * hours


def bench_with(clocks: TwoClocks, url: str) -> Bench:
    return make_bench(url, clocks.guarded())  # type: ignore[arg-type]


def accepted(bench: Bench, days_ago: int = 0) -> int:
    report = bench.sender.report(METRIC, TODAY - timedelta(days=days_ago))
    (receipt,) = bench.send([report])
    return receipt.accepted


def raw_reports(bench: Bench) -> int:
    with bench.database.read() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM raw_reports").scalar_one())


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> TwoClocks:
    """Without the server's clock, which has the real time, far from that of these."""
    check = GuardedClock.check
    monkeypatch.setattr(GuardedClock, "check", lambda self, seen, _time=None: check(self, seen))
    return TwoClocks()


@pytest.fixture
def bench(clocks: TwoClocks, database_url: str) -> Iterator[Bench]:
    made = bench_with(clocks, database_url)
    made.collector.push_metrics([METRIC], "test")
    yield made
    made.database.close()


def test_a_jump_of_the_clock_closes_and_deletes_nothing(bench: Bench, clocks: TwoClocks) -> None:
    assert accepted(bench) == 1
    clocks.wall.now += timedelta(days=60)
    assert bench.collector.close_due(daily=True) is None
    assert bench.collector.clock.is_suspect  # type: ignore[union-attr]
    assert accepted(bench) == accepted(bench, days_ago=7) == 1
    assert raw_reports(bench) == 3
    clocks.wall.now -= timedelta(days=60)
    assert not bench.collector.clock.is_suspect  # type: ignore[union-attr]
    assert bench.collector.close_due(daily=True) is None


def test_days_close_as_far_as_time_elapsed(bench: Bench, clocks: TwoClocks) -> None:
    assert accepted(bench) == 1
    clocks.wall.now += timedelta(days=60)
    for _ in range(8):
        closed = bench.collector.close_due(daily=True)
        assert closed is None or closed.folded == 0
        clocks.pass_hours(24)
    closed = bench.collector.close_due(daily=True)
    assert closed.folded == 1
    assert bench.collector.today == DAY + 8


@BOTH_DATABASES
def test_a_later_process_starts_at_the_last_day_seen(
    bench: Bench, clocks: TwoClocks, database_url: str
) -> None:
    clocks.pass_hours(24)  # a stop over midnight is nothing strange
    second = bench_with(clocks, database_url)
    assert second.collector.today == DAY + 1
    second.database.close()
    clocks.wall.now += timedelta(days=60)
    third = bench_with(clocks, database_url)
    assert third.collector.today == DAY + 1
    with pytest.raises(NotServedError, match="the clock is suspect"):
        third.collector.read_aggregate("test", METRIC.name)
    assert third.collector.confirm_clock("test") == TODAY + timedelta(days=61)
    assert third.collector.today == DAY + 61
    assert not third.collector.clock.is_suspect  # type: ignore[union-attr]
    third.database.close()


def test_a_clock_that_was_behind_may_be_put_right(
    bench: Bench, clocks: TwoClocks, database_url: str
) -> None:
    assert bench.collector.today == DAY
    clocks.wall.now -= timedelta(days=20)
    second = bench_with(clocks, database_url)
    assert second.collector.today == DAY - 20
    clocks.wall.now += timedelta(days=21)
    assert second.collector.today == DAY + 1
    clocks.wall.now += timedelta(days=1)
    assert second.collector.today == DAY + 1
    second.database.close()


def test_the_databases_clock_bears_a_clock_out(new_postgresql: Callable[[], str]) -> None:
    url, days = new_postgresql(), [-60]
    clock = GuardedClock(lambda: utc_now() + timedelta(days=days[0]))
    bench = make_bench(url, clock)  # type: ignore[arg-type]
    real = day_of(datetime.now(UTC).date())
    assert bench.collector.today == real - 60
    days[0] = 0
    assert bench.collector.today in (real, real + 1)
    days[0] = 60
    assert bench.collector.today in (real, real + 1)
    assert clock.is_suspect
    bench.database.close()


def test_metrics_and_log_say_that_the_clock_is_suspect(
    tmp_path: object, capfd: pytest.CaptureFixture[str]
) -> None:
    clocks = TwoClocks()
    given = {"housekeeping_seconds": 0.1, "log_level": "warning"}
    url = f"sqlite:///{tmp_path}/collector.db"
    with running_server([METRIC], clocks.guarded(), database=url, **given) as server:  # type: ignore[arg-type]
        assert "rappor_clock_suspect 0.0" in server.http.get("/metrics").text
        clocks.wall.now += timedelta(days=60)
        until(lambda: "rappor_clock_suspect 1.0" in server.http.get("/metrics").text)
        answer = server.post(Sender().reports(METRIC, 3)).json()
        assert [one["status"] for one in answer["results"]] == ["accepted"] * 3
        assert server.http.get("/readyz").status_code == 200
    assert capfd.readouterr().err.count('"event": "clock_suspect"') == 1
