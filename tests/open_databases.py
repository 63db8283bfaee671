"""A connection to SQLite that is collected open fails a test, and names who opened it."""

import os
import sqlite3
import warnings
from typing import Any

OWN_CONNECT = sqlite3.connect


class Watched(sqlite3.Connection):
    """A connection that warns where it is collected open, but in a fork of the process."""

    opener: tuple[int, str] | None = None  # while it is open: process and test

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.opener = os.getpid(), os.environ.get("PYTEST_CURRENT_TEST", "no test")

    def close(self) -> None:
        super().close()
        self.opener = None

    def __del__(self) -> None:
        if self.opener is not None and self.opener[0] == os.getpid():
            said = f"not closed: a database that {self.opener[1]} opened"
            warnings.warn(said, ResourceWarning, stacklevel=1)


def connect(*args: Any, **options: Any) -> sqlite3.Connection:
    """Connect like `sqlite3.connect`, watched where no other factory is asked for."""
    made: sqlite3.Connection = OWN_CONNECT(*args, **{"factory": Watched, **options})
    return made


def watch() -> None:
    """Connections of this process, from now on."""
    for module in (sqlite3, sqlite3.dbapi2):
        module.connect = connect  # type: ignore[attr-defined]
