"""SQLite databases that cost tests little: commits do not wait for the disk."""

import sqlite3

import pytest

from rappor_server import database

OWN_SETTINGS = database._prepare_sqlite


def settle_fast(connection: sqlite3.Connection, record: object) -> None:
    """The settings of a connection to SQLite, but for the wait for the disk."""
    OWN_SETTINGS(connection, record)
    connection.execute("PRAGMA synchronous=OFF")


def make_fast() -> None:
    """Databases of this process, from now on."""
    database._prepare_sqlite = settle_fast


def make_as_served(patch: pytest.MonkeyPatch) -> None:
    """Databases as the programs make them, for one test."""
    patch.setattr(database, "_prepare_sqlite", OWN_SETTINGS)
