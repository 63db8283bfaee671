"""Reports in Parquet files, written and read by row group, and sums of their bits.

There are two columns, `cohort` and `bits` (fixed-size binary). Rows are sorted by cohort and,
within a cohort, in an order drawn from the system's secure randomness.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from collector.archive.store import ArchiveDamagedError, Store

Counts = NDArray[np.int64]
Bytes = NDArray[np.uint8]
_BLOCK_BYTES = 1 << 19  # summed together, to fit in a core's cache
_MAX_ADDED = 255  # the maximum number of bits that one byte can sum
MAX_ROWS = 1_000_000  # per row group
MAX_BYTES = 32 << 20  # of reports per row group, to limit a reader's memory
_LEVEL = 1  # for zstd: reports are noise, so higher levels hardly help
RandomBytes = Callable[[int], bytes]
Cohorts = NDArray[np.int32]


def sum_bits(rows: Bytes, num_bits: int) -> Counts:
    """Return the number of set bits at each position, shape (num_bits,).

    `rows` are (n, ceil(num_bits / 8)) bytes, C-contiguous; bit i is bit i % 8 of byte i // 8.
    """
    n, width = rows.shape
    whole = n - n % _MAX_ADDED
    step = _MAX_ADDED * max(1, _BLOCK_BYTES // (_MAX_ADDED * width))
    blocks = [rows[start : min(whole, start + step)] for start in range(0, whole, step)]
    total = np.zeros((8, width), dtype=np.int64)
    for block in [*(block.reshape(_MAX_ADDED, -1) for block in blocks), rows[whole:]]:
        for bit in range(8):
            ones = block >> np.uint8(bit)
            ones &= np.uint8(1)
            few = ones.sum(axis=0, dtype=np.uint8)
            total[bit] += few.reshape(-1, width).sum(axis=0, dtype=np.int64)
    counts: Counts = total.T.reshape(-1)[:num_bits]
    return counts


def rows_in_group(report_bytes: int) -> int:
    """Return the number of reports in a Parquet row group, for reports of a given size in bytes."""
    return max(1, min(MAX_ROWS, MAX_BYTES // report_bytes))


def write_reports(
    file: IO[bytes],
    report_bytes: int,
    reports: Iterable[tuple[int, Bytes]],
    random_bytes: RandomBytes = os.urandom,
) -> None:
    """Write (cohort, reports) pieces, sorted by cohort; shuffle the reports within a cohort.

    `file` is open for writing. Each piece has shape (n, report_bytes). All rows of one cohort in a
    row group are shuffled together.
    """
    schema = pa.schema(
        [
            pa.field("cohort", pa.int32(), nullable=False),
            pa.field("bits", pa.binary(report_bytes), nullable=False),
        ]
    )
    size = rows_in_group(report_bytes)
    with pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        compression_level=_LEVEL,
        use_dictionary=["cohort"],
        write_statistics=False,
    ) as writer:
        for cohorts, rows in _groups(reports, size):
            order = _shuffled_within(cohorts, random_bytes)
            data = pa.py_buffer(np.ascontiguousarray(rows[order]))
            width = pa.binary(report_bytes)
            bits = pa.FixedSizeBinaryArray.from_buffers(width, len(rows), [None, data])
            table = pa.table([pa.array(cohorts), bits], schema=schema)
            writer.write_table(table, row_group_size=size)


def _groups(pieces: Iterable[tuple[int, Bytes]], size: int) -> Iterator[tuple[Cohorts, Bytes]]:
    """Yield the rows of all pieces as (cohorts, bits) groups of `size`; the last may be smaller."""
    group: list[tuple[int, Bytes]] = []
    count = 0
    for cohort, piece in pieces:
        rows = piece
        while count + len(rows) >= size:
            num_taken = size - count
            group.append((cohort, rows[:num_taken]))
            yield _joined(group)
            rows, group, count = rows[num_taken:], [], 0
        if len(rows):
            group.append((cohort, rows))
            count += len(rows)
    if group:
        yield _joined(group)


def _joined(group: list[tuple[int, Bytes]]) -> tuple[Cohorts, Bytes]:
    cohorts = np.repeat([cohort for cohort, _ in group], [len(rows) for _, rows in group])
    return cohorts.astype(np.int32), np.concatenate([rows for _, rows in group])


def _shuffled_within(cohorts: Cohorts, random_bytes: RandomBytes) -> NDArray[np.intp]:
    """Return a random order of the rows of each cohort; cohorts stay in their order.

    Sorting by 64 random bits is a uniform permutation, except for ties (probability 3e-8 per
    million rows).
    """
    marks = np.frombuffer(random_bytes(8 * len(cohorts)), dtype=np.uint64)
    return np.lexsort((marks, cohorts))


def open_part(store: Store, name: str) -> IO[bytes]:
    """Open the file of a manifest entry. Raises ArchiveDamagedError if it is missing."""
    try:
        return store.open(name)
    except FileNotFoundError:
        raise ArchiveDamagedError(
            f"{name}: missing, but its entry counts it; if a lifecycle rule deleted it, request "
            "later days"
        ) from None


@contextmanager
def reading(file: IO[bytes], name: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file with reports for the duration of a `with` block.

    Raises ArchiveDamagedError if the file cannot be opened or read.
    """
    try:
        with pq.ParquetFile(file) as opened:
            fields = opened.schema_arrow
            if (
                fields.names != ["cohort", "bits"]
                or fields.field(0).type != pa.int32()
                or not pa.types.is_fixed_size_binary(fields.field(1).type)
            ):
                raise ValueError("not the columns of reports")
            yield opened
    except (pa.ArrowException, OSError, ValueError, EOFError, MemoryError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = str(error).strip().partition("\n")[0][:200]
        raise ArchiveDamagedError(f"{name}: truncated, or damaged ({reason})") from error


def read_group(opened: pq.ParquetFile, group: int) -> tuple[Cohorts, Bytes]:
    """Return the rows of a row group: cohorts (n,), and bits (n, report_bytes)."""
    table = opened.read_row_group(group, use_threads=False)
    bits = table.column("bits").combine_chunks()
    if isinstance(bits, pa.ChunkedArray):  # if there are no rows or several chunks
        bits = pa.concat_arrays(bits.chunks)
    width = bits.type.byte_width
    start = bits.offset * width
    data = np.frombuffer(bits.buffers()[1], dtype=np.uint8)[start : start + len(bits) * width]
    return table.column("cohort").to_numpy(), data.reshape(-1, width)
