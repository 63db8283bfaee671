"""A device's state in memory: for simulations, and for tests of an app. Nothing is kept.

Fleets of many devices in one process take this instead of a file each; see `docs/client.md`.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from client_sdk.storage.schema import MEMORY
from client_sdk.storage.sqlite import SqliteState
from rappor_core.calendar import date_of
from rappor_core.wire.report import Report

QUEUED = """
    SELECT metric, params_id, cohort, day, bits FROM queue JOIN sources ON sources.id = source
    ORDER BY queue.id
"""
COUNT = """
    UPDATE entries SET reports = reports + (SELECT count(*) FROM queue WHERE entry = entries.id)
"""


class MemoryState(SqliteState):
    """The state of one device in a database in memory. It is lost when the object is."""

    def __init__(self, secret: bytes) -> None:
        """Start with an empty ledger and an empty queue. secret: 32 bytes, private."""
        super().__init__(MEMORY, threading.RLock())
        self.set_secret(secret)

    def __del__(self) -> None:
        """Close the database; where it was never opened there is none."""
        with suppress(AttributeError):
            self.close()

    def take_reports(self) -> list[Report]:
        """Empty the queue and return its reports, in the order of recording."""
        with self.transaction() as database:
            rows = database.execute(QUEUED).fetchall()
            database.execute(COUNT)
            database.execute("DELETE FROM queue")
        return [
            Report(metric, params_id, cohort, date_of(day), bits)
            for metric, params_id, cohort, day, bits in rows
        ]
