"""Migrations give the tables of the code; strange databases are refused; copies are whole."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, make_url, text

from collector.store.database import COLLECTOR, MIGRATIONS, CollectorDatabase, back_up, restore
from collector.store.models import metadata
from rappor_server.database import make_engine
from rappor_server.errors import SchemaError, SettingsError, StorageError
from rappor_server.schema import migrate, prepare
from tests.collector import version_0_3_0
from tests.collector.database_copies import copy_database, put_copy_back
from tests.collector.support import BOTH_DATABASES, TODAY, Bench, make_bench, make_metric, set_fsync

pytestmark = pytest.mark.usefixtures("databases_as_served")
METRIC = make_metric(min_reports=1)


@contextmanager
def migrated(url: str, rows: str = "", **values: object) -> Iterator[Connection]:
    """A database of version 0.3.0 that had these rows, brought to this version."""
    database = CollectorDatabase(make_engine(url))
    with database.change() as connection:
        version_0_3_0.make_database(connection)
        for row in filter(str.strip, rows.split(";")):
            connection.execute(text(row), values)
    assert migrate(database) == ("0008", "0017")
    with database.read() as connection:
        yield connection
    database.close()


@BOTH_DATABASES
def test_migrations_and_models_say_the_same(database_url: str) -> None:
    """From the first released schema; an empty database gets the models' tables at once."""
    with migrated(database_url) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


@BOTH_DATABASES
def test_older_and_newer_schemas_are_refused(bench: Bench) -> None:
    def set_revision(revision: str) -> None:
        with bench.database.change() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :r"), {"r": revision})

    set_revision("9999")
    with pytest.raises(SchemaError, match="9999, and this code"):
        prepare(bench.database)
    with pytest.raises(SchemaError, match="9999"):
        migrate(bench.database)


NEXT = """
from time import sleep

import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "9000", "0017", None, None


def upgrade():
    op.add_column("audit", sa.Column("why", sa.Text))
    sleep(1)
"""


def test_an_older_database_is_migrated_only_when_asked(bench: Bench, tmp_path: Path) -> None:
    """By a made-up next version; it keeps what it holds, and takes the time that it needs."""
    bench.collector.push_metrics([METRIC], "test")
    bench.send(bench.sender.reports(METRIC, 7))
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    (folder / "versions" / "r9000_next.py").write_text(NEXT)
    bench.database.program = replace(COLLECTOR, migrations=folder)
    with pytest.raises(SchemaError, match=r"at schema 0017, .* run: rappor migrate --database URL"):
        prepare(bench.database)
    bench.database.max_seconds = 0.5
    assert migrate(bench.database) == ("0017", "9000")
    prepare(bench.database)
    assert migrate(bench.database) == ("9000", "9000")
    assert bench.collector.list_metrics()[0]["accepted"] == 7


LINKED_ROWS = """
INSERT INTO metrics VALUES ('engine', :params_id, 1, :definition, FALSE);
INSERT INTO associations VALUES ('both', 'b', 1, '{}', FALSE);
INSERT INTO series VALUES (7, 'engine', :params_id, 'engine');
INSERT INTO series VALUES (8, 'both', 'b', 'both');
INSERT INTO frontiers VALUES ('engine', 20000);
INSERT INTO blocks VALUES (1, 8, 20000, 20000, 5, FALSE);
INSERT INTO blocks VALUES (2, 7, 20000, 20000, 5, FALSE);
INSERT INTO block_counts VALUES (1, 0, 5, :none);
INSERT INTO linked_days VALUES (1, 0, 20000);
INSERT INTO counters VALUES (8, 20001, 0, 0, 5, :none);
INSERT INTO counters VALUES (7, 20001, 0, 0, 5, :none)
"""


def test_associations_of_an_older_database_go(database_url: str) -> None:
    """Their tables and counts; what was counted of the metrics stays, and they are read."""
    metric = make_metric("engine", min_reports=1)
    definition = json.dumps(metric.to_dict() | {"cohort_with": "homepage"})
    values = {"params_id": metric.params_id, "definition": definition, "none": b""}
    with migrated(database_url, LINKED_ROWS, **values) as connection:
        for table, held in {"series": 1, "blocks": 1, "block_counts": 0, "counters": 1}.items():
            counted = connection.execute(text(f"SELECT count(*) FROM {table}")).scalar()
            assert (table, counted) == (table, held)
    bench = make_bench(database_url)
    (listed,) = bench.collector.list_metrics()
    assert listed["definition"] == metric.to_dict()
    bench.database.close()


