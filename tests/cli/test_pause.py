"""`rappor pause` signs lists that devices take, one after the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ohttp.pause_list import public_key, read
from publication.release.signature import make_keys
from rappor_cli.main import main
from tests.metric_texts import word


@pytest.fixture
def signing(tmp_path: Path) -> list[str]:
    """Options of a signer; the list is in `paused.list`."""
    private, _, _ = make_keys(tmp_path / "keys")
    metrics = tmp_path / "metrics.toml"
    metrics.write_text(word("homepage"))
    return [
        *("--signing-key", str(private), "--app", "org.example.app", "--metrics", str(metrics)),
        *("-o", str(tmp_path / "paused.list")),
    ]


def test_lists_are_signed_shown_and_numbered(
    signing: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, key = tmp_path / "paused.list", tmp_path / "keys" / "release-key.pub.pem"
    assert main(["pause", "sign", "homepage=2098-12-20", *signing]) == 0
    assert "list 1 of org.example.app" in capsys.readouterr().out
    assert main(["pause", "show", str(file), "--public-key", str(key), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["paused"] == {"homepage": "2098-12-20"}
    assert main(["pause", "sign", *signing]) == 0
    assert "nothing paused" in capsys.readouterr().out
    assert read(public_key(key.read_bytes()), file.read_bytes()).number == 2


def test_another_signers_list_is_not_overwritten(
    signing: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "paused.list"
    file.write_bytes(bytes(100))
    assert main(["pause", "sign", *signing]) == 1
    assert "not signed by the key" in capsys.readouterr().err
    assert file.read_bytes() == bytes(100)


def test_a_check_of_a_relay_needs_a_population(
    signing: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", "check", str(tmp_path / "metrics.toml"), "--relay"]) == 2
    assert "--population" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["theme=2098-12-20", "homepage", "homepage=tomorrow"])
def test_what_no_device_could_follow_is_refused(wrong: str, signing: list[str]) -> None:
    assert main(["pause", "sign", wrong, *signing]) == 2
