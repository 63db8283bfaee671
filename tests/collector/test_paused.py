"""The list of paused metrics is served, and no other file that a setting may name by mistake."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from collector.errors import SettingsError
from ohttp.pause_list import sign
from ohttp.pause_wire import PauseList
from publication.release.signature import make_keys
from tests.collector.support import TODAY, ServerMaker

PATH = "/v1/paused"
LIST = sign(
    Ed25519PrivateKey.generate(),
    PauseList("org.example.app", 1, TODAY + timedelta(days=9), {"homepage": TODAY}),
)
OTHERS = {
    "no bytes": b"",
    "text": b"x" * 500,
    "a document": b"{" + b" " * 500 + b"}",
    "a longer list": LIST + b" " * 20_000,
    "a cut list": LIST[:-1],
}


@pytest.fixture
def private_key(tmp_path: Path) -> Path:
    return make_keys(tmp_path / "keys")[0]


def test_a_list_is_served_as_it_is(serving: ServerMaker, tmp_path: Path) -> None:
    file = tmp_path / "paused.list"
    file.write_bytes(LIST)
    with serving([], paused_list=file) as server:
        answer = server.http.get(PATH)
    assert (answer.status_code, answer.content) == (200, LIST)


def test_a_private_key_is_never_served(
    serving: ServerMaker, tmp_path: Path, private_key: Path
) -> None:
    """It lies beside the list, and the setting is one word away."""
    with (
        pytest.raises(SettingsError, match=r"paused_list = .*release-key\.pem.*not a list"),
        serving([], paused_list=private_key),
    ):
        pass
    file = tmp_path / "paused.list"
    file.write_bytes(LIST)
    with serving([], paused_list=file) as server:
        for content in (private_key.read_bytes(), *OTHERS.values()):
            file.write_bytes(content)
            answer = server.http.get(PATH)
            assert answer.status_code == 404
            assert content[:20] not in answer.content or not content
        file.unlink()
        assert server.http.get(PATH).status_code == 404


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_a_setting_that_names_no_list(content: bytes, serving: ServerMaker, tmp_path: Path) -> None:
    file = tmp_path / "paused.list"
    file.write_bytes(content)
    with (
        pytest.raises(SettingsError, match="rappor pause sign writes one"),
        serving([], paused_list=file),
    ):
        pass


def test_a_setting_that_names_no_file(serving: ServerMaker, tmp_path: Path) -> None:
    with (
        pytest.raises(SettingsError, match=r"paused_list = .*no such file"),
        serving([], paused_list=tmp_path / "nothing"),
    ):
        pass
