"""Tables of an empty database by the statements that made the first one's, without Alembic.

The revisions of a program take some 40 ms of processor a database, and thousands of tests make one;
their statements take 3. `prepare` locks, looks and commits as ever.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, event

from rappor_server.program import Program

Upgrade = Callable[[Connection, Program], None]
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
