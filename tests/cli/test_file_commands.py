"""Commands that make files: keys of a relay, a code for strings, and backups."""

import gzip
import json
import sqlite3
from base64 import b64decode
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer

from rappor_cli.backup import write_backup
from rappor_core.codes.prefix_code import packaged_code, read_code
from rappor_core.ohttp.encapsulation import decode_keys
from tests.cli.command import Rappor
from tests.discovery_support import site_metric, site_names


def test_a_key_is_created_listed_and_retired(tmp_path, rappor, monkeypatch) -> None:
    monkeypatch.setenv("RAPPOR_OHTTP_KEYS", str(tmp_path / "keys.json"))
    for number in (1, 2):
        out = rappor("ohttp-keys", "create", "-o", tmp_path / f"relay{number}.keys")
        assert f"key {number}: ship" in out
    out = rappor("ohttp-keys", "list", "--json")
    rows = json.loads(out)
    for row in rows:
        public = (tmp_path / f"relay{row['key_id']}.keys").read_bytes()
        assert b64decode(row["public"]) == public
        (config,) = decode_keys(public)
        assert config.key_id == row["key_id"]
    secrets = [key["private"] for key in json.loads((tmp_path / "keys.json").read_text())["keys"]]
    assert not any(secret in out for secret in secrets)
    assert rappor("ohttp-keys", "retire", "1") == "retired 1\n"
    lines = rappor("ohttp-keys", "list").splitlines()
    assert [line.split()[0] for line in lines] == ["key", "1", "2"]
    assert [line.split()[3] for line in lines[1:]] == [rows[0]["created"], "no"]


def test_the_newest_key_is_due_by_its_age(tmp_path: Path, rappor: Rappor) -> None:
    file = tmp_path / "keys.json"
    for number in (1, 2):
        rappor("ohttp-keys", "create", "--keys", file, "-o", tmp_path / f"{number}")
    document = json.loads(file.read_text())
    for key, created in zip(document["keys"], ("2020-01-01", "2020-03-01"), strict=True):
        key["created"] = created
    file.write_text(json.dumps(document))
    lines = rappor("ohttp-keys", "list", "--keys", file).splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["no", "yes"]
    old = ["ohttp-keys", "retire", "--keys", file, "--older-than", "90"]
    assert "no key would be left" in rappor.refused(*old)
    rappor("ohttp-keys", "create", "--keys", file, "-o", tmp_path / "3")
    assert rappor(*old) == "retired 1, 2\n"


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["list"], 1, "create it with rappor ohttp-keys create"),
        (["retire"], 2, "--older-than"),
        (["retire", "1", "--older-than", "3"], 2, "--older-than"),
    ],
)
def test_mistakes_are_named(tmp_path, rappor, words, code, reason) -> None:
    keys = ["--keys", tmp_path / "keys.json"]
    assert reason in rappor.refused("ohttp-keys", *words, *keys, code=code)


def test_a_public_part_is_never_overwritten(tmp_path: Path, rappor: Rappor) -> None:
    output = tmp_path / "relay.keys"
    output.write_bytes(b"an older one")
    words = ["ohttp-keys", "create", "--keys", tmp_path / "k", "-o", output]
    assert "exists" in rappor.refused(*words, code=2)
    assert output.read_bytes() == b"an older one"
    assert not (tmp_path / "k").exists()


DOMAINS = Path(__file__).parents[2] / ".." / "shared" / "data" / "domains_random10k.txt.gz"


def test_a_trained_table_stands_in_a_metric_file(tmp_path: Path, rappor: Rappor) -> None:
    listed = tmp_path / "names.txt.gz"
    listed.write_bytes(gzip.compress("\n".join(site_names(400)).encode()))
    rappor("metrics", "train-code", listed, "--name", "places", "--order", "1")
    assert "of 40 strings left out of a training: median" in rappor.err
    assert site_metric(4.0, rappor.out).details.code.name == "places"
    table = tmp_path / "places.json"
    rappor("metrics", "train-code", listed, "--keep-case", "-o", table)
    code = read_code(table.read_text().strip())
    assert (code.order, code.lower_case) == (2, False)
    assert code.digest in rappor.out


def test_what_is_no_list_is_refused(tmp_path: Path, rappor: Rappor) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "names.gz").write_bytes(b"no gzip")
    for name, message in (
        ("empty.txt", "the list is empty"),
        ("latin.txt", "not UTF-8 text"),
        ("names.gz", "not UTF-8 text, or it is damaged"),
        ("none.txt", "No such file"),
    ):
        assert message in rappor.refused("metrics", "train-code", tmp_path / name)


def test_the_packaged_table_is_of_its_list(tmp_path: Path, rappor: Rappor) -> None:
    if not DOMAINS.exists():
        pytest.skip("needs ../shared/data/domains_random10k.txt.gz")
    table = tmp_path / "domains.json"
    arguments = ["--name", "domains", "--min-occurrences", "50", "-o", str(table)]
    assert packaged_code("domains").digest in rappor("metrics", "train-code", DOMAINS, *arguments)


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