SHARDS = """
INSERT INTO series VALUES (7, 'engine', 'p', 'engine');
INSERT INTO counters VALUES (7, 20000, 3, 1, 2, :two);
INSERT INTO counters VALUES (7, 20000, 9, 1, 255, :many);
INSERT INTO counters VALUES (7, 20000, 9, 2, 5, :two);
INSERT INTO counters VALUES (7, 20001, 3, 1, 6, :many)
"""


def test_the_shards_of_an_older_database_are_summed(database_url: str) -> None:
    """No count carries into the next: the lanes are four bytes wide."""
    two, many = bytes([2, 0, 0, 0, 1, 0, 0, 0]), bytes([255, 0, 0, 0, 7, 0, 0, 0])
    both = bytes([1, 1, 0, 0, 8, 0, 0, 0])
    wanted = [(7, 20_000, 1, 257, both), (7, 20_000, 2, 5, two), (7, 20_001, 1, 6, many)]
    with migrated(database_url, SHARDS, two=two, many=many) as connection:
        rows = connection.execute(text("SELECT * FROM counters ORDER BY 1, 2, 3")).all()
    assert [tuple(row) for row in rows] == wanted


PARTITION = """
CREATE TABLE batches_1 (LIKE batches, PRIMARY KEY (batch_hash));
ALTER TABLE batches ATTACH PARTITION batches_1 FOR VALUES IN (1);
INSERT INTO batch_partitions VALUES (1, 20000);
INSERT INTO batches (batch_hash, digest, partition_id, num_reports, results)
    VALUES ('a', 'b', 1, 5, 'c')
"""


def test_batches_of_an_older_database_are_remembered(new_postgresql: Callable[[], str]) -> None:
    with migrated(new_postgresql(), PARTITION) as connection:
        (row,) = connection.execute(text("SELECT * FROM batches")).all()
    assert tuple(row) == (b"a", b"b", 20_000, 5, b"c")


def test_a_database_of_something_else_is_left_alone(database_url: str) -> None:
    database = CollectorDatabase(make_engine(database_url))
    with database.change() as connection:
        connection.execute(text("CREATE TABLE somebody_elses (id INTEGER)"))
    with pytest.raises(SchemaError, match=r"schema none, .* another program"):
        prepare(database)
    database.close()


def test_commits_of_sqlite_wait_for_the_disk(sqlite_url: str) -> None:
    database = CollectorDatabase(make_engine(sqlite_url))
    with database.change() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar_one() == 2  # full
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
    database.close()


def test_commits_always_wait_for_the_disk(new_postgresql: Callable[[], str]) -> None:
    """And sessions that would see old rows by default are changed."""
    url = new_postgresql()
    name = make_url(url).database
    database = CollectorDatabase(make_engine(url))
    with database.change() as connection:
        for setting in (
            "default_transaction_isolation = 'serializable'",
            "synchronous_commit = off",
        ):
            connection.execute(text(f"ALTER DATABASE {name} SET {setting}"))
    database.close()
    database = CollectorDatabase(make_engine(url))
    prepare(database)
    with database.add() as connection:
        level = connection.execute(text("SHOW transaction_isolation")).scalar_one()
        commit = connection.execute(text("SHOW synchronous_commit")).scalar_one()
    assert (level, commit) == ("read committed", "on")
    database.close()


def test_servers_with_lossy_commits_are_refused(new_postgresql, postgresql) -> None:
    """fsync goes off after the start: no report is acknowledged, no day closed; then on again."""
    bench = make_bench(new_postgresql())
    bench.collector.push_metrics([METRIC], "test")
    bench.send(bench.sender.reports(METRIC, 3))
    with psycopg.connect(postgresql, autocommit=True) as server:
        try:
            set_fsync(bench.database, server, "off")
            with pytest.raises(StorageError, match="fsync = off in PostgreSQL"):
                bench.send(bench.sender.reports(METRIC, 5))
            for act in (
                lambda: bench.collector.close_day(TODAY, "test"),
                lambda: prepare(bench.database),
            ):
                with pytest.raises(StorageError, match="fsync = off"):
                    act()
        finally:
            set_fsync(bench.database, server, "on")
    bench.send(bench.sender.reports(METRIC, 4))
    assert bench.collector.list_metrics()[0]["accepted"] == 7
    with bench.database.add() as connection:  # a session that somebody turned off, say a pooler
        connection.execute(text("SET SESSION synchronous_commit = off"))
    with bench.database.add() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar_one() == "on"
    bench.database.close()


