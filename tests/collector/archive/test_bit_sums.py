"""The sums of bits against numpy's own unpacking, and against the collector's sums."""

import numpy as np
import pytest

from collector.archive import parquet as bit_sums
from collector.archive.parquet import sum_bits
from collector.store.counters import counts, lane_sums


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


def test_sums_are_the_collectors() -> None:
    rows = np.random.default_rng(1).integers(0, 256, (999, 4), dtype=np.uint8)
    lanes = lane_sums({0: [bytes(row) for row in rows]})[0]
    assert tuple(sum_bits(rows, 30)) == counts(lanes, 30)
