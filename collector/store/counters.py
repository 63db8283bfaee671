"""The counters of open days, and the sums that a commit adds to the stored counters.

Bit counts are one wide integer: k lanes of 32 bits, added with one addition.

A report's bits are spread so that bit i becomes the lowest bit of lane i. Then the sum of the
spread integers contains every bit's count side by side. No carry crosses a lane below 2**32
reports.

Many reports are first summed bit-sliced: plane p of a stack contains, for each bit, bit p of its
count, and three words of one plane become one word of that plane and one word of the next (a
carry-save adder, as in Harley and Seal's population count: Warren, Hacker's Delight, 2nd edition,
section 5-1). Cells of similar size are summed side by side in one wide word, so that Python's cost
per operation is paid only once for all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from collector.errors import CounterFullError
from collector.store.models import counters


class Cell(NamedTuple):
    """The key of a counter row."""

    series_id: int
    day: int
    cohort: int


class CohortSum(NamedTuple):
    """The number of reports in one cohort, and their bit counts as stored lanes."""

    num_reports: int
    lanes: bytes

    def plus(self, other: CohortSum) -> CohortSum:
        """Return the sum of two counts. Raises CounterFullError if a lane could overflow."""
        total = self.num_reports + other.num_reports
        if total > MAX_COUNT:
            raise CounterFullError(
                f"a counter is full: {total} reports of one cohort, and {MAX_COUNT} fit; declare "
                "the metric with more cohorts, or lower min_reports so that blocks are sealed "
                "sooner"
            )
        lanes = int.from_bytes(self.lanes, "little") + int.from_bytes(other.lanes, "little")
        return CohortSum(total, lanes.to_bytes(len(other.lanes), "little"))


NO_REPORTS = CohortSum(0, b"")
Place = tuple[int, int]  # series, day
Additions = Mapping[Place, Mapping[int, Sequence[bytes]]]  # the bits of reports, by cohort


def sum_cells(additions: Additions) -> dict[Cell, CohortSum]:
    """Return the number of reports and the bit counts of each (series, day, cohort).

    Cells are sorted by key, so that the rows do not reveal the order of arrival.
    """
    sums: dict[Cell, CohortSum] = {}
    for place, cohorts in sorted(additions.items()):
        if not cohorts:  # all reports were rejected
            continue
        lanes = lane_sums(cohorts)
        for cohort in sorted(cohorts):
            sums[Cell(*place, cohort)] = CohortSum(len(cohorts[cohort]), lanes[cohort])
    return sums


LANE_BYTES = 4
MAX_COUNT = (1 << 32) - 1
_WORD_BYTES = 4096  # for cells that are summed side by side; wider words are not faster


def lane_sums(cells: Mapping[int, Sequence[bytes]]) -> dict[int, bytes]:
    """Return, by cohort, the bit counts of its reports as lanes of 32 bits.

    Each cohort has at least one report and fewer than 2**32, all of the same length.
    """
    sums: dict[int, bytes] = {}
    num_bytes = len(next(iter(cells.values()))[0])
    size = 8 * num_bytes * LANE_BYTES
    for block in _blocks(cells, max(1, _WORD_BYTES // num_bytes)):
        ranks = zip_longest(*[cells[cohort] for cohort in block], fillvalue=bytes(num_bytes))
        words = [int.from_bytes(b"".join(rank), "little") for rank in ranks]
        lanes = _spread(count_columns(words), 8 * num_bytes * len(block))
        for position, cohort in enumerate(block):
            sums[cohort] = lanes[position * size : (position + 1) * size]
    return sums


def _blocks(cells: Mapping[int, Sequence[bytes]], most: int) -> Iterator[list[int]]:
    """Yield groups of up to `most` cohorts whose report counts differ by a factor of at most 2."""
    block: list[int] = []
    for cohort in sorted(cells, key=lambda cohort: len(cells[cohort]), reverse=True):
        if block and (len(block) == most or 2 * len(cells[cohort]) < len(cells[block[0]])):
            yield block
            block = []
        block.append(cohort)
    if block:
        yield block


def _spread(planes: Sequence[int], num_bits: int) -> bytes:
    """Convert bit planes to lanes of counts. Eight planes fill one byte of every lane."""
    lanes = bytearray(num_bits * LANE_BYTES)
    ones = int.from_bytes(b"\x01" * num_bits, "little")
    for start in range(0, len(planes), 8):
        column = 0
        for position, plane in enumerate(planes[start : start + 8]):
            digits = f"{plane:0{num_bits}b}".encode("ascii")  # one byte per bit, highest first
            column |= (int.from_bytes(digits, "big") & ones) << position
        lanes[start // 8 :: LANE_BYTES] = column.to_bytes(num_bits, "little")
    return bytes(lanes)


def count_columns(words: list[int]) -> list[int]:
    """Count how often each bit position is set, and return the counts as bit planes.

    Bit i of plane p is bit p of position i's count. `words` is consumed.
    """
    planes: list[int] = []
    while words:
        carries: list[int] = []
        while len(words) > 2:
            a, b, c = words.pop(), words.pop(), words.pop()
            either = a ^ b
            words.append(either ^ c)
            carries.append((a & b) | (either & c))
        if len(words) == 2:
            a, b = words
            words = [a ^ b]
            carries.append(a & b)
        planes.append(words[0])
        words = carries
    return planes


def counts(stored: bytes, num_bits: int) -> tuple[int, ...]:
    """Return the first `num_bits` counts of stored lanes."""
    return struct.unpack_from(f"<{num_bits}I", stored)


def reports_by_day(connection: Connection) -> dict[tuple[int, int], int]:
    """Return the number of reports of each (series, day) that is not folded yet."""
    columns = (counters.c.series_id, counters.c.day)
    statement = select(*columns, func.sum(counters.c.num_reports)).group_by(*columns)
    return {(series_id, day): int(count) for series_id, day, count in connection.execute(statement)}
