"""Counters of open days: read once, then added to in memory and written with each commit.

Each worker writes rows of its own (`shard`). That a remembered count is still the stored one is
checked by the database with every write (`num_reports` must be what it was), so a second process
on the same shard can cost a retry, never a report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from secrets import randbelow
from typing import NamedTuple

from sqlalchemy import Connection, select

from collector.errors import CounterFullError
from collector.store.bit_counters import LANE_BYTES, MAX_COUNT, lane_sums, pack, unpack
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

        num_shards: how many there are; processes that were told differently work together.
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
