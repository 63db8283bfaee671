"""Marks that deleted private rows may still stand in the files, until the files are scrubbed.

The mark is set in the transaction that deletes, so that a killed process, a scrub that another
process hinders, and an app that is not opened for weeks leave it to whoever opens the state next.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from client_sdk.storage.protocol import State
    from client_sdk.storage.sqlite import SqliteState

NAME = "unscrubbed"  # of the mark in the state's table `meta`


def leave_trace(state: State) -> None:
    """Mark that private rows are deleted, within the transaction that deletes them."""
    state.put(NAME, int.from_bytes(os.urandom(7), "big"))


def scrub_traces(state: SqliteState) -> bool:
    """Scrub the files if private rows were deleted since the last time. Return False if that
    must wait."""
    mark = state.get(NAME)
    if mark is None:
        return True
    with state.transaction() as database:  # places of rows tell how long those before them were
        notes = database.execute("SELECT * FROM notes").fetchall()
        database.execute("DELETE FROM notes")
        database.executemany("INSERT INTO notes VALUES (?, ?)", notes)
    if not state.scrub():
        return False
    with state.transaction() as database:  # another process may have deleted more meanwhile
        database.execute("DELETE FROM meta WHERE name = ? AND value = ?", (NAME, mark))
    return True
