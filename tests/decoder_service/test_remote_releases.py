"""Releases by `decoder_service.client`, over a service that runs and over a hostile one."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from decoder.errors import OutputError, RemoteError
from decoder_service.client import Service, ServiceRelease
from rappor_cli.main import main
from tests.decoder_service.release_support import POLICY, WORDS, decoded, releasing, stored
from tests.decoder_service.support import Running


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, Path]) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("remote-releases")
    with releasing(f"sqlite:///{folder}/d.sqlite", keys[0]) as one:
        yield one


@pytest.fixture(scope="module")
def result(served: Running, tmp_path_factory: pytest.TempPathFactory) -> str:
    return stored(served, decoded(tmp_path_factory.mktemp("decoded"), "remote", 0), "ana")


def of(served: Running, who: str) -> Service:
    return Service(served.url, served.keys[who])


def test_a_release_is_proposed_compared_approved_and_saved(
    served: Running,
    result: str,
    keys: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ana, root, vic = (of(served, who) for who in ("ana", "root", "vic"))
    made = ana.propose_release("pages", POLICY, [ana.result(result)], note="the first week")
    assert (made.state, vic.releases()) == ("proposed", [])
    assert [one.id for one in root.releases("proposed")] == [made.id]
    with pytest.raises(RemoteError, match="403: the role is analyst; this needs admin"):
        made.approve("mine")
    with pytest.raises(RemoteError, match="404: there is no release"):
        vic.release(made.id)
    found = root.release(made.id).difference()
    assert {one["cell"] for one in found.changes[1:]} == set(WORDS[:3])
    assert root.release(made.id).approve("seen").state == "approved"
    assert made.refresh().state == "approved"
    with pytest.raises(RemoteError, match="409"):
        made.withdraw("too late")
    (mine,) = vic.releases("approved")
    assert mine.digest == made.digest
    shown = {row["value"]: row for row in mine.rows() if row["estimate"] is not None}
    assert shown["<b>plain</b>"]["estimate"] == pytest.approx(0.19, abs=0.03)
    assert "'=cmd()" in shown  # as release.csv has it, for spreadsheets
    assert served.keys["vic"] not in repr(mine)
    folder = mine.save(tmp_path / "saved")
    assert main(["release", "verify", str(folder), "--public-key", str(keys[1])]) == 0
    assert "signed by this key" in capsys.readouterr().out
    with pytest.raises(OutputError, match="saved"):
        mine.save(folder)
    pytest.importorskip("pandas")
    assert len(mine.to_frame()) == len(mine.rows())
    assert list(found.to_frame()["change"]) == [one["change"] for one in found.changes]


class Hostile:
    """A service that answers what it likes."""

    def __init__(self, files: dict[str, bytes], digest: str = "", told: str = "") -> None:
        self.files, self.digest, self.told = files, digest, told

    def ask(self, *_: Any, **__: Any) -> Any:
        rows = [
            {"name": name, "sha256": self.told or sha256(content).hexdigest()}
            for name, content in self.files.items()
        ]
        manifest = sha256(self.files.get("manifest.json", b"")).hexdigest()
        return {"id": "0" * 16, "files": rows, "digest": self.digest or manifest}

    def read(self, _method: str, path: str, *_: Any, **__: Any) -> bytes:
        return self.files[path.rpartition("/files/")[2]]


def of_hostile(service: Any) -> ServiceRelease:
    return ServiceRelease(service, {"id": "0" * 16})


@pytest.mark.parametrize(
    "name", ["../evil.txt", "/etc/x.csv", "a\x00.csv", "..", "", "A.CSV", "a/b.c"]
)
def test_no_name_leads_out_of_the_folder(name: str, tmp_path: Path) -> None:
    release = of_hostile(Hostile({name: b"x", "manifest.json": b"{}"}))
    with pytest.raises(RemoteError, match="not a name of its files"):
        release.save(tmp_path / "inside")
    assert list(tmp_path.iterdir()) == []


def test_files_against_their_digest_are_not_saved(tmp_path: Path) -> None:
    for hostile, words in (
        (Hostile({"manifest.json": b"{}"}, told="0" * 64), "manifest.json is not as its digest"),
        (Hostile({"manifest.json": b"{}"}, digest="0" * 64), "its manifest is not"),
        (Hostile({"release.csv": b"a"}, digest="0" * 64), "its manifest is not"),
    ):
        with pytest.raises(RemoteError, match=words):
            of_hostile(hostile).save(tmp_path / "inside")
    assert list(tmp_path.iterdir()) == []
