"""Several processes on one port and one PostgreSQL: one sum, one count of everything."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
from sqlalchemy import text

from collector.service.batch_writer import Receipt
from collector.store.counters import NUM_SHARDS, CounterCache
from collector.store.database import SHARD_LOCKS
from tests.collector.crash import METRIC, Tally, await_ready, listening, port_of, send_until, start
from tests.collector.support import make_bench


def test_four_workers_count_together(new_postgresql: Callable[[], str]) -> None:
    url = new_postgresql()
    bench = make_bench(url)
    bench.clock.now = datetime.now(UTC)
    bench.collector.push_metrics([METRIC], "test")
    tally, stop = Tally(), threading.Event()
    with listening() as listener:
        port = port_of(listener)
        process = start(url, listener, workers=4)
        try:
            await_ready(port)
            threads = [
                threading.Thread(target=send_until, args=(port, seed, stop, tally))
                for seed in range(8)
            ]
            for thread in threads:
                thread.start()
            time.sleep(3)
            stop.set()
            for thread in threads:
                thread.join()
            counts = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        finally:
            process.terminate()
            process.wait(30)
    assert process.returncode == 0
    found = re.search(r"^rappor_reports_accepted_total (\S+)$", counts, re.MULTILINE)
    assert found is not None
    assert float(found[1]) == tally.reports  # of both workers, whichever answered
    bench.collector.close_day(bench.clock.now.date(), "test")
    assert bench.collector.read_aggregate("test", METRIC.name).num_reports == tally.reports
    bench.database.close()


def test_workers_end_with_a_supervisor_that_was_killed(new_postgresql: Callable[[], str]) -> None:
    url = new_postgresql()
    with listening() as listener:
        process = start(url, listener, workers=2)
        try:
            await_ready(port_of(listener))
            workers = children_of(process.pid)
            assert len(workers) >= 2
            os.kill(process.pid, signal.SIGKILL)
            process.wait(10)
            deadline = time.monotonic() + 30
            while any(map(is_running, workers)) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not list(filter(is_running, workers))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    """The processes that it started, by Linux's own list."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in children.split()]


def is_running(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def test_writers_start_at_random_shards_and_leave_one_that_another_writes(
    new_postgresql: Callable[[], str],
) -> None:
    """Two that began on one shard and write by turns: each leaves it once at most."""
    url = new_postgresql()
    benches = [make_bench(url) for _ in range(2)]
    benches[0].collector.push_metrics([METRIC], "test")
    assert len({CounterCache().shard for _ in range(50)}) > 10
    caches = [bench.writer._cache for bench in benches]
    for seed, cache in enumerate(caches):
        cache.move_to(7)
        cache._random_below = random.Random(seed).randrange
    day, left = benches[0].clock.now.date(), []
    for cache in caches:
        cache.leave_shard = partial(_leave, cache, left)  # type: ignore[method-assign]
    for _ in range(30):
        for bench in benches:
            bench.send(bench.sender.reports(METRIC, 2, day))
    assert left in ([7], [7, 7])  # and not 30 times or more
    assert caches[0].shard != caches[1].shard
    assert benches[0].collector.list_metrics()[0]["accepted"] == 120
    for bench in benches:
        bench.database.close()


def _leave(cache: CounterCache, left: list[int]) -> None:
    left.append(cache.shard)
    CounterCache.leave_shard(cache)


def test_a_writer_that_finds_every_shard_taken_waits_for_one(
    new_postgresql: Callable[[], str],
) -> None:
    bench = make_bench(new_postgresql())
    bench.collector.push_metrics([METRIC], "test")
    with bench.database.add() as connection:
        for shard in range(NUM_SHARDS):
            connection.execute(text(f"SELECT pg_advisory_xact_lock({SHARD_LOCKS + shard})"))
        sent: list[object] = []
        reports = bench.sender.reports(METRIC, 3)
        thread = threading.Thread(target=lambda: sent.extend(bench.send(reports)))
        thread.start()
        time.sleep(0.3)
        assert sent == []  # it waits, and is not refused
    thread.join()
    assert isinstance(sent[0], Receipt)
    assert sent[0].accepted == 3
    bench.database.close()
