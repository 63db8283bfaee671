"""Backups into a folder: each with its date, the latest kept, nothing else deleted."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer

from rappor_cli.backup import write_backup
from tests.cli.command import Rappor

NOW = datetime(2026, 11, 24, 3, 30, tzinfo=UTC)


def copied(path: Path) -> int:
    path.write_bytes(b"copy")
    return 4


def test_a_folder_keeps_the_latest(tmp_path: Path) -> None:
    for name in ("rappor-x-notes.backup", "other-20260101T000000Z.backup"):
        (tmp_path / name).touch()
    for day in range(5):
        said = write_backup(tmp_path, "rappor-x", 3, copied, NOW + timedelta(days=day))
    assert said.endswith("rappor-x-20261128T033000Z.backup: 4 bytes; 1 older deleted")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "other-20260101T000000Z.backup",
        *(f"rappor-x-202611{day}T033000Z.backup" for day in (26, 27, 28)),
        "rappor-x-notes.backup",
    ]


def test_a_file_is_written_by_its_name(tmp_path: Path) -> None:
    assert write_backup(tmp_path / "one", "x", None, copied, NOW).endswith("one: 4 bytes")
    with pytest.raises(typer.BadParameter, match="is not a folder"):
        write_backup(tmp_path / "two", "x", 3, copied, NOW)


def test_a_failed_copy_deletes_nothing(tmp_path: Path) -> None:
    def fails(_: Path) -> int:
        raise OSError("disk full")

    old = tmp_path / "x-20261101T000000Z.backup"
    old.touch()
    with pytest.raises(OSError, match="disk full"):
        write_backup(tmp_path, "x", 1, fails, NOW)
    assert old.exists()


def test_the_collector_is_found_by_its_settings(tmp_path, monkeypatch, rappor) -> None:
    database = f"sqlite:///{tmp_path}/c.sqlite"
    settings = tmp_path / "collector.toml"
    settings.write_text(f'database = "{database}"\n')
    rappor("migrate", "--database", database)
    monkeypatch.setenv("RAPPOR_SETTINGS", str(settings))
    folder = tmp_path / "backups"
    folder.mkdir()
    rappor("backup", "--output", folder, "--keep", "14")
    (made,) = folder.iterdir()
    assert str(made) in rappor.out
    restored = f"sqlite:///{tmp_path}/again.sqlite"
    said = rappor.refused("restore", made, "--database", restored, code=2)
    assert "--discard-open-days, which is always safe" in said
    assert not (tmp_path / "again.sqlite").exists()
    rappor("restore", made, "--database", restored, "--discard-open-days")
    assert "0 reports of days not served yet were discarded" in rappor.out
    kept = f"sqlite:///{tmp_path}/kept.sqlite"
    rappor("restore", made, "--database", kept, "--keep-open-days")
    assert "0 reports of days not served yet were kept" in rappor.out


def test_a_suspect_clock_is_confirmed(tmp_path: Path, rappor: Rappor) -> None:
    url = f"sqlite:///{tmp_path}/c.sqlite"
    rappor("migrate", "--database", url)
    with closing(sqlite3.connect(tmp_path / "c.sqlite")) as database:
        database.execute("UPDATE state SET last_day = 19000")
        database.commit()
    assert rappor("clock", "--database", url).startswith("days close by 2022-01-08, since")
    assert "as this machine's clock says" in rappor("clock", "--confirm", "--database", url)
    assert '"suspect": false' in rappor("clock", "--json", "--database", url)


def test_a_database_is_known_by_its_tables(tmp_path: Path, rappor: Rappor) -> None:
    """The same three commands serve a database of the decoder service."""
    database, copies = f"sqlite:///{tmp_path}/d.sqlite", tmp_path / "copies"
    copies.mkdir()
    create = ["decoder", "keys", "create", "--role", "admin", "--name", "ann"]
    rappor(*create, "--database", database)
    assert "decoder service's database is at schema" in rappor("migrate", "--database", database)
    rappor("backup", "--database", database, "-o", copies)
    (copy,) = copies.glob("rappor-decoder-*.backup")
    restored = f"sqlite:///{tmp_path}/again.sqlite"
    assert rappor("restore", copy, "--database", restored).endswith(f"restored from {copy}\n")
    assert "ann" in rappor("decoder", "keys", "list", "--database", restored)
