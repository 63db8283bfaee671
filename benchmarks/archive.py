"""How fast archived reports are summed, in what memory, and what workers add.

1. Local processes on files in the page cache: reports a second of wall time and of processor time
   (the workers' own), encrypted and in clear; memory of the largest process.
2. Dask with 1, 2 and 4 workers, each task behind a simulated reading delay; one run in which a
   worker is killed must give the same sums.
3. Costs up to 1e11 reports, computed from the first table and marked so.

The wall times are of this machine as loaded as it is; processor seconds hardly depend on that.

Usage: python benchmarks/archive.py [--reports 20000000] [--no-dask]
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from archive.aggregate import Wanted, aggregate, choose_parts
from archive.executors import DaskCluster, Executor, LocalProcesses
from archive.keys import IN_CLEAR, ArchiveKey, load_key, make_key
from archive.manifest import Entry
from archive.parts import PartLabel, write_part
from archive.store import open_store
from archive.tasks import PartCounts, Task, count_part
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams

DAY = date(2026, 11, 16)
PARAMS = RapporParams.rappor(
    num_bits=128, num_hashes=2, num_cohorts=16, prob_f=0.5, prob_p=0.5, prob_q=0.75
)
REPORT_BYTES = 16.5  # of a file, a report
DELAY = 0.5  # seconds of simulated reading before each task


def late(task: Task) -> PartCounts:
    """A task behind a slow store."""
    time.sleep(DELAY)
    return count_part(task)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=20_000_000)
    parser.add_argument("--no-dask", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        speed = {}
        for name in ("encrypted", "in clear"):
            key_file = Path(folder) / "key" if name == "encrypted" else None
            key = IN_CLEAR if key_file is None else make_key(key_file)
            url = str(Path(folder) / name.replace(" ", "-"))
            fill(url, key, chosen.reports)
            speed[name] = measure_local(name, url, key_file, chosen.reports)
        if not chosen.no_dask:
            measure_dask(str(Path(folder) / "in-clear"))
        costs(speed["in clear"])


def fill(url: str, key: ArchiveKey, num_reports: int) -> None:
    """Parts of ten days."""
    store, each = open_store(url), num_reports // 10
    started = time.process_time()
    for number in range(10):
        day = DAY + timedelta(days=number)
        label = PartLabel("bench", "", {}, PARAMS, day, day, date(2099, 1, 1))
        write_part(store, key, label, pieces(each, number), lambda _: None)
    used = time.process_time() - started
    print(f"written and read back: {num_reports / used / 1e6:.1f} M reports a processor second")


def pieces(count: int, seed: int) -> Iterator[tuple[int, np.ndarray]]:
    """Random reports of every cohort."""
    rng = np.random.default_rng(seed)
    for cohort in range(PARAMS.num_cohorts):
        size = count // PARAMS.num_cohorts
        yield cohort, rng.integers(0, 256, (size, PARAMS.report_bytes), dtype=np.uint8)


def parts(url: str, key_file: Path | None) -> list[Entry]:
    """All of an archive."""
    return choose_parts(open_store(url), load_key(key_file), Wanted("bench"), DAY)


def run(url: str, key_file: Path | None, executor: Executor, task_reports: int) -> Aggregate:
    """One sum."""
    name = None if key_file is None else str(key_file)
    return aggregate(parts(url, key_file), url, name, executor, task_reports=task_reports)


def measure_local(name: str, url: str, key_file: Path | None, num_reports: int) -> float:
    """Print one line for each number of processes; return reports a processor second."""
    best = 0.0
    for workers in (1, 2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        own, started = time.process_time(), time.perf_counter()
        run(url, key_file, LocalProcesses(workers, in_own_time), num_reports // 8)
        wall, own = time.perf_counter() - started, time.process_time() - own
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = sum(map(float, Path(LOG).read_text().split())) + own
        Path(LOG).unlink()
        best = max(best, num_reports / spent)
        print(
            f"{name}, {workers} processes: {num_reports / wall / 1e6:.0f} M reports a second, "
            f"{num_reports / spent / 1e6:.0f} M a processor second, largest process "
            f"{max(before.ru_maxrss, after.ru_maxrss, peak()) / 1024:.0f} MB, load "
            f"{os.getloadavg()[0]:.0f}",
            flush=True,
        )
    return best


LOG = os.environ.setdefault("RAPPOR_BENCH_LOG", str(Path(tempfile.mkdtemp()) / "seconds"))


def in_own_time(task: Task) -> PartCounts:
    """A task; its processor seconds and its memory go to a file."""
    started = time.process_time()
    counts = count_part(task)
    with Path(LOG).open("a") as file:
        file.write(f"{time.process_time() - started}\n")
    with Path(LOG + ".peak").open("a") as file:
        file.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}\n")
    return counts


def peak() -> int:
    """KiB of the largest worker so far."""
    return max(map(int, Path(LOG + ".peak").read_text().split()))


def measure_dask(url: str) -> None:
    """Print one line for each number of workers, and one for a run with a killed worker."""
    import distributed

    found, first = [], 0.0
    for workers in (1, 2, 4):
        with distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster:
            executor = DaskCluster(cluster.scheduler_address, late)
            started = time.perf_counter()
            found.append(run(url, None, executor, 1_000_000))
            wall = time.perf_counter() - started
            first = first or wall
            print(f"Dask, {workers} workers, {DELAY} s a task: {wall:.1f} s, {first / wall:.1f} x")
            if workers == 4:
                victim = next(iter(cluster.workers.values())).pid
                timer = threading.Timer(DELAY * 1.5, os.kill, (victim, signal.SIGKILL))
                timer.start()
                started = time.perf_counter()
                found.append(run(url, None, executor, 1_000_000))
                print(f"the same, one killed: {time.perf_counter() - started:.1f} s")
    print(f"all sums are equal: {all(one == found[0] for one in found)}")


def costs(speed: float) -> None:
    """Print what is computed."""
    print("computed, not measured: k = 128, in clear, reading at 1 GB/s and 200 MB/s")
    for power in range(7, 12):
        reports = 10**power
        size = reports * REPORT_BYTES
        print(
            f"1e{power} reports: {size / 1e9:,.2f} GB, {reports / speed / 3600:.4f} core hours, "
            f"{size / 1e9 / 60:.2f} or {size / 2e8 / 60:.2f} minutes of reading"
        )


if __name__ == "__main__":
    main()
