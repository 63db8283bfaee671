"""Bringing a database to this code's schema."""

from __future__ import annotations

from sqlalchemy import insert, select

from collector.store.engine import Database
from collector.store.models import metadata, state
from collector.store.registry import STATE_ROW


def prepare(database: Database) -> None:
    """Make the tables where there are none."""
    with database.change() as connection:
        metadata.create_all(connection)
        if connection.execute(select(state.c.id)).first() is None:
            connection.execute(insert(state).values(id=STATE_ROW, version=0))
