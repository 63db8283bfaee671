"""`rappor ohttp-keys`: what an operator does over the life of a key."""

import json
from base64 import b64decode
from pathlib import Path

import pytest

from rappor_cli.main import main
from rappor_core.ohttp.encapsulation import decode_keys


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["ohttp-keys", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_key_is_created_listed_and_retired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAPPOR_OHTTP_KEYS", str(tmp_path / "keys.json"))
    for number in (1, 2):
        code, out, _ = run(capsys, "create", "-o", str(tmp_path / f"relay{number}.keys"))
        assert (code, f"key {number}: ship" in out) == (0, True)
    code, out, _ = run(capsys, "list", "--json")
    rows = json.loads(out)
    for row in rows:
        public = (tmp_path / f"relay{row['key_id']}.keys").read_bytes()
        assert b64decode(row["public"]) == public
        (config,) = decode_keys(public)
        assert config.key_id == row["key_id"]
    secrets = [key["private"] for key in json.loads((tmp_path / "keys.json").read_text())["keys"]]
    assert not any(secret in out for secret in secrets)
    assert run(capsys, "retire", "1")[:2] == (0, "retired 1\n")
    out = run(capsys, "list")[1]
    assert [line.split()[0] for line in out.splitlines()] == ["key", "1", "2"]
    assert [line.split()[3] for line in out.splitlines()[1:]] == [rows[0]["created"], "no"]


def test_the_newest_key_is_due_by_its_age(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "keys.json")
    for number in (1, 2):
        run(capsys, "create", "--keys", file, "-o", str(tmp_path / f"{number}"))
    document = json.loads(Path(file).read_text())
    for key, created in zip(document["keys"], ("2020-01-01", "2020-03-01"), strict=True):
        key["created"] = created
    Path(file).write_text(json.dumps(document))
    lines = run(capsys, "list", "--keys", file)[1].splitlines()
    assert [line.split()[-1] for line in lines[1:]] == ["no", "yes"]
    code, _, err = run(capsys, "retire", "--keys", file, "--older-than", "90")
    assert (code, "no key would be left" in err) == (1, True)
    run(capsys, "create", "--keys", file, "-o", str(tmp_path / "3"))
    assert run(capsys, "retire", "--keys", file, "--older-than", "90")[1] == "retired 1, 2\n"


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["list"], 1, "rappor ohttp-keys create makes it"),
        (["retire"], 2, "--older-than"),
        (["retire", "1", "--older-than", "3"], 2, "--older-than"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    reason: str,
) -> None:
    found, _, err = run(capsys, *words, "--keys", str(tmp_path / "keys.json"))
    assert (found, reason in err) == (code, True)


def test_a_public_part_is_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "relay.keys"
    output.write_bytes(b"an older one")
    code, _, err = run(capsys, "create", "--keys", str(tmp_path / "k"), "-o", str(output))
    assert (code, "exists" in err) == (2, True)
    assert output.read_bytes() == b"an older one"
    assert not (tmp_path / "k").exists()
