"""How fast archived reports are summed, and in what memory.

Processes of this machine on files in the page cache, encrypted and in clear, beside reading the
same files with pyarrow and summing them with numpy.unpackbits; memory of the largest process.

What that makes of 1e11 reports is in docs/scale.md.

Usage: python benchmarks/archive.py [--reports 100000000] [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet
from _run import Comparison, run, seconds
from archive.aggregate import Wanted, aggregate, choose_parts
from archive.keys import IN_CLEAR, ArchiveKey, load_key, make_key
from archive.manifest import ArchivedPart
from archive.parts import PartLabel, write_part
from archive.pools import LocalPool, Pool
from archive.store import open_store
from archive.tasks import PartCounts, SpanTask, count_part

from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams

DAY = date(2026, 11, 16)
PARAMS = RapporParams.rappor(
    num_bits=128, num_hashes=2, num_cohorts=16, prob_f=0.5, prob_p=0.5, prob_q=0.75
)


def fill(url: str, key: ArchiveKey, num_reports: int) -> None:
    """Parts of ten days."""
    store, each = open_store(url), num_reports // 10
    for number in range(10):
        day = DAY + timedelta(days=number)
        label = PartLabel("bench", "", {}, PARAMS, day, day, date(2099, 1, 1))
        write_part(store, key, label, pieces(each, number), lambda _: None)


def pieces(count: int, seed: int) -> Iterator[tuple[int, np.ndarray]]:
    """Random reports of every cohort."""
    rng = np.random.default_rng(seed)
    for cohort in range(PARAMS.num_cohorts):
        size = count // PARAMS.num_cohorts
        yield cohort, rng.integers(0, 256, (size, PARAMS.report_bytes), dtype=np.uint8)


def parts(url: str, key_file: Path | None) -> list[ArchivedPart]:
    """All of an archive."""
    return choose_parts(open_store(url), load_key(key_file), Wanted("bench"), DAY)


def summed(
    url: str, key_file: Path | None, executor: Pool[SpanTask, PartCounts], task_reports: int
) -> Aggregate:
    """One sum."""
    name = None if key_file is None else str(key_file)
    return aggregate(parts(url, key_file), url, name, executor, task_reports=task_reports)


def local(name: str, url: str, key_file: Path | None, num_reports: int) -> Iterator[Comparison]:
    """One line for each number of processes."""
    plain = None if key_file else seconds(lambda: unpacked(url))
    for workers in (1, 2):
        executor = LocalPool(in_own_time, workers, ["archive.tasks"])
        started, own = time.perf_counter(), time.process_time()
        summed(url, key_file, executor, num_reports // 8)
        wall, own = time.perf_counter() - started, time.process_time() - own
        spent, peak = worked()
        used = own + spent
        rival = "pyarrow and numpy.unpackbits().sum()" if plain else ""
        yield Comparison(
            "", f"an archive of {num_reports:,} reports summed, {name}, {workers} processes", "s",
            (used,), rival, (plain,) if plain else (),
            note=f"{num_reports / used / 1e6:.0f} M reports a processor second, "
            f"{num_reports / wall / 1e6:.1f} M a second of the clock, largest process "
            f"{peak / 1024:.0f} MB",
        )  # fmt: skip


def unpacked(url: str) -> Aggregate | None:
    """The plain way: each part read whole, each cohort unpacked and summed."""
    for path in sorted(Path(url).rglob("*.parquet")):
        table = pyarrow.parquet.read_table(path)
        column = next(f.name for f in table.schema if "binary" in str(f.type))
        cohorts = table["cohort"].to_numpy()
        width = PARAMS.report_bytes
        flat = b"".join(table[column].to_pylist())
        rows = np.frombuffer(flat, np.uint8).reshape(-1, width)
        for cohort in range(PARAMS.num_cohorts):
            np.unpackbits(rows[cohorts == cohort], axis=1, bitorder="little").sum(axis=0)


LOG = os.environ.setdefault("RAPPOR_BENCH_LOG", str(Path(tempfile.mkdtemp()) / "tasks"))


def in_own_time(task: SpanTask) -> PartCounts:
    """A task; its processor seconds and peak memory go to a file: its parent is a fork server."""
    started = time.process_time()
    counts = count_part(task)
    used, peak = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Path(LOG).open("a") as file:
        file.write(f"{used} {peak}\n")
    return counts


def worked() -> tuple[float, int]:
    """Seconds of all tasks since the last call, and KiB of the largest process."""
    lines = [line.split() for line in Path(LOG).read_text().splitlines()]
    Path(LOG).unlink()
    return sum(float(used) for used, _ in lines), max(int(peak) for _, peak in lines)


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """Both forms of files."""
    reports = chosen.reports // (20 if chosen.small else 1)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("encrypted", "in clear"):
            key_file = Path(folder) / "key" if name == "encrypted" else None
            key = IN_CLEAR if key_file is None else make_key(key_file)
            url = str(Path(folder) / name.replace(" ", "-"))
            fill(url, key, reports)
            yield from local(name, url, key_file, reports)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reports", type=int, default=100_000_000)


if __name__ == "__main__":
    run(__doc__, measure, options)
