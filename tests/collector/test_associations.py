"""Linked reports: counted with their metrics and together, once, and served without a lone one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, timedelta

import pytest

from collector.domain.batch_writer import Receipt
from collector.domain.co_occurrences import BitPairs
from collector.domain.submission import Submission
from collector.errors import MetricChangeError, NotFoundError, NotServedError
from rappor_core.association_aggregate import AssociationAggregate
from rappor_core.metrics.file import MetricsFile
from rappor_core.wire.decode import decode_batch
from rappor_core.wire.linked import Pair, linked_cohort
from rappor_core.wire.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE
from tests.association_support import linked_body, linked_file, linked_pair
from tests.collector.support import TODAY, Bench, set_bits

NAME = "home_engine"
VALUES = ("a", "b")


def pushed(bench: Bench, **changes: str) -> MetricsFile:
    file = linked_file(**changes)
    bench.collector.push_metrics(file.metrics.values(), "test", associations=file.associations)
    return file


def pairs_of(
    file: MetricsFile, count: int, day: date = TODAY, name: str = NAME, seed: int = 1
) -> list[Pair]:
    rng = random.Random(seed)
    values = VALUES if name == NAME else ("dark", True)
    return [linked_pair(file, name, values, day, rng) for _ in range(count)]


def submit(bench: Bench, pairs: Sequence[Pair], *, json: bool = True) -> Receipt:
    body = linked_body(pairs, json=json)
    batch = decode_batch(body, JSON_CONTENT_TYPE if json else BINARY_CONTENT_TYPE)
    (receipt,) = bench.writer.write([Submission(batch, body[-16:].rjust(16), len(body))])
    assert isinstance(receipt, Receipt)
    return receipt


def of_cohort(file: MetricsFile, count: int, cohort: int, seed: int) -> list[Pair]:
    """Linked reports of one cohort."""
    found = (p for p in pairs_of(file, 40 * count, seed=seed) if linked_cohort(p) == cohort)
    return [next(found) for _ in range(count)]


def counted(one: AssociationAggregate, pairs: Sequence[Pair]) -> None:
    """Check every counter against the reports, bit by bit."""
    k2 = one.association.shape[1]
    for cohort in range(one.association.num_cohorts):
        mine = [pair for pair in pairs if linked_cohort(pair) == cohort]
        assert one.reports_per_cohort[cohort] == len(mine)
        for side in range(2):
            for bit, count in enumerate(one.bit_counts[side][cohort]):
                assert count == sum(bit in set_bits(pair[side].bits) for pair in mine)
        for place, count in enumerate(one.pair_counts[cohort]):
            a, b = divmod(place, k2)
            both = [a in set_bits(p[0].bits) and b in set_bits(p[1].bits) for p in mine]
            assert count == sum(both)


@pytest.mark.parametrize("shape", [(1, 1), (3, 9), (16, 12), (7, 64)])
def test_two_reports_pairs_are_their_bits(shape: tuple[int, int]) -> None:
    rng, (k1, k2) = random.Random(4), shape
    pairs = BitPairs(shape)
    for _ in range(30):
        x, y = rng.getrandbits(k1), rng.getrandbits(k2)
        one, two = (n.to_bytes((k + 7) // 8, "little") for n, k in ((x, k1), (y, k2)))
        bits = set(set_bits(pairs.of(one, two)))
        wanted = {a for a in range(k1) if x >> a & 1} | {k1 + b for b in range(k2) if y >> b & 1}
        wanted |= {
            k1 + k2 + a * k2 + b for a in range(k1) for b in range(k2) if x >> a & 1 and y >> b & 1
        }
        assert bits == wanted


@pytest.mark.parametrize("json", [True, False])
@pytest.mark.parametrize("name", [NAME, "theme_crashed"])
def test_every_counter_is_that_of_the_reports(bench: Bench, name: str, json: bool) -> None:
    """Also of the metrics themselves, on both databases and in both forms of the wire."""
    file = pushed(bench)
    pairs = pairs_of(file, 80, name=name)
    for start in range(0, 80, 20):
        receipt = submit(bench, pairs[start : start + 20], json=json)
        assert (receipt.accepted, len(receipt.results)) == (40, 40)
    again = submit(bench, pairs[:20], json=json)  # another batch: counted
    assert not again.duplicate
    bench.clock.pass_days(1)
    bench.collector.close_day(TODAY, "test")
    one = bench.collector.read_association("test", name)
    counted(one, pairs + pairs[:20])
    assert AssociationAggregate.from_json(one.to_json()) == one
    for side, metric in enumerate(one.association.metrics):
        alone = bench.collector.read_aggregate("test", metric.name)
        assert alone.num_reports == one.num_reports
        if metric.params.num_cohorts == one.association.num_cohorts:
            assert alone.bit_counts == one.bit_counts[side]


def test_a_batch_sent_again_is_counted_once(bench: Bench) -> None:
    file = pushed(bench)
    body = linked_body(pairs_of(file, 60))
    batch = decode_batch(body, JSON_CONTENT_TYPE)
    for duplicate in (False, True):
        (receipt,) = bench.writer.write([Submission(batch, bytes(16), len(body))])
        assert isinstance(receipt, Receipt)
        assert (receipt.duplicate, receipt.accepted) == (duplicate, 120)
    assert bench.collector.list_associations()[0]["linked"] == 60
    assert {m["name"]: m["accepted"] for m in bench.collector.list_metrics()}["engine"] == 60


def test_what_a_linked_report_allows_is_counted(bench: Bench) -> None:
    """A metric that is retired takes nothing more; the other one goes on, and no pair counts."""
    file = pushed(bench)
    bench.collector.retire_metric("engine", "test")
    receipt = submit(bench, pairs_of(file, 3))
    reasons = [None if one is None else one.reason.value for one in receipt.results]
    assert reasons == [None, "metric_retired"] * 3
    assert bench.collector.list_associations()[0]["linked"] == 0
    assert {m["name"]: m["accepted"] for m in bench.collector.list_metrics()}["homepage"] == 3


def test_reports_linked_elsewhere_are_counted_apart(bench: Bench) -> None:
    file = linked_file()
    bench.collector.push_metrics(file.metrics.values(), "test")
    assert submit(bench, pairs_of(file, 3)).accepted == 6
    assert bench.collector.list_associations() == []
    with pytest.raises(NotFoundError, match="no association 'home_engine'"):
        bench.collector.read_association("test", NAME)


def test_retired_and_past_associations_link_no_more(bench: Bench) -> None:
    file = pushed(bench)
    assert bench.collector.retire_metric(NAME, "test") == [file.associations[0].params_id]
    assert submit(bench, pairs_of(file, 3)).accepted == 6
    assert bench.collector.list_associations()[0]["state"] == "retired"
    over = pushed_over(bench)
    assert submit(bench, pairs_of(over, 3, name="theme_crashed")).accepted == 6
    assert [one["linked"] for one in bench.collector.list_associations()] == [0, 0]


def pushed_over(bench: Bench) -> MetricsFile:
    """The same file, whose second association ended yesterday."""
    file = linked_file()
    yesterday = TODAY - timedelta(days=1)
    over = file.associations[1].replace(expires=yesterday)
    bench.collector.push_metrics([], "test", associations=[over])
    return file


def close(bench: Bench, day: date = TODAY) -> None:
    bench.clock.now = bench.clock.now.replace(
        year=day.year, month=day.month, day=day.day
    ) + timedelta(days=1)
    bench.collector.close_day(day, "test")


def test_no_cohort_of_few_linked_reports_is_served(bench: Bench) -> None:
    file = pushed(bench)
    submit(bench, of_cohort(file, 12, 0, seed=2) + of_cohort(file, 2, 1, seed=3))
    close(bench)
    with pytest.raises(NotServedError) as caught:
        bench.collector.read_association("test", NAME)
    assert caught.value.details["reason"] == "too_few_in_a_cohort"
    assert "2 reports in their smallest cohort" in str(caught.value)


@pytest.mark.parametrize(("alone", "is_served"), [(0, True), (1, False), (2, False), (3, True)])
def test_the_tables_rest_is_none_or_the_floor(bench: Bench, alone: int, is_served: bool) -> None:
    """The metric's answer less the table's is its other reports: one of them would stand alone."""
    file = pushed(bench)
    submit(bench, of_cohort(file, 12, 0, seed=2))
    others = [pair[0] for pair in of_cohort(file, 3, 0, seed=5)][:alone]
    if others:
        (receipt,) = bench.send(others)
        assert isinstance(receipt, Receipt)
        assert receipt.accepted == alone
    close(bench)
    assert bench.collector.read_aggregate("test", "homepage").num_reports == 12 + alone
    if is_served:
        assert bench.collector.read_association("test", NAME).num_reports == 12
        return
    with pytest.raises(NotServedError, match=r"fewer than 3 other reports") as caught:
        bench.collector.read_association("test", NAME)
    assert caught.value.details["reason"] == "too_few_not_linked"


def test_a_table_ends_with_both_metrics_blocks(bench: Bench) -> None:
    """A day that a metric merges with the next one cannot be cut off by the table."""
    file = pushed(bench)
    tomorrow = TODAY + timedelta(days=1)
    submit(bench, of_cohort(file, 12, 0, seed=2))
    bench.send([of_cohort(file, 1, 1, seed=5)[0][0]])  # the metric waits for its cohort 1
    close(bench)
    with pytest.raises(NotServedError):
        bench.collector.read_association("test", NAME)
    later = [moved(pair, tomorrow) for pair in of_cohort(file, 12, 0, seed=7)]
    submit(bench, later)
    bench.send([pair[0]._replace(day=tomorrow) for pair in of_cohort(file, 3, 1, seed=8)])
    close(bench, tomorrow)
    one = bench.collector.read_association("test", NAME)
    assert (one.first_day, one.last_day, one.num_reports) == (TODAY, tomorrow, 24)
    with pytest.raises(NotServedError) as caught:
        bench.collector.read_association("test", NAME, first=tomorrow, last=tomorrow)
    assert caught.value.details["reason"] == "window_cuts_block"


def test_a_table_waits_while_a_metric_waits(bench: Bench) -> None:
    """The metric's block of the day before has other reports enough; its last day has no block."""
    file, tomorrow = pushed(bench), TODAY + timedelta(days=1)
    submit(bench, of_cohort(file, 4, 0, seed=2))  # too few: the table merges the day with the next
    others = of_cohort(file, 30, 0, seed=3)
    bench.send([pair[0] for pair in others])
    bench.send([pair[1] for pair in others])
    close(bench)
    assert bench.collector.list_associations()[0]["served"] is None
    submit(bench, [moved(pair, tomorrow) for pair in of_cohort(file, 12, 0, seed=5)])
    bench.send([of_cohort(file, 1, 1, seed=6)[0][0]._replace(day=tomorrow)])
    close(bench, tomorrow)
    assert bench.collector.read_aggregate("test", "homepage").last_day == TODAY
    with pytest.raises(NotServedError):
        bench.collector.read_association("test", NAME)


