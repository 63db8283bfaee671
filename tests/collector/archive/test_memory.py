"""Sums of an archive: those of the bits, of google/rappor's files, and in bounded memory."""

import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from collector.archive import parquet, sums
from collector.archive import parquet as bit_sums
from collector.archive.parquet import Bytes, sum_bits
from collector.archive.parts import write_part
from collector.archive.store import open_store
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams
from tests.collector.archive.support import DAY, summed
from tests.collector.support import make_metric

GROUP = 1 << 18  # bytes
LATE = 3 * GROUP  # that Arrow's threads may not have freed yet; the larger one is 36 more
POOLS: list[pa.MemoryPool] = []  # kept: Arrow's threads may free a buffer after the work is done


def peak_of(work: Callable[[], object]) -> int:
    """Bytes of numpy, Python and Arrow at their most, above what was there."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] + int(pool.max_memory())
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


def pieces(params: RapporParams, count: int) -> Iterator[tuple[int, Bytes]]:
    """Random reports, in pieces as small as a collector's pages."""
    rng = np.random.default_rng(1)
    left = [count // params.num_cohorts] * params.num_cohorts
    for cohort, size in enumerate(left):
        for start in range(0, size, 500):
            shape = min(500, size - start), params.report_bytes
            yield cohort, rng.integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize(
    ("num_bits", "num_cohorts"),
    [
        (8192, 4),
        pytest.param(128, 16, marks=pytest.mark.long),
        pytest.param(64, 256, marks=pytest.mark.long),
    ],
)
def test_memory_does_not_grow_with_the_archive(
    num_bits: int, num_cohorts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 and 48 row groups; narrow and wide reports, few and many cohorts."""
    monkeypatch.setattr(parquet, "MAX_BYTES", GROUP)
    metric = make_metric("wide", num_bits=num_bits, num_cohorts=num_cohorts)
    params = metric.params
    written, read = [], []
    for groups in (3, 12, 48):  # the first fills what is loaded and cached once
        url = str(tmp_path / f"archive{len(read)}")
        count = groups * GROUP // params.report_bytes
        store = open_store(url)
        written.append(peak_of(lambda: write_part(
            store, metric, (DAY, DAY), pieces(params, count), lambda _: None)))  # noqa: B023  # fmt: skip
        read.append(peak_of(lambda: summed(url, "wide")))  # noqa: B023
    ints = 32 * num_bits * num_cohorts  # of the answer; Python makes small ones once
    assert read[2] < read[1] + LATE + ints
    assert written[2] < written[1] + LATE + ints


@pytest.mark.parametrize("num_bits", [1, 8, 12, 20, 40, 127, 128, 1000])
@pytest.mark.parametrize("n", [0, 1, 7, 96, 97, 5003])
def test_sums_are_those_of_unpacked_bits(num_bits: int, n: int) -> None:
    width = (num_bits + 7) // 8
    rows = np.random.default_rng(n).integers(0, 256, (n, width), dtype=np.uint8)
    unpacked = np.unpackbits(rows, axis=1, bitorder="little")[:, :num_bits]
    assert (sum_bits(rows, num_bits) == unpacked.sum(axis=0, dtype=np.int64)).all()


def test_sums_over_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bit_sums, "_BLOCK_BYTES", 1 << 12)
    rows = np.full((70_001, 3), 0b10000001, dtype=np.uint8)
    assert sum_bits(rows, 20).tolist() == ([70_001, 0, 0, 0, 0, 0, 0, 70_001] * 3)[:20]


PARAMS = "k,h,m,p,q,f\n12,2,4,0.5,0.75,0.5\n"


def google_lines(count: int) -> list[tuple[int, str]]:
    """(cohort, irr) of a fixed seed; cohort 2 is empty."""
    rng = random.Random(2)
    return [(rng.choice((0, 1, 3)), f"{rng.getrandbits(12):012b}") for _ in range(count)]


def google_sums(lines: list[tuple[int, str]]) -> list[list[int]]:
    """google/rappor's sum_bits.py: a row per cohort, the total and the bits, lowest first."""
    sums = [[0] * 13 for _ in range(4)]
    for cohort, irr in lines:
        sums[cohort][0] += 1
        for i, character in enumerate(irr):
            if character == "1":
                sums[cohort][12 - i] += 1
    return sums


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [f"user{n % 7},{cohort},,,{irr}" for n, (cohort, irr) in enumerate(google_lines(100))]
    (tmp_path / "reports.csv").write_text("\n".join(["client,cohort,bloom,prr,irr", *rows]) + "\n")
    (tmp_path / "params.csv").write_text(PARAMS)
    return tmp_path


def run(folder: Path, *more: str) -> int:
    command = ["archive", "sum", str(folder / "reports.csv"), "seen"]
    params = ["--params", str(folder / "params.csv")]
    return main([*command, *params, "-o", str(folder / "sum.json"), *more])


def test_a_report_file_is_summed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in pieces; who sent what is not in the aggregate."""
    monkeypatch.setattr(sums, "_LINES", 7)
    assert run(folder) == 0
    text = (folder / "sum.json").read_text()
    found = Aggregate.from_json(text)
    totals = [[n, *row] for n, row in zip(found.reports_per_cohort, found.bit_counts, strict=True)]
    assert totals == google_sums(google_lines(100))
    assert found.first_day is None
    assert "user" not in text
