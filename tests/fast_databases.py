"""Databases that cost tests little: thousands of tests make one.

Their tables come by the statements that made the first one's, without Alembic, which takes some 40
ms of processor; `prepare` locks, looks and commits as ever. Commits of SQLite do not wait for the
disk: what a test stores need not outlive the machine.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from threading import Lock
from typing import Any

import pytest
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, event

from rappor_server import database, schema
from rappor_server.program import Program

Upgrade = Callable[[Connection, Program], None]
OWN_UPGRADE, OWN_SETTINGS = schema._upgrade, database._prepare_sqlite
_READS = ("SELECT", "PRAGMA")


class RepeatedUpgrade:
    """In place of `rappor_server.schema._upgrade`: runs it once for each program and kind of
    database, and repeats its statements in every other empty one."""

    def __init__(self, upgrade: Upgrade) -> None:
        """upgrade: the one that runs Alembic."""
        self.upgrade = upgrade
        self._lock = Lock()
        self._statements: dict[tuple[Program, str], list[tuple[str, Any]]] = {}

    def __call__(self, connection: Connection, program: Program) -> None:
        """Bring a database to the head of the program's revisions."""
        if MigrationContext.configure(connection).get_current_revision() is not None:
            return self.upgrade(connection, program)
        with self._lock:
            known = self._statements.get((program, connection.dialect.name))
        if known is None:
            known = self._record(connection, program)
            with self._lock:
                self._statements[program, connection.dialect.name] = known
            return None
        for statement, parameters in known:
            connection.exec_driver_sql(statement, parameters or None)
        return None

    def _record(self, connection: Connection, program: Program) -> list[tuple[str, Any]]:
        made: list[tuple[str, Any]] = []

        def note(_c: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
            if not statement.lstrip().upper().startswith(_READS):
                made.append((statement, parameters))

        event.listen(connection, "before_cursor_execute", note)
        try:
            self.upgrade(connection, program)
        finally:
            event.remove(connection, "before_cursor_execute", note)
        return made


def settle_fast(connection: sqlite3.Connection, record: object) -> None:
    """The settings of a connection to SQLite, but for the wait for the disk."""
    OWN_SETTINGS(connection, record)
    connection.execute("PRAGMA synchronous=OFF")


def make_fast() -> None:
    """Databases of this process, from now on."""
    schema._upgrade = RepeatedUpgrade(OWN_UPGRADE)
    database._prepare_sqlite = settle_fast


def make_as_served(patch: pytest.MonkeyPatch) -> None:
    """Databases as the programs make them, for one test."""
    patch.setattr(schema, "_upgrade", OWN_UPGRADE)
    patch.setattr(database, "_prepare_sqlite", OWN_SETTINGS)
