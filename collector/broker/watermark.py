"""Decide when the days before today may be closed: once every message received on them is
counted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Any

from collector.broker.client import ends_of, partitions_of
from collector.domain.clock import Clock, today
from collector.store.broker import all_counted_before, not_counted_from, positions, read_state
from collector.store.database import CollectorDatabase

GRACE = timedelta(minutes=5)  # after midnight: clocks that differ, batches on their way
_LOOK_SECONDS = 1.0


class Watermark:
    """Records in the database that all messages of the days before today are counted.

    The rule: `GRACE` after midnight the ends of all partitions are read. A front gives no message
    the day before any more, so all that it gave stand before these ends. Once the positions of all
    partitions have passed them, days may be closed that only messages of earlier days could add to.
    What was said by a clock that was days ahead is taken back, so that the rule holds again.
    """

    def __init__(
        self,
        database: CollectorDatabase,
        clock: Clock,
        topic: str,
        *,
        every: float = _LOOK_SECONDS,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        self._database, self._clock, self._topic = database, clock, topic
        self._every, self._seconds = every, seconds
        self._looked = float("-inf")
        self._done = -1
        self._aim: tuple[int, dict[int, int]] | None = None  # a day, and ends before it

    def advance(self, client: Any, *, last: bool = False) -> None:
        """Move the watermark to today where it may; at most one look at the database a second.

        last: look at once. Raises StorageError.
        """
        day = today(lambda: self._clock() - GRACE)
        is_soon = self._seconds() - self._looked < self._every
        if day == self._done or (is_soon and not last):
            return
        self._looked = self._seconds()
        with self._database.read() as connection:
            stored = positions(connection, self._topic)
            state = read_state(connection)
        if state is None:  # no broker feeds the database any more
            return
        if state.counted_before >= day:
            now = today(self._clock)
            if state.counted_before > now:
                self._aim = None
                with self._database.add() as connection:
                    not_counted_from(connection, now)
            self._done = day
            return
        if self._aim is None or self._aim[0] != day:
            self._aim = day, ends_of_all(client, self._topic)
        if all(stored.get(one, 0) >= end for one, end in self._aim[1].items()):
            with self._database.add() as connection:
                all_counted_before(connection, day)
            self._done = day


def ends_of_all(client: Any, topic: str) -> dict[int, int]:
    """For each partition, the offset after the last message. Raises StorageError or
    SettingsError."""
    return {one: ends_of(client, topic, one)[1] for one in partitions_of(client, topic)}