def test_reports_of_other_days_hide_no_lone_one(bench: Bench) -> None:
    """Two days in one block of the table: of the second day the metric has one report besides."""
    file, tomorrow = pushed(bench), TODAY + timedelta(days=1)
    submit(bench, of_cohort(file, 3, 1, seed=2))
    bench.send([pair[0] for pair in of_cohort(file, 12, 0, seed=3)])
    bench.send([pair[1] for pair in of_cohort(file, 12, 0, seed=4)])
    close(bench)
    assert bench.collector.list_associations()[0]["served"] is None
    submit(bench, [moved(pair, tomorrow) for pair in of_cohort(file, 12, 0, seed=5)])
    bench.send([of_cohort(file, 1, 0, seed=6)[0][0]._replace(day=tomorrow)])
    close(bench, tomorrow)
    alone = bench.collector.read_aggregate("test", "homepage", first=tomorrow, last=tomorrow)
    assert alone.reports_per_cohort[0] == 13
    with pytest.raises(NotServedError, match="fewer than 3 other reports"):
        bench.collector.read_association("test", NAME)
    later = tomorrow + timedelta(days=1)
    more = of_cohort(file, 12, 0, seed=7)
    submit(bench, [moved(pair, later) for pair in more])
    bench.send([pair[0]._replace(day=later) for pair in of_cohort(file, 2, 0, seed=8)])
    close(bench, later)
    assert bench.collector.read_association("test", NAME).num_reports == 27


