"""Counters of open days: read once, then added to in memory and written with each commit.

Each worker writes rows of its own (`shard`). That a remembered count is still the stored one is
checked by the database with every write (`num_reports` must be what it was), so a second process
on the same shard can cost a retry, never a report.

Bit counts as one wide integer: k lanes of 32 bits, added with one addition.

A report's bits are spread so that bit i becomes the lowest bit of lane i; then the sum of the
spread integers holds every bit's count side by side. No carry crosses a lane below 2**32 reports.

Many reports are first summed bit-sliced: plane p of a stack holds, for each bit, bit p of its
count, and three words of one plane become one of it and one of the next (a carry-save adder, as in
Harley and Seal's population count: Warren, Hacker's Delight, 2nd edition, section 5-1). Cells of
about one size are summed side by side, in one wide word, so that Python's cost of an operation is
paid once for all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from secrets import randbelow
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from collector.errors import CounterFullError
from collector.store.models import counters

NUM_SHARDS = 64
_CACHE_BYTES = 64 << 20


class CounterRow(NamedTuple):
    """A counter row to store. `before`: its number of reports until now, 0 for none."""

    series_id: int
    day: int
    shard: int
    cohort: int
    num_reports: int
    counts: bytes
    before: int


@dataclass(slots=True)
class CohortCounts:
    """Counts of one cohort of one day: how many reports, and their lanes."""

    num_reports: int = 0
    lanes: int = 0


Place = tuple[int, int]  # series, day
Additions = Mapping[Place, Mapping[int, Sequence[bytes]]]  # by cohort: the bits of its reports


class CounterCache:
    """The counter rows that this process writes, in memory. Not safe for two threads."""

    def __init__(
        self, num_shards: int = NUM_SHARDS, *, random_below: Callable[[int], int] = randbelow
    ) -> None:
        """Begin at a random shard, so that processes which start together do not share one.

        num_shards: how many there are; more writers than that wait for each other.
        """
        self.num_shards = num_shards
        self._random_below = random_below
        self._shard = random_below(num_shards)
        self._cells: dict[Place, dict[int, CohortCounts]] = {}
        self._bytes = 0

    @property
    def shard(self) -> int:
        """The number that marks this process's own rows."""
        return self._shard

    def move_to(self, shard: int) -> None:
        """Take another shard, and forget the counts of the last one."""
        if shard != self._shard:
            self.clear()
            self._shard = shard

    def leave_shard(self) -> None:
        """Take another shard at random: a second process writes this one by turns."""
        if self.num_shards == 1:
            self.clear()
            return
        step = 1 + self._random_below(self.num_shards - 1)
        self.move_to((self._shard + step) % self.num_shards)

    def clear(self) -> None:
        """Forget all cached rows, after a failure or when another shard is taken."""
        self._cells.clear()
        self._bytes = 0

    def add(self, connection: Connection, additions: Additions) -> list[CounterRow]:
        """Add reports to what is remembered; return the rows to store, in the order of their keys.

        So locks are always taken in one order, and rows do not tell the order of arrival. Raises
        CounterFullError where a count would pass 2**32; the cache must then be cleared.
        """
        return [
            row
            for place, added in sorted(additions.items())
            if added
            for row in self._add_to_place(connection, place, added)
        ]

    def _add_to_place(
        self, connection: Connection, place: Place, added: Mapping[int, Sequence[bytes]]
    ) -> list[CounterRow]:
        cells = self._remembered(connection, place)
        num_bytes = len(next(iter(added.values()))[0])
        sums = lane_sums(added, num_bytes)
        rows = []
        for cohort in sorted(added):
            cell = cells.get(cohort)
            if cell is None:
                cell = cells[cohort] = CohortCounts()
                self._bytes += 8 * num_bytes * LANE_BYTES
            before = cell.num_reports
            cell.num_reports = total = before + len(added[cohort])
            if total > MAX_COUNT:
                raise CounterFullError(
                    f"a counter is full: {total} reports of series {place[0]}, cohort {cohort}, "
                    f"of one day, and {MAX_COUNT} fit; declare the metric with more cohorts"
                )
            cell.lanes += sums[cohort]
            lanes = pack(cell.lanes, 8 * num_bytes)
            rows.append(CounterRow(*place, self._shard, cohort, total, lanes, before))
        return rows

    def _remembered(self, connection: Connection, place: Place) -> dict[int, CohortCounts]:
        """The cells of a series and day, read on first use."""
        if place not in self._cells:
            if self._bytes > _CACHE_BYTES:
                self.clear()
            rows = connection.execute(
                select(counters.c.cohort, counters.c.num_reports, counters.c.counts).where(
                    counters.c.series_id == place[0],
                    counters.c.day == place[1],
                    counters.c.shard == self._shard,
                )
            )
            cells = self._cells[place] = {
                row[0]: CohortCounts(row[1], unpack(row[2])) for row in rows
            }
            self._bytes += sum(cell.lanes.bit_length() // 8 for cell in cells.values())
        return self._cells[place]


LANE_BYTES = 4
MAX_COUNT = (1 << 32) - 1
_WORD_BYTES = 4096  # of the cells that are summed side by side; wider words gain no more


def lane_sums(cells: Mapping[int, Sequence[bytes]], num_bytes: int) -> dict[int, int]:
    """The lanes of each cell's reports, by cohort.

    cells: one report or more each, fewer than 2**32, all of `num_bytes` bytes.
    """
    sums: dict[int, int] = {}
    size = 8 * num_bytes * LANE_BYTES
    for block in _blocks(cells, max(1, _WORD_BYTES // num_bytes)):
        ranks = zip_longest(*[cells[cohort] for cohort in block], fillvalue=bytes(num_bytes))
        words = [int.from_bytes(b"".join(rank), "little") for rank in ranks]
        lanes = _spread(count_columns(words), 8 * num_bytes * len(block))
        for position, cohort in enumerate(block):
            sums[cohort] = unpack(lanes[position * size : (position + 1) * size])
    return sums


def _blocks(cells: Mapping[int, Sequence[bytes]], most: int) -> Iterator[list[int]]:
    """Cohorts to sum side by side: none has less than half of the reports of another."""
    block: list[int] = []
    for cohort in sorted(cells, key=lambda cohort: len(cells[cohort]), reverse=True):
        if block and (len(block) == most or 2 * len(cells[cohort]) < len(cells[block[0]])):
            yield block
            block = []
        block.append(cohort)
    if block:
        yield block


def _spread(planes: Sequence[int], num_bits: int) -> bytes:
    """Lanes of the counts that the planes hold. Eight planes fill one byte of every lane."""
    lanes = bytearray(num_bits * LANE_BYTES)
    ones = int.from_bytes(b"\x01" * num_bits, "little")
    for start in range(0, len(planes), 8):
        column = 0
        for position, plane in enumerate(planes[start : start + 8]):
            digits = f"{plane:0{num_bits}b}".encode("ascii")  # a byte a bit, the highest first
            column |= (int.from_bytes(digits, "big") & ones) << position
        lanes[start // 8 :: LANE_BYTES] = column.to_bytes(num_bits, "little")
    return bytes(lanes)


def count_columns(words: list[int]) -> list[int]:
    """Count how often each bit position is set, as bit planes: bit i of plane p is bit p of
    position i's count.

    words: is used up.
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


def pack(lanes: int, num_lanes: int) -> bytes:
    """Counters as stored bytes: little-endian lanes."""
    return lanes.to_bytes(num_lanes * LANE_BYTES, "little")


def unpack(stored: bytes) -> int:
    """Read the counters that `pack` has stored."""
    return int.from_bytes(stored, "little")


def counts(stored: bytes, num_bits: int) -> tuple[int, ...]:
    """The first `num_bits` counts of stored lanes."""
    return struct.unpack_from(f"<{num_bits}I", stored)


def reports_by_day(connection: Connection) -> dict[tuple[int, int], int]:
    """Number of reports of each (series, day) that is not folded yet."""
    columns = (counters.c.series_id, counters.c.day)
    statement = select(*columns, func.sum(counters.c.num_reports)).group_by(*columns)
    return {(series_id, day): int(count) for series_id, day, count in connection.execute(statement)}
