"""No two answers differ by a few reports, nor in any cohort, whatever is sent, closed and asked.

Each report sets a different bit, so that an answer shows exactly which reports are in it.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from collector.domain.aggregates import read_aggregate
from collector.errors import NotServedError
from rappor_core.metrics.metric import Metric
from tests.collector.support import NOON, TODAY, Bench, Clock, make_bench, make_metric

MIN_REPORTS = 10
COHORT_FLOOR = 4
MAX_REPORTS = 400
SHAPE = {"num_bits": MAX_REPORTS, "min_reports": MIN_REPORTS, "accept_days": 3}
VERSIONS = (make_metric(**SHAPE), make_metric(**SHAPE, num_cohorts=3))
FLOORED = (  # versions of one metric, by their params_id
    make_metric(**SHAPE, min_reports_per_cohort=COHORT_FLOOR),
    make_metric(**SHAPE, min_reports_per_cohort=COHORT_FLOOR, num_cohorts=3),
    make_metric(**SHAPE, min_reports_per_cohort=COHORT_FLOOR, num_cohorts=1),
)


@dataclass
class World:
    """A collector, and every answer that it ever gave, as sets of reports by version."""

    bench: Bench
    metrics: tuple[Metric, ...] = VERSIONS
    cohort_floor: int = 1
    sent: int = 0
    cohorts: dict[int, int] = field(default_factory=dict)
    accepted: set[int] = field(default_factory=set)
    answers: dict[int, list[frozenset[int]]] = field(default_factory=dict)

    def send(
        self, version: int, day: date, count: int, most: int = 1 << 16, start: int | None = None
    ) -> None:
        """Send to the first few cohorts, by turns, from a random one on unless it is given."""
        metric = self.metrics[version]
        used = min(metric.params.num_cohorts, most)
        start = self.bench.sender.rng.randrange(used) if start is None else start
        numbers = range(self.sent, min(self.sent + count, MAX_REPORTS))
        reports = [
            self.bench.sender.report(
                metric, day, cohort=(start + n) % used, bits=(1 << n).to_bytes(50, "little")
            )
            for n in numbers
        ]
        self.cohorts |= {n: (start + n) % used for n in numbers}
        self.sent += len(reports)
        if not reports:
            return
        receipt = self.bench.send(reports)[0]
        results = zip(numbers, receipt.results, strict=True)
        self.accepted |= {number for number, refusal in results if refusal is None}

    def push(self, version: int, cohort_floor: int) -> None:
        """Declare a version again, as the current one, with another floor that is not lower."""
        metric = self.metrics[version].replace(min_reports_per_cohort=cohort_floor)
        self.bench.collector.push_metrics([metric], "test", weaken=True)

    def ask(self, version: int, first: date | None, last: date | None) -> frozenset[int] | None:
        """Ask, and keep the answer; None where it was refused."""
        self.bench.collector.close_due()
        return self._ask(version, first, last)

    def _ask(self, version: int, first: date | None, last: date | None) -> frozenset[int] | None:
        metric = self.metrics[version]
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
        for cohort, row in enumerate(found.bit_counts):
            assert all(self.cohorts[n] == cohort for n, count in enumerate(row) if count)
        self.answers.setdefault(version, []).append(answer)
        return answer

    def ask_every_window(self) -> None:
        for version in range(len(self.metrics)):
            self.ask(version, None, None)
            for length in (1, 2, 4):
                for start in range(-6, 5):
                    first = TODAY + timedelta(days=start)
                    self._ask(version, first, first + timedelta(days=length - 1))

    def check(self) -> None:
        for answers in self.answers.values():
            assert all(answer <= self.accepted for answer in answers)
            for one, other in combinations({frozenset(), *answers}, 2):
                difference = one ^ other
                assert len(difference) >= MIN_REPORTS
                in_cohorts = Counter(self.cohorts[number] for number in difference)
                assert min(in_cohorts.values()) >= self.cohort_floor


@contextmanager
def new_world(metrics: tuple[Metric, ...] = VERSIONS, cohort_floor: int = 1) -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(f"sqlite:///{Path(folder)}/c.sqlite", Clock(NOON))
        for metric in metrics:
            bench.collector.push_metrics([metric], "test", weaken=True)
        yield World(bench, metrics, cohort_floor)
        bench.database.close()


days = st.integers(-5, 4).map(lambda offset: TODAY + timedelta(days=offset))
versions = st.sampled_from(range(len(FLOORED)))
cohorts = st.integers(1, 4)
operations = st.one_of(
    st.tuples(st.just("send"), versions, days, st.integers(1, 30), cohorts),
    st.tuples(st.just("thin"), versions, days, st.integers(7, 14), st.integers(1, 3)),
    st.tuples(st.just("push"), versions, st.integers(COHORT_FLOOR, MIN_REPORTS)),
    st.tuples(st.just("retire"), versions),
    st.tuples(st.just("close"), days),
    st.tuples(st.just("pass"), st.integers(1, 5)),
    st.tuples(st.just("ask"), versions, st.none() | days, st.none() | days),
    st.tuples(st.just("ask_all")),
)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.lists(operations, min_size=4, max_size=20))
def test_no_answers_of_many_scripts_differ_by_few(script: list[tuple]) -> None:  # type: ignore[type-arg]
    check_script(script)


@settings(max_examples=2, deadline=None)
@example([("thin", 0, TODAY, 12, 1), ("close", TODAY), ("ask_all",), ("send", 0, TODAY, 9, 4)])
@example([("thin", 1, TODAY, 12, 3), ("retire", 1), ("push", 1, 5), ("pass", 5), ("ask_all",)])
@given(st.lists(operations, min_size=4, max_size=20))
def test_two_answers_never_differ_by_a_few_reports(script: list[tuple]) -> None:  # type: ignore[type-arg]
    check_script(script)


def check_script(script: list[tuple]) -> None:  # type: ignore[type-arg]
    """Act as a script says, ask for every window, and compare all answers."""
    with new_world(FLOORED, COHORT_FLOOR) as world:
        for name, *arguments in script:
            if name == "send":
                world.send(*arguments)
            elif name == "close":
                if arguments[0] <= world.bench.clock.now.date():
                    world.bench.collector.close_day(arguments[0], "test")
            elif name == "thin":  # one cohort of many, and another of few
                version, stated, many, few = arguments
                world.send(version, stated, many, most=1)
                world.send(version, stated, few, start=1)
            elif name == "push":
                world.push(*arguments)
            elif name == "retire":
                metric = world.metrics[arguments[0]]
                world.bench.collector.retire_metric(metric.name, "test", metric.params_id)
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


def test_a_thin_day_waits_for_the_next(world: World) -> None:
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


def test_a_refusal_tells_why_and_what_is_served(world: World) -> None:
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
    assert "waiting" in reason()
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


def test_a_thin_cohort_holds_its_day_back() -> None:
    with new_world(FLOORED[:1], COHORT_FLOOR) as world:
        world.send(0, day(-3), 12, most=1)
        world.send(0, day(-2), 12, most=1)
        alone = world.bench.sender.report(FLOORED[0], day(-2), cohort=3, bits=bytes(50))
        world.bench.send([alone])
        world.bench.collector.close_day(day(-2), "test")
        assert world.ask(0, None, None) == frozenset(range(12))  # day -2 waits for its cohort 3
        with pytest.raises(NotServedError, match="1 report in their smallest cohort") as caught:
            world.bench.collector.read_aggregate("test", "homepage", last=day(-2))
        assert caught.value.details["reason"] == "too_few_in_a_cohort"
        waiting = {"first_day": str(day(-2)), "last_day": str(day(-2)), "reports": 13}
        assert caught.value.details["waiting"] == waiting | {"smallest_cohort": 1}
        assert world.bench.collector.waiting_days() == 1
        (listed,) = world.bench.collector.list_metrics()
        assert listed["waiting"] == waiting | {"smallest_cohort": 1}
        world.send(0, day(-1), 16)
        world.bench.collector.close_day(day(-1), "test")
        assert world.bench.collector.waiting_days() == 0
        found = world.bench.collector.read_aggregate("test", "homepage", first=day(-2))
        assert found.reports_per_cohort == (16, 4, 4, 5)


def test_what_waits_when_retired_is_never_served(world: World) -> None:
    world.send(1, day(-1), 3)
    world.bench.collector.close_day(day(-1), "test")
    with pytest.raises(NotServedError, match="3 reports of min_reports = 10, and are served with"):
        world.bench.collector.read_aggregate("test", "homepage")
    world.bench.collector.retire_metric("homepage", "test")
    with pytest.raises(NotServedError, match="never served, as this version is retired"):
        world.bench.collector.read_aggregate("test", "homepage")
    assert world.bench.collector.waiting_days() == 0  # nothing will come of waiting


@pytest.mark.parametrize("cohort_floor", [1, None])
def test_a_block_is_sealed_at_its_floor(bench: Bench, cohort_floor: int | None) -> None:
    """One report too few, and just enough: in all, and (None: the default) in the one cohort."""
    shape = {"min_reports": 1_000, "num_cohorts": 1, "min_reports_per_cohort": cohort_floor}
    few, enough = (make_metric(name, **shape, accept_days=3) for name in ("few", "enough"))
    bench.collector.push_metrics([few, enough], "test")
    bench.send(bench.sender.reports(few, 999))
    bench.send(bench.sender.reports(enough, 1_000))
    bench.collector.close_day(TODAY, "test")
    assert sum(bench.collector.read_aggregate("test", "enough").reports_per_cohort) == 1_000
    with pytest.raises(NotServedError, match="999 reports of min_reports = 1000"):
        bench.collector.read_aggregate("test", "few")


def test_thin_cohorts_show_no_single_report(bench: Bench) -> None:
    """The attack: most reports are alone in their cohort. By default they are not served."""
    changes = {"min_reports": 1_000, "num_cohorts": 1_024, "accept_days": 3}
    open_to_it = make_metric("old", **changes)  # its owner asks for a floor of 1
    metric = make_metric("new", **changes, min_reports_per_cohort=None)
    bench.collector.push_metrics([open_to_it, metric], "test")
    for one in (open_to_it, metric):
        bench.send(bench.sender.reports(one, 1_000))
    bench.collector.close_day(TODAY, "test")
    found = bench.collector.read_aggregate("test", "old")
    alone = sum(count == 1 for count in found.reports_per_cohort)
    assert alone > 300  # so the attack reads hundreds of reports, bit by bit
    with pytest.raises(NotServedError, match="min_reports_per_cohort = 100"):
        bench.collector.read_aggregate("test", "new")


def test_changing_min_reports_never_touches_sealed_blocks(world: World) -> None:
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