def moved(pair: Pair, day: date) -> Pair:
    first, second = pair
    return first._replace(day=day), second._replace(day=day)


def test_days_closed_by_one_fold_with_both(bench: Bench) -> None:
    file = pushed(bench)
    submit(bench, of_cohort(file, 12, 0, seed=2))
    bench.clock.pass_days(1)
    bench.collector.close_day(TODAY, "test", "homepage")
    receipt = submit(bench, of_cohort(file, 1, 0, seed=3))
    assert [one and one.reason.value for one in receipt.results] == ["day_closed", None]
    with pytest.raises(NotServedError) as caught:
        bench.collector.read_association("test", NAME)
    assert caught.value.details["reason"] == "no_closed_days"
    bench.send([pair[1] for pair in of_cohort(file, 2, 0, seed=9)])
    bench.collector.close_day(TODAY, "test")
    assert bench.collector.read_association("test", NAME).num_reports == 12


def test_what_is_unserved_is_discarded_after_a_restore(bench: Bench) -> None:
    """Reports are counted once in what is told, though they stand in three series."""
    file = pushed(bench)
    submit(bench, of_cohort(file, 12, 0, seed=2))
    close(bench)
    later = TODAY + timedelta(days=1)
    submit(bench, [moved(pair, later) for pair in of_cohort(file, 5, 0, seed=3)])
    assert bench.collector.discard_unserved("test") == 10
    assert bench.collector.read_association("test", NAME).num_reports == 12
    assert bench.collector.list_associations()[0]["linked"] == 12


