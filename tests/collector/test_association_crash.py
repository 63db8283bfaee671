"""`kill -9` under linked reports: no pair of bits is lost, none is counted twice."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from datetime import UTC, datetime

import httpx
import pytest

from tests.association_support import linked_body, linked_file, linked_pair
from tests.collector.crash import SENDERS, Tally, crash_test, deliver
from tests.collector.support import make_bench, set_bits

KILLS = int(os.environ.get("RAPPOR_KILLS", "3"))
PAIRS_A_BATCH = 10


@pytest.mark.long
def test_killed_at_random_every_pair_counts_once(database_url: str) -> None:
    """3 kills here; RAPPOR_KILLS=200 for the long form."""
    low = {"min_reports = 10\nmin_reports_per_cohort = 3": "min_reports = 1"}
    file, bench = linked_file(**low), make_bench(database_url)
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics(file.metrics.values(), "test", associations=file.associations)
    pairs_seen: Counter[tuple[int, int, int]] = Counter()
    lock = threading.Lock()

    def send(port: int, seed: int, stop: threading.Event, tally: Tally) -> None:
        rng, day = random.Random(seed), datetime.now(UTC).date()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as http:
            while not stop.is_set():
                some = [
                    linked_pair(file, "home_engine", ("a", "b"), day, rng)
                    for _ in range(PAIRS_A_BATCH)
                ]
                answer = deliver(http, linked_body(some))
                with lock:
                    tally.refused += sum(r["status"] != "accepted" for r in answer["results"])
                    tally.reports += len(some)
                    tally.duplicates += answer["duplicate"]
                    for first, second in some:
                        for a in set_bits(first.bits):
                            for b in set_bits(second.bits):
                                pairs_seen[first.cohort, a, b] += 1

    tally = crash_test(database_url, KILLS, send=send)
    assert tally.refused == 0
    assert tally.reports > SENDERS * KILLS
    bench.collector.close_day(bench.clock.now.date(), "test")
    one = bench.collector.read_association("test", "home_engine")
    singles = [bench.collector.read_aggregate("test", name) for name in one.association.of]
    bench.database.close()
    print(f"{KILLS} kills, {tally.reports} linked reports, {tally.duplicates} duplicates")
    assert one.num_reports == tally.reports
    assert [single.num_reports for single in singles] == [tally.reports] * 2
    k2 = one.association.shape[1]
    for cohort, row in enumerate(one.pair_counts):
        for place, count in enumerate(row):
            assert count == pairs_seen[(cohort, *divmod(place, k2))]
