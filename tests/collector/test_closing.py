"""Closing is short, reports go on being counted alongside it, and what broke off is taken up."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import event, text

from collector.domain import closing
from collector.errors import NotServedError
from collector.store.database import FOLD_LOCK
from collector.store.registry import load_frontiers
from rappor_core.calendar import day_of
from rappor_server.errors import StorageError
from tests.collector.support import BOTH_DATABASES, TODAY, Bench, Clock, make_bench, make_metric

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
def test_days_are_folded_in_many_transactions(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_a_broken_closing_resumes_at_next_look(
    bench: Bench, other: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another process. Until then the days are closed, and answers hold whole days or none."""
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
def test_one_statement_closes_all_metrics_a_day(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
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
