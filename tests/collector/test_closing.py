"""Closing is short and taken up again, and a clock that is ahead closes and deletes nothing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import event, text

from collector.domain import closing
from collector.domain.clock import GuardedClock, utc_now
from collector.errors import NotServedError
from collector.store.database import FOLD_LOCK
from collector.store.registry import load_frontiers
from rappor_core.calendar import day_of
from rappor_server.errors import StorageError
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

METRICS = [make_metric(f"m{number}", min_reports=1) for number in range(3)]
YESTERDAY = TODAY - timedelta(days=1)


def fill(bench: Bench) -> None:
    bench.collector.push_metrics(METRICS, "test")
    for metric in METRICS:
        for day in (YESTERDAY, TODAY):
            bench.send(bench.sender.reports(metric, 5, day))


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_reports_are_counted_while_a_day_is_folded(bench: Bench, other: Bench) -> None:
    """A folding that lasts holds up nobody who counts; two foldings are one after the other."""
    bench.collector.push_metrics(METRICS, "test")
    with bench.database.fold():
        (receipt,) = other.send(other.sender.reports(METRICS[0], 5))
        assert receipt.accepted == 5
        with bench.database.add() as connection:
            second = text(f"SELECT pg_try_advisory_xact_lock({FOLD_LOCK})")
            assert connection.execute(second).scalar_one() is False
    assert bench.collector.list_metrics()[0]["accepted"] == 5


@BOTH_DATABASES
def test_days_are_folded_in_many_transactions(bench, monkeypatch) -> None:
    """Between two of them reports are counted, also on SQLite; none is held up for all of them."""
    fill(bench)
    pauses: list[float] = []

    def send_meanwhile(seconds: float) -> None:
        pauses.append(seconds)
        late = bench.sender.report(METRICS[0], TODAY + timedelta(days=1))
        (receipt,) = bench.send([late])
        assert receipt.accepted == 1

    monkeypatch.setattr(closing, "FOLD_SECONDS", 0)
    monkeypatch.setattr(closing, "sleep", send_meanwhile)
    bench.clock.pass_days(1)
    closed = bench.collector.close_day(TODAY, "test")
    assert (len(closed.metrics), closed.folded, len(pauses)) == (3, 6, 6)
    monkeypatch.undo()
    bench.clock.pass_days(1)
    bench.collector.close_day(TODAY + timedelta(days=1), "test")
    assert bench.collector.read_aggregate("test", "m0").num_reports == 16


@BOTH_DATABASES
def test_a_broken_closing_resumes_at_next_look(bench, other, monkeypatch) -> None:
    """Another process closes; until then, days are closed, and answers hold whole days or none."""
    fill(bench)

    def die(_seconds: float) -> None:
        raise StorageError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(closing, "FOLD_SECONDS", 0)
        patched.setattr(closing, "sleep", die)
        with pytest.raises(StorageError, match="killed"):
            bench.collector.close_day(TODAY, "test")
    (receipt,) = other.send(other.sender.reports(METRICS[2], 1))
    assert receipt.accepted == 0
    closed = other.collector.close_due(daily=True)
    assert (closed.metrics, closed.folded) == ((), 5)
    for metric in METRICS:
        assert other.collector.read_aggregate("test", metric.name).num_reports == 10


@BOTH_DATABASES
def test_one_statement_closes_all_metrics_a_day(bench, monkeypatch) -> None:
    """Who reports waits for this transaction: it must not grow with the number of metrics."""
    bench.collector.push_metrics(METRICS, "test")
    bench.send(bench.sender.reports(METRICS[0], 5, YESTERDAY))
    ran: list[str] = []
    event.listen(
        bench.database.engine, "before_cursor_execute", lambda *given: ran.append(given[2])
    )
    bench.collector.close_day(YESTERDAY, "test")
    assert sum(statement.startswith("UPDATE frontiers") for statement in ran) == 1
    with bench.database.read() as connection:
        assert set(load_frontiers(connection).values()) == {day_of(YESTERDAY)}


def bench_on(url: str, day: date) -> Bench:
    return make_bench(url, Clock(datetime(day.year, day.month, day.day, 12, tzinfo=UTC)))


def refused(read: Callable[[], object]) -> NotServedError:
    with pytest.raises(NotServedError) as caught:
        read()
    return caught.value


def closed_through(bench: Bench, day: date) -> dict[str, str]:
    """By metric, the last closed day after the clock's look at noon of a day."""
    bench.clock.now = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    bench.collector.close_due()
    return {one["name"]: one["closed_through"] for one in bench.collector.list_metrics()}


@pytest.mark.parametrize("reason", ["no_closed_days", "day_open"])
def test_a_refusal_tells_when_versions_close(sqlite_url: str, reason: str) -> None:
    """The retired version takes reports for 30 days, the current one for 7."""
    bench = bench_on(sqlite_url, date(2026, 11, 8))
    patient = make_metric(min_reports=1, accept_days=30, num_cohorts=3)
    current = make_metric(min_reports=1, accept_days=7)
    bench.collector.push_metrics([patient], "test")
    bench.collector.push_metrics([current], "test", weaken=True)
    bench.collector.retire_metric(current.name, "test", patient.params_id)
    if reason == "day_open":
        bench.send(bench.sender.reports(current, 3, date(2026, 11, 1)))
    bench.collector.close_day(date(2026, 11, 1), "test")
    refusal = refused(
        lambda: bench.collector.read_aggregate("test", current.name, last=date(2026, 11, 2))
    )
    assert (refusal.details["reason"], refusal.details["closes"]) == (reason, "2026-12-03")
    assert "takes reports through 2026-11-09, and closes on 2026-12-03" in str(refusal)
    assert closed_through(bench, date(2026, 12, 2)) == {current.name: "2026-11-01"}
    assert closed_through(bench, date(2026, 12, 3)) == {current.name: "2026-11-02"}
    bench.database.close()


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
def guarded(clocks: TwoClocks, database_url: str) -> Iterator[Bench]:
    made = bench_with(clocks, database_url)
    made.collector.push_metrics([METRIC], "test")
    yield made
    made.database.close()


def test_a_jump_of_the_clock_closes_and_deletes_nothing(guarded: Bench, clocks: TwoClocks) -> None:
    assert accepted(guarded) == 1
    clocks.wall.now += timedelta(days=60)
    assert guarded.collector.close_due(daily=True) is None
    assert guarded.collector.clock.is_suspect  # type: ignore[union-attr]
    assert accepted(guarded) == accepted(guarded, days_ago=7) == 1
    assert raw_reports(guarded) == 3
    clocks.wall.now -= timedelta(days=60)
    assert not guarded.collector.clock.is_suspect  # type: ignore[union-attr]
    assert guarded.collector.close_due(daily=True) is None


def test_days_close_as_far_as_time_elapsed(guarded: Bench, clocks: TwoClocks) -> None:
    assert accepted(guarded) == 1
    clocks.wall.now += timedelta(days=60)
    for _ in range(8):
        closed = guarded.collector.close_due(daily=True)
        assert closed is None or closed.folded == 0
        clocks.pass_hours(24)
    closed = guarded.collector.close_due(daily=True)
    assert closed.folded == 1
    assert guarded.collector.today == DAY + 8


@BOTH_DATABASES
def test_a_later_process_starts_at_the_last_day_seen(guarded, clocks, database_url) -> None:
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


def test_a_clock_that_was_behind_may_be_put_right(guarded, clocks, database_url) -> None:
    assert guarded.collector.today == DAY
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


def test_metrics_and_log_say_that_the_clock_is_suspect(tmp_path, capfd) -> None:
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
