"""`rappor migrate`: bring a collector's database to this version's schema."""

from __future__ import annotations

from collector.store.database import CollectorDatabase, make_engine
from rappor_cli import options as shared
from rappor_server.schema import migrate as bring
from rappor_server.schema import migrated_text


def migrate(
    database: shared.NeededDatabase,
) -> None:
    """Bring the database to this version's schema, in one transaction. Make a backup first."""
    store = CollectorDatabase(make_engine(database))
    try:
        before, after = bring(store)
    finally:
        store.close()
    print(migrated_text(store.program, before, after))