@BOTH_DATABASES
def test_many_workers_start_on_an_empty_database(database_url: str) -> None:
    def start(_: int) -> None:
        database = CollectorDatabase(make_engine(database_url))
        try:
            prepare(database)
        finally:
            database.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(start, range(4)))  # raises what one of them raised


@pytest.mark.usefixtures("with_pg_programs")
@BOTH_DATABASES
def test_a_live_copy_is_whole_and_restorable(bench, database_url, tmp_path, request) -> None:
    bench.collector.push_metrics([METRIC], "test")
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            bench.send(bench.sender.reports(METRIC, 10))

    thread = threading.Thread(target=load)
    thread.start()
    copy = tmp_path / "copy.backup"
    try:
        copy_database(database_url, copy)
    finally:
        stop.set()
        thread.join()
    if bench.database.is_postgresql:
        make: Callable[[], str] = request.getfixturevalue("new_postgresql")
        target = make()
    else:
        target = f"sqlite:///{tmp_path}/restored.sqlite"
    put_copy_back(copy, target)
    restored = make_bench(target, bench.clock)
    accepted = restored.collector.list_metrics()[0]["accepted"]
    assert accepted % 10 == 0
    assert accepted <= bench.collector.list_metrics()[0]["accepted"]
    restored.send(restored.sender.reports(METRIC, 3))
    restored.collector.close_day(TODAY, "test")
    total = restored.collector.read_aggregate("test", METRIC.name).num_reports
    assert total == accepted + 3
    restored.database.close()


def test_a_database_is_for_its_owner_alone(sqlite_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "what?is#this %41"  # no path is taken for a part of a URL
    folder.mkdir()
    bench = make_bench(sqlite_url)
    bench.collector.push_metrics([METRIC], "test")
    back_up(sqlite_url, folder / "copy")
    restore(folder / "copy", f"sqlite:///{tmp_path}/restored.sqlite")
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert {path.name for path in files} >= {"collector.sqlite-wal", "restored.sqlite"}
    for path in [*files, folder / "copy"]:
        assert path.stat().st_mode & 0o077 == 0, path
    (folder / "copy").write_bytes((folder / "copy").read_bytes()[:9000])
    with pytest.raises(StorageError):
        restore(folder / "copy", f"sqlite:///{tmp_path}/again.sqlite")
    assert not (tmp_path / "again.sqlite").exists()
    bench.database.close()


def test_after_a_restore_the_unserved_is_discarded(bench: Bench) -> None:
    """Served, closed but too few, and open: only what was served stays."""
    bench.collector.push_metrics([make_metric(min_reports=10)], "test")
    for back, count in ((2, 12), (1, 4), (0, 6)):
        day = TODAY - timedelta(days=back)
        bench.send([bench.sender.report(METRIC, day) for _ in range(count)])
        if back:
            bench.collector.close_day(day, "test")
    assert bench.collector.settle_restore("test", keep_unserved=False) == 10
    assert bench.collector.read_aggregate("test", METRIC.name).num_reports == 12
    bench.send(bench.sender.reports(METRIC, 11))
    bench.collector.close_day(TODAY, "test")
    assert bench.collector.read_aggregate("test", METRIC.name).num_reports == 23


def test_a_backup_overwrites_nothing(sqlite_url: str, tmp_path: Path) -> None:
    bench, there = make_bench(sqlite_url), tmp_path / "there"
    there.write_text("x" * 5000)
    with pytest.raises(SettingsError, match="exists"):
        back_up(sqlite_url, there)
    with pytest.raises(SettingsError, match="exists; stop the collector"):
        restore(there, sqlite_url)
    with pytest.raises(StorageError, match="could not be copied"):
        restore(there, f"sqlite:///{tmp_path}/new.sqlite")
    assert not (tmp_path / "new.sqlite").exists()
    assert there.read_text() == "x" * 5000
    bench.database.close()