def test_to_link_metrics_that_are_there_weakens_privacy(bench: Bench) -> None:
    file = linked_file()
    bench.collector.push_metrics(file.metrics.values(), "test")
    links = file.associations
    with pytest.raises(MetricChangeError, match=r"home_engine: links reports of homepage"):
        bench.collector.push_metrics([], "test", associations=links)
    push = bench.collector.push_metrics([], "test", associations=links, weaken=True)
    assert push.changed == (NAME, "theme_crashed")
    assert bench.collector.push_metrics([], "test", associations=links).changed == ()


def test_a_metric_is_linked_once_for_good(bench: Bench) -> None:
    """Three series of one metric would tell by differences what none of them tells."""
    file = pushed(bench)
    bench.collector.retire_metric("theme_crashed", "test")
    other = file.associations[1].replace(name="another")
    with pytest.raises(MetricChangeError, match="was declared in association 'theme_crashed'"):
        bench.collector.push_metrics([], "test", associations=[other], weaken=True)
    again = bench.collector.push_metrics([], "test", associations=file.associations)
    assert again.still_retired == ("theme_crashed",)
    revived = bench.collector.push_metrics([], "test", associations=file.associations, revive=True)
    assert revived.changed == ("theme_crashed",)


def test_names_of_metrics_and_associations_are_apart(bench: Bench) -> None:
    file = pushed(bench)
    taken = file.metrics["crashed"].replace(name=NAME)
    with pytest.raises(MetricChangeError, match="is the name of an association"):
        bench.collector.push_metrics([taken], "test")
    named = file.associations[0].replace(name="crashed")
    with pytest.raises(MetricChangeError, match="has the name of a metric"):
        bench.collector.push_metrics([], "test", associations=[named])


def test_lists_take_no_association_for_a_metric(bench: Bench) -> None:
    file = pushed(bench)
    for back in range(6):
        day = TODAY - timedelta(days=6 - back)
        submit(bench, [moved(pair, day) for pair in of_cohort(file, 5, 0, seed=back)])
    submit(bench, of_cohort(file, 60, 0, seed=9))
    names = [metric["name"] for metric in bench.collector.list_metrics()]
    assert NAME not in names
    assert bench.collector.would_close(TODAY).metrics == ("crashed", "engine", "homepage", "theme")
    assert bench.collector.would_close(TODAY).folded == 14
    bench.clock.pass_days(1)
    assert bench.collector.close_day(TODAY, "test").folded == 14
    assert bench.collector.waiting_days() == 0
