"""Counters of open days: read once, then added to in memory and written with each commit.

Each worker writes rows of its own (`shard`). That a remembered count is still the stored one is
checked by the database with every write (`num_reports` must be what it was), so a second process
on the same shard can cost a retry, never a report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, insert, select, text, update

from collector.errors import StaleError, StorageError
from collector.store.engine import SHARD_LOCKS
from collector.store.lanes import LANE_BYTES, MAX_COUNT, LaneAdder, pack, unpack
from collector.store.models import counters

NUM_SHARDS = 64
_CACHE_BYTES = 64 << 20


@dataclass(slots=True)
class Cell:
    """Counts of one cohort of one day: how many reports, and their lanes."""

    num_reports: int = 0
    lanes: int = 0


Place = tuple[int, int]  # series, day
Additions = Mapping[Place, Mapping[int, Sequence[bytes]]]  # by cohort: the bits of its reports


class CounterCache:
    """What this process remembers of the rows it writes. Not safe for two threads."""

    def __init__(self) -> None:
        self.shard = 0
        self.adder = LaneAdder()
        self._cells: dict[Place, dict[int, Cell]] = {}
        self._bytes = 0

    def clear(self) -> None:
        """Forget everything, after a failure or when another shard is taken."""
        self._cells.clear()
        self._bytes = 0

    def cells(self, connection: Connection, place: Place) -> dict[int, Cell]:
        """The cells of a series and day, read on first use."""
        if place not in self._cells:
            if self._bytes > _CACHE_BYTES:
                self.clear()
            rows = connection.execute(
                select(counters.c.cohort, counters.c.num_reports, counters.c.counts).where(
                    counters.c.series_id == place[0],
                    counters.c.day == place[1],
                    counters.c.shard == self.shard,
                )
            )
            self._cells[place] = {row[0]: Cell(row[1], unpack(row[2])) for row in rows}
        return self._cells[place]

    def grow(self, num_bytes: int) -> None:
        """Note that a new cell of this size is remembered."""
        self._bytes += num_bytes


def take_shard(connection: Connection, cache: CounterCache, *, is_postgresql: bool) -> None:
    """Make sure that no other transaction writes this cache's shard until this one ends.

    SQLite has one writer at a time, so one shard does. Raises StorageError when all are taken.
    """
    if not is_postgresql:
        return
    for step in range(NUM_SHARDS):
        shard = (cache.shard + step) % NUM_SHARDS
        statement = text(f"SELECT pg_try_advisory_xact_lock({SHARD_LOCKS + shard})")
        if connection.execute(statement).scalar():
            if shard != cache.shard:
                cache.clear()
                cache.shard = shard
            return
    raise StorageError(f"all {NUM_SHARDS} shards are being written; use fewer workers")


def add_counts(
    connection: Connection, cache: CounterCache, additions: Additions, lanes_of: Mapping[int, int]
) -> None:
    """Add to the stored counts. `lanes_of`: number of lanes of each series.

    Raises StaleError, and StorageError where a count would pass 2**32; the caller must
    then roll back and clear the cache.
    """
    old: list[dict[str, object]] = []
    new: list[dict[str, object]] = []
    for place, cells in additions.items():
        remembered = cache.cells(connection, place)
        for cohort, reports in cells.items():
            added = Cell(len(reports), cache.adder.total(reports))
            before = remembered.get(cohort)
            if before is None:
                before = remembered[cohort] = Cell()
                cache.grow(lanes_of[place[0]] * LANE_BYTES)
            row = _row(place, cohort, cache.shard, before, added, lanes_of[place[0]])
            (old if before.num_reports else new).append(row)
            before.num_reports += added.num_reports
            before.lanes += added.lanes
    _write(connection, old, new)


def _row(
    place: Place, cohort: int, shard: int, before: Cell, added: Cell, num_lanes: int
) -> dict[str, object]:
    total = before.num_reports + added.num_reports
    if total > MAX_COUNT:
        raise StorageError(f"a counter is full: {total} reports of one cohort and day")
    return {
        "at_series": place[0],
        "at_day": place[1],
        "at_shard": shard,
        "at_cohort": cohort,
        "before": before.num_reports,
        "num_reports": total,
        "counts": pack(before.lanes + added.lanes, num_lanes),
    }


_UPDATE = (
    update(counters)
    .where(
        counters.c.series_id == bindparam("at_series"),
        counters.c.day == bindparam("at_day"),
        counters.c.shard == bindparam("at_shard"),
        counters.c.cohort == bindparam("at_cohort"),
        counters.c.num_reports == bindparam("before"),
    )
    .values(num_reports=bindparam("num_reports"), counts=bindparam("counts"))
)
_INSERT = insert(counters).values(
    series_id=bindparam("at_series"),
    day=bindparam("at_day"),
    shard=bindparam("at_shard"),
    cohort=bindparam("at_cohort"),
    num_reports=bindparam("num_reports"),
    counts=bindparam("counts"),
)


def _write(
    connection: Connection, old: Iterable[dict[str, object]], new: Iterable[dict[str, object]]
) -> None:
    changed, fresh = _sorted(old), _sorted(new)
    if changed and connection.execute(_UPDATE, changed).rowcount != len(changed):
        raise StaleError("another process writes the same counters")
    for row in fresh:
        del row["before"]
    if fresh:
        connection.execute(_INSERT, fresh)


def _sorted(rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """By key: locks are always taken in one order, and rows do not tell the order of arrival."""
    return sorted(rows, key=lambda row: (row["at_series"], row["at_day"], row["at_cohort"]))
