"""Memory of writing and summing: of a row group and of the counts, whatever the archive's size."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from collector.archive import parquet
from collector.archive.parquet import Bytes
from collector.archive.parts import write_part
from collector.archive.store import open_store
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
    """Of 12 and of 48 row groups; narrow and wide reports, few and many cohorts."""
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
