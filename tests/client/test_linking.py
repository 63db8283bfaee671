"""Reports of associated metrics leave together, in a batch of version 2; all others as ever."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Delivery
from client_sdk.delivery.batches import GZIP
from client_sdk.testing import FixedRandomness, MemoryCollector
from rappor_core.metrics.file import MetricsFile
from rappor_core.wire.decode import decode_batch
from rappor_core.wire.report import Batch, GroupedBatch
from tests.association_support import linked_file
from tests.client.conftest import AT_ONCE, Clock
from tests.waiting import flush_in_vain, until

DAY = 86_400


@contextmanager
def device(
    folder: Path, clock: Clock, file: MetricsFile | None = None, delivery: Delivery = AT_ONCE
) -> Iterator[tuple[Client, MemoryCollector]]:
    file = file or linked_file()
    with (
        MemoryCollector(file.metrics) as collector,
        Client.open(
            file,
            state_dir=folder,
            collector=collector.url,
            consent=True,
            clock=clock,
            delivery=delivery,
        ) as client,
    ):
        yield client, collector


def sent(collector: MemoryCollector) -> list[GroupedBatch]:
    return [
        decode_batch(zlib.decompress(raw, GZIP), headers["Content-Type"])
        for headers, raw in collector.requests
    ]


@pytest.mark.parametrize("as_json", [False, True])
def test_two_reports_of_a_day_travel_as_one(tmp_path: Path, clock: Clock, as_json: bool) -> None:
    """In a batch of their own, with one shared cohort; the other metrics in theirs."""
    delivery = AT_ONCE.replace(json=as_json)
    with device(tmp_path, clock, delivery=delivery) as (client, collector):
        assert client.record("homepage", "a")
        assert client.record("crashed", False)
        assert client.record("engine", "b")
        assert client.record("theme", "dark")
        assert client.flush(20), client.last_error
        linked = [batch for batch in sent(collector) if batch.groups[-1].linked]
        names = {tuple(group.metric for group in batch.groups) for batch in linked}
        assert names == {("homepage", "engine"), ("theme", "crashed")}
        for batch in linked:
            first, second = batch.ungrouped().reports
            assert (first.day, first.cohort) == (second.day, second.cohort)
        assert len(collector.requests) == 2
        assert sum(collector.counted().values()) == 4
        counters = client.inspect()["counters"]
        assert {name: n for name, n in counters.items() if name.startswith("accepted")} == {
            f"accepted:{name}": 1 for name in ("homepage", "engine", "theme", "crashed")
        }


def test_a_report_waits_a_day_for_its_other(tmp_path: Path, clock: Clock) -> None:
    with device(tmp_path, clock) as (client, collector):
        assert client.record("homepage", "a")
        assert client.flush(20)  # nothing may be sent, and nobody waits for it
        assert not collector.requests
        assert client.inspect()["queued"] == {"homepage": 1}
        clock.now += DAY
        assert client.record("crashed", True)
        assert client.flush(20)
        assert collector.counted() == {"homepage": 1}
        (batch,) = sent(collector)
        assert not batch.groups[-1].linked
        assert zlib.decompress(collector.requests[0][1], GZIP)[4] == 1  # version 1, as ever
        assert client.record("theme", "light")
        assert client.flush(20)
        assert collector.counted() == {"homepage": 1, "theme": 1, "crashed": 1}


def test_the_thread_sleeps_while_reports_wait(tmp_path: Path, clock: Clock) -> None:
    """Not in a loop that asks again and again, though nothing delays sending."""
    with device(tmp_path, clock) as (client, _):
        assert client.record("homepage", "a")
        session = client._life.session
        assert session is not None
        until(lambda: session.worker.idle)


def test_reports_of_two_days_are_not_linked(tmp_path: Path, clock: Clock) -> None:
    with device(tmp_path, clock) as (client, collector):
        assert client.record("homepage", "a")
        clock.now += DAY
        assert client.record("engine", "b")
        assert client.flush(20)
        assert collector.counted() == {"homepage": 1}
        clock.now += DAY
        client._life.session.worker.notify()  # type: ignore[union-attr]
        assert client.flush(20)
        assert collector.counted() == {"homepage": 1, "engine": 1}
        assert not any(batch.groups[-1].linked for batch in sent(collector))


def test_after_its_last_day_an_association_links_nothing(tmp_path: Path, clock: Clock) -> None:
    file = linked_file()
    days = [one.expires.replace(year=2026, month=11, day=20) for one in file.associations]
    over = tuple(one.replace(expires=day) for one, day in zip(file.associations, days, strict=True))
    with device(tmp_path, clock, file.replace(associations=over)) as (client, collector):
        assert client.record("homepage", "a")
        assert client.flush(20)
        assert collector.counted() == {"homepage": 1}


def test_each_linked_pair_has_its_own_batch(tmp_path: Path, clock: Clock) -> None:
    """Of several days and associations, whatever shares a batch otherwise."""
    delivery = AT_ONCE.replace(isolate_metrics=False, mean_delay=600.0)
    with device(tmp_path, clock, delivery=delivery) as (client, collector):
        for _ in range(3):
            assert client.record("homepage", "a")
            assert client.record("engine", "b")
            clock.now += DAY
        assert client.record("theme", "dark")
        assert client.record("crashed", True)
        assert client.flush(20)
        batches = sent(collector)
        assert sorted(batch.groups[0].metric for batch in batches) == ["homepage"] * 3 + ["theme"]
        assert all([group.linked for group in one.groups] == [False, True] for one in batches)


def test_version_1_collectors_refuse_linked_batches_by_version(
    tmp_path: Path, clock: Clock
) -> None:
    """The device counts what it dropped, and goes on with the others."""

    def version_1(batch: Batch) -> tuple[int, dict[str, str], bytes] | None:
        if len(batch.reports) == 1:
            return None
        body = {"type": "urn:rappor-telemetry:problem:wire-format", "status": 400}
        body["detail"] = "version 2 is not known; this is 1"
        body["body_sha256"] = sha256(collector.requests[-1][1]).hexdigest()
        return 400, {"Content-Type": "application/problem+json"}, json.dumps(body).encode()

    with device(tmp_path, clock, delivery=AT_ONCE.replace(mean_delay=600.0)) as (client, collector):
        collector.answer = version_1
        assert client.record("homepage", "a")
        assert client.record("engine", "b")
        clock.now += DAY
        assert client.record("theme", "dark")
        clock.now += DAY
        assert not client.flush(20)
        assert collector.counted() == {"theme": 1}
        assert client.inspect()["counters"]["dropped:http_400"] == 2


def test_both_metrics_are_charged_and_linking_is_free(tmp_path: Path, clock: Clock) -> None:
    def spent(folder: str, file: MetricsFile) -> dict[str, Any]:
        with device(tmp_path / folder, clock, file) as (client, _):
            assert client.record("homepage", "a")
            assert client.record("engine", "b")
            assert client.flush(20)
            return {line["metric"]: line["epsilon_spent"] for line in client.inspect()["metrics"]}

    linked = linked_file()
    apart = linked.replace(
        associations=(),
        metrics={name: m.replace(cohort_with=None) for name, m in linked.metrics.items()},
    )
    assert spent("linked", linked) == spent("apart", apart)
    assert set(spent("again", linked)) == {"homepage", "engine"}


def test_withdrawal_forgets_what_waits(tmp_path: Path, clock: Clock) -> None:
    with device(tmp_path, clock) as (client, collector):
        assert client.record("homepage", "a")
        client.set_consent(False)
        client.set_consent(True)
        assert client.inspect()["queued"] == {}
        clock.now += DAY
        assert client.flush(20)
        assert not collector.requests


def test_a_pair_older_than_the_association_is_unlinked(tmp_path: Path, clock: Clock) -> None:
    """The second metric had a cohort of its own: one of the two that differ cannot be sent."""
    linked = linked_file()
    apart = linked.replace(
        associations=(),
        metrics={name: m.replace(cohort_with=None) for name, m in linked.metrics.items()},
    )
    slow = AT_ONCE.replace(mean_delay=600.0)
    for attempt in range(20):  # until the two cohorts differ
        folder = tmp_path / str(attempt)
        with device(folder, clock, apart, slow) as (client, _):
            assert client.record("homepage", "a")
            assert client.record("engine", "b")
        with device(folder, clock, linked) as (client, collector):
            assert client.flush(20)
            assert collector.counted() == {"homepage": 1, "engine": 1}
            if not any(batch.groups[-1].linked for batch in sent(collector)):
                return
    raise AssertionError("20 devices have the same cohort in both metrics")


def test_the_shared_cohort_is_the_first_metrics() -> None:
    """So to link metrics moves no device that has answered the first one."""
    from client_sdk import Encoder

    linked = linked_file()
    first, second = linked.metrics["homepage"], linked.metrics["engine"]
    alone = {first.name: first}
    for seed in range(20):
        secret = FixedRandomness(seed)(32)
        one = Encoder(linked.metrics, secret)
        cohort = Encoder(alone, secret).metric("homepage").cohort
        assert cohort == one.metric("homepage").cohort == one.metric("engine").cohort
    assert second.cohort_with == "homepage"
    assert linked.metrics["crashed"].cohort_with is None


def test_linked_reports_too_large_together_go_apart(tmp_path: Path, clock: Clock) -> None:
    """Each under the cohort of its own metric: one that hashes nothing has cohort 0 alone."""
    of = {'of = ["homepage", "engine"]': 'of = ["homepage", "crashed"]'}
    file = linked_file(**of, **{'of = ["theme", "crashed"]': 'of = ["engine", "theme"]'})
    shared = set()

    def too_large(batch: Batch) -> tuple[int, dict[str, str], bytes] | None:
        if len(batch.reports) == 1:
            return None
        shared.add(batch.reports[0].cohort)
        body = {"type": "urn:rappor-telemetry:problem:body-too-large", "status": 413}
        return 413, {"Content-Type": "application/problem+json"}, json.dumps(body).encode()

    for attempt in range(20):  # until a device has a cohort other than 0
        with device(tmp_path / str(attempt), clock, file) as (client, collector):
            collector.answer = too_large
            assert client.record("homepage", "a")
            assert client.record("crashed", True)
            assert client.flush(20)
            alone = [batch.ungrouped().reports[0] for batch in sent(collector)[1:]]
            assert {one.metric for one in alone} == {"homepage", "crashed"}
            cohorts = {one.metric: one.cohort for one in alone}
            assert cohorts["homepage"] in shared
            assert cohorts["crashed"] == 0
            assert collector.counted() == {"homepage": 1, "crashed": 1}
        if shared - {0}:
            return
    raise AssertionError("20 devices have cohort 0")


def test_an_older_app_passes_a_linked_batch(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version of the app is without associations, and without their wheel."""
    file = linked_file()
    with device(tmp_path, clock, file) as (client, collector):
        collector.answer = lambda _: (503, {}, b"")
        assert client.record("homepage", "a")
        assert client.record("engine", "b")
        flush_in_vain(client, lambda: collector.requests)
    alone = file.replace(associations=(), metrics={"theme": file.metrics["theme"]})
    monkeypatch.setitem(sys.modules, "rappor_core.wire.linked", None)
    with device(tmp_path, clock, alone) as (client, collector):
        assert client.record("theme", "dark")
        client.flush(20)
        assert collector.counted() == {"theme": 1}
        assert client.inspect()["counters"]["dropped:damaged"] == 2
