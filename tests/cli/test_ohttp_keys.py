"""`rappor ohttp-keys`: what an operator does over the life of a key."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from rappor_core.ohttp.encapsulation import decode_keys
from tests.cli.command import Rappor


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
        (["list"], 1, "rappor ohttp-keys create makes it"),
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
