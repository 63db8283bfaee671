"""No two answers differ by a few reports, whatever is sent, closed and asked, in any order.

Each report of a test sets one bit of its own, so that an answer tells exactly which reports are
in it, and the difference of two answers can be counted in reports.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from collector.errors import NotServedError
from collector.service.aggregates import read_aggregate
from collector.service.writing import Receipt
from rappor_core.metrics import Metric
from tests.collector.support import NOON, TODAY, Bench, Clock, make_bench, make_metric

MIN_REPORTS = 10
MAX_REPORTS = 400
SHAPE = {"num_bits": MAX_REPORTS, "min_reports": MIN_REPORTS, "accept_days": 3}
VERSIONS = (make_metric(**SHAPE), make_metric(**SHAPE, num_cohorts=3))


@dataclass
class World:
    """A collector, and every answer that it ever gave, as sets of reports by version."""

    bench: Bench
    metrics: tuple[Metric, ...] = VERSIONS
    sent: int = 0
    accepted: set[int] = field(default_factory=set)
    answers: dict[int, list[frozenset[int]]] = field(default_factory=dict)

    def send(self, version: int, day: date, count: int) -> None:
        metric = self.metrics[version]
        numbers = range(self.sent, min(self.sent + count, MAX_REPORTS))
        reports = [
            self.bench.sender.report(metric, day, bits=(1 << number).to_bytes(50, "little"))
            for number in numbers
        ]
        self.sent += len(reports)
        if not reports:
            return
        receipt = self.bench.send(reports)[0]
        assert isinstance(receipt, Receipt)
        results = zip(numbers, receipt.results, strict=True)
        self.accepted |= {number for number, refusal in results if refusal is None}

    def ask(self, version: int, first: date | None, last: date | None) -> frozenset[int] | None:
        """Ask, and keep the answer; None where it was refused."""
        metric = self.metrics[version]
        self.bench.collector.close_due()
        try:
            with self.bench.database.read() as connection:  # as a route does, without the audit
                found = read_aggregate(
                    connection, metric.name, params_id=metric.params_id, first=first, last=last
                )
        except NotServedError:
            return None
        counts = [sum(column) for column in zip(*found.bit_counts, strict=True)]
        answer = frozenset(number for number, count in enumerate(counts) if count)
        assert max(counts) == 1
        assert found.num_reports == len(answer)
        self.answers.setdefault(version, []).append(answer)
        return answer

    def ask_every_window(self) -> None:
        for version in range(len(self.metrics)):
            self.ask(version, None, None)
            for length in range(1, 5):
                for start in range(-6, 5):
                    first = TODAY + timedelta(days=start)
                    self.ask(version, first, first + timedelta(days=length - 1))

    def check(self) -> None:
        for answers in self.answers.values():
            assert all(answer <= self.accepted for answer in answers)
            for one, other in combinations(set(answers), 2):
                assert len(one ^ other) >= MIN_REPORTS
                assert len(one) >= MIN_REPORTS


def _without_sync(connection: sqlite3.Connection, _record: object) -> None:
    connection.execute("PRAGMA synchronous=OFF")  # what is tested here does not outlive the test


@contextmanager
def new_world() -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(f"sqlite:///{Path(folder)}/c.sqlite", Clock(NOON))
        event.listen(bench.database.engine, "connect", _without_sync)
        bench.database.engine.dispose()
        bench.collector.push_metrics([VERSIONS[0]], "test")
        bench.collector.push_metrics([VERSIONS[1]], "test")
        yield World(bench)
        bench.database.close()


days = st.integers(-5, 4).map(lambda offset: TODAY + timedelta(days=offset))
versions = st.sampled_from([0, 1])
operations = st.one_of(
    st.tuples(st.just("send"), versions, days, st.integers(1, 14)),
    st.tuples(st.just("close"), days),
    st.tuples(st.just("pass"), st.integers(1, 5)),
    st.tuples(st.just("ask"), versions, st.none() | days, st.none() | days),
    st.tuples(st.just("ask_all")),
)


@settings(max_examples=15, deadline=None)
@given(st.lists(operations, min_size=4, max_size=25))
def test_two_answers_never_differ_by_a_few_reports(script: list[tuple]) -> None:  # type: ignore[type-arg]
    with new_world() as world:
        for name, *arguments in script:
            if name == "send":
                world.send(*arguments)
            elif name == "close":
                if arguments[0] <= world.bench.clock.now.date():
                    world.bench.collector.close_day(arguments[0], "test")
            elif name == "pass":
                world.bench.clock.pass_days(*arguments)
            elif name == "ask":
                world.ask(*arguments)
            else:
                world.ask_every_window()
        world.ask_every_window()
        world.bench.clock.pass_days(9)
        world.ask_every_window()
        world.check()


@pytest.fixture
def world() -> Iterator[World]:
    with new_world() as made:
        yield made


def day(offset: int) -> date:
    return TODAY + timedelta(days=offset)


def test_a_thin_day_waits_for_the_next_and_cannot_be_cut_off_again(world: World) -> None:
    for offset, count in ((-3, 12), (-2, 4), (-1, 9), (0, 30)):
        world.send(0, day(offset), count)
    world.bench.collector.close_day(day(-2), "test")
    assert world.ask(0, None, None) == frozenset(range(12))  # day -2 waits
    assert world.ask(0, None, day(-2)) is None
    world.bench.collector.close_day(day(0), "test")
    assert world.ask(0, day(-3), day(-3)) == frozenset(range(12))
    assert world.ask(0, day(-2), day(-1)) == frozenset(range(12, 25))
    assert world.ask(0, day(0), day(0)) == frozenset(range(25, 55))
    for first, last in ((-2, -2), (-1, -1), (-1, 0), (-3, -2)):
        assert world.ask(0, day(first), day(last)) is None
    world.check()


def test_a_refusal_says_why_and_which_days_are_served(world: World) -> None:
    read = world.bench.collector.read_aggregate
    name = VERSIONS[0].name
    version = {"params_id": VERSIONS[0].params_id}

    def reason(first: date | None = None, last: date | None = None) -> dict[str, object]:
        with pytest.raises(NotServedError) as caught:
            read("test", name, first=first, last=last, **version)
        return dict(caught.value.details)

    assert reason()["reason"] == "no_closed_days"
    world.send(0, day(-2), 3)
    world.bench.collector.close_day(day(-2), "test")
    assert reason()["reason"] == "too_few_reports"
    world.send(0, day(-1), 8)
    world.bench.collector.close_day(day(-1), "test")
    served = {"first_day": str(day(-2)), "last_day": str(day(-1))}
    assert reason(day(-1), day(-1)) == {
        "reason": "window_cuts_block",
        "blocks": [[str(day(-2)), str(day(-1))]],
        "served": served,
    }
    closes = str(day(0 + 3 + 1))
    assert reason(day(-2), day(0)) == {"reason": "day_open", "closes": closes, "served": served}
    assert reason(day(-9), day(-8))["reason"] == "no_reports"
    assert reason(day(0), day(-1))["reason"] == "window_backwards"
    world.bench.collector.close_day(day(0), "test")
    assert reason(day(-2), day(0))["reason"] == "too_few_reports"


def test_an_empty_day_belongs_to_the_block_after_it(world: World) -> None:
    world.send(0, day(-3), 10)
    world.send(0, day(-1), 10)
    world.bench.collector.close_day(day(-1), "test")
    assert world.ask(0, day(-2), day(-1)) == frozenset(range(10, 20))
    assert world.ask(0, day(-1), day(-1)) is None


def test_closing_a_later_day_first_closes_the_earlier_ones_with_it(world: World) -> None:
    world.send(0, day(-1), 10)
    world.bench.collector.close_day(day(-1), "test")
    world.send(0, day(-3), 5)  # refused: closed with day -1
    assert len(world.accepted) == 10
    world.bench.collector.close_day(day(-3), "test")  # changes nothing
    assert world.ask(0, None, None) == frozenset(range(10))


def test_raising_or_lowering_min_reports_never_touches_sealed_blocks(world: World) -> None:
    world.send(1, day(-2), 12)
    world.bench.collector.close_day(day(-2), "test")
    first = world.ask(1, None, None)
    stricter = make_metric(**{**SHAPE, "min_reports": 20}, num_cohorts=3)
    world.bench.collector.push_metrics([stricter], "test")
    assert world.ask(1, None, None) == first
    world.send(1, day(-1), 15)
    world.bench.collector.close_day(day(-1), "test")
    assert world.ask(1, None, None) == first
    world.send(1, day(0), 15)
    world.bench.collector.close_day(day(0), "test")
    assert world.ask(1, None, None) == frozenset(range(42))
