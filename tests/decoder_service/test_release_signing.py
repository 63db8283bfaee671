"""Approved releases are signed as on the command line, and kept as is said."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from decoder_service.releases.sources import ReleasePublisher
from decoder_service.shell.models import ResultRow
from decoder_service.shell.service import make_service
from disclosure.release import key_id, load_public_key, make_keys
from rappor_cli.main import main
from rappor_server.errors import SettingsError
from tests.decoder_service.release_support import (
    decoded,
    get,
    proposal,
    propose,
    releasing,
    settle,
    stored,
)
from tests.decoder_service.support import Running, settings_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    found: dict[str, bytes] = decoded(tmp_path_factory.mktemp("decoded"), "signed", 0)
    return found


@pytest.fixture
def served(tmp_path: Path, keys: tuple[Path, Path]) -> Iterator[Running]:
    with releasing(f"sqlite:///{tmp_path}/d.sqlite", keys[0]) as one:
        yield one


def download(service: Running, who: str, release: str, folder: Path) -> Path:
    """All files of a release, in a new folder."""
    folder.mkdir()
    for file in get(service, who, f"/v1/releases/{release}").json()["files"]:
        answer = get(service, who, f"/v1/releases/{release}/files/{file['name']}")
        assert answer.status_code == 200, answer.text
        (folder / file["name"]).write_bytes(answer.content)
    return folder


def test_approved_releases_are_signed_and_verify(
    served: Running,
    keys: tuple[Path, Path],
    made: dict[str, bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    release = propose(served, "ana", proposal("a", stored(served, made, "ana")))
    identity = release["id"]
    names = {
        file["name"] for file in get(served, "ana", f"/v1/releases/{identity}").json()["files"]
    }
    assert "manifest.sig" not in names  # a proposal is not signed, whoever downloads it
    before = download(served, "ana", identity, tmp_path / "before")
    verify = ["release", "verify", str(before), "--public-key", str(keys[1])]
    assert main(verify) == 1
    assert "is not signed" in capsys.readouterr().err
    assert settle(served, "root", identity).status_code == 200
    shown = get(served, "vic", f"/v1/releases/{identity}").json()
    assert shown["signed"]
    assert shown["digest"] == release["digest"]
    folder = download(served, "vic", identity, tmp_path / "after")
    verify[2] = str(folder)
    assert main([*verify, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["signed"], told["digest"]) == (True, release["digest"])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["key"] == key_id(load_public_key(keys[1]))
    other = make_keys(tmp_path / "other")[1]
    assert main(["release", "verify", str(folder), "--public-key", str(other)]) == 1
    assert "not of this key" in capsys.readouterr().err
    with (folder / "release.csv").open("a") as file:
        file.write("more\n")
    assert main(verify) == 1
    page = get(served, "vic", f"/releases/{identity}")
    assert page.status_code in (200, 303)


def test_builds_for_another_key_are_not_approved(
    made: dict[str, bytes], keys: tuple[Path, Path], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/d.sqlite"
    other = make_keys(tmp_path / "other")[0]
    with releasing(url) as service:  # without a key
        unsigned = propose(service, "ana", proposal("u", stored(service, made, "ana")))["id"]
    with releasing(url, keys[0]) as service:
        answer = settle(service, "root", unsigned)
        assert answer.status_code == 409
        assert "was built for no key" in answer.json()["detail"]
        assert "reject it, and have it proposed again" in answer.json()["detail"]
        signed = propose(service, "ana", proposal("s", stored(service, made, "ana")))["id"]
    for key in (other, None):
        with releasing(url, key) as service:
            answer = settle(service, "root", signed)
            assert answer.status_code == 409
            assert "was built for key" in answer.json()["detail"]
            assert get(service, "root", f"/v1/releases/{signed}").json()["state"] == "proposed"
    with releasing(url) as service:
        assert settle(service, "root", unsigned).status_code == 200
        shown = get(service, "vic", f"/v1/releases/{unsigned}").json()
        assert not shown["signed"]


def test_unusable_keys_are_refused_at_the_start(keys: tuple[Path, Path], tmp_path: Path) -> None:
    open_to_all = tmp_path / "open.pem"
    open_to_all.write_bytes(keys[0].read_bytes())
    open_to_all.chmod(0o644)
    for path, words in (
        (tmp_path / "none.pem", "setting release_key: .*none.pem"),
        (open_to_all, "setting release_key: .*chmod 600"),
        (keys[1], "rappor release keygen"),
    ):
        with pytest.raises(SettingsError, match=words):
            ReleasePublisher(path)
    assert ReleasePublisher(keys[0]).key_id


def test_releases_are_kept_as_long_as_is_said(
    served: Running, made: dict[str, bytes], tmp_path: Path
) -> None:
    """Approved ones for ever; of rejected ones the files for keep_rejected_days, then digests."""
    result = stored(served, made, "ana")
    kept = propose(served, "ana", proposal("kept", result))["id"]
    assert settle(served, "root", kept).status_code == 200
    refused = propose(served, "ana", proposal("refused", result))["id"]
    assert settle(served, "root", refused, "reject").status_code == 200
    waiting = propose(served, "ana", proposal("waiting", result))["id"]
    url, at = served.service.settings.database, served.service.clock()
    options = {"keep_results_days": 1, "keep_rejected_days": 30, "keep_jobs_days": 1}

    def after(days: float) -> None:
        from datetime import timedelta

        house = make_service(settings_of(url, **options), clock=lambda: at + timedelta(days=days))
        house.run_maintenance()
        house.delete_unneeded()
        house.close()

    after(29)
    assert get(served, "ana", f"/v1/releases/{refused}/files/release.csv").status_code == 200
    after(31)
    gone = get(served, "ana", f"/v1/releases/{refused}/files/release.csv")
    assert gone.status_code == 404
    assert "are deleted; propose the release again" in gone.json()["detail"]
    digests = get(served, "root", f"/v1/releases/{refused}").json()["files"]
    assert all(len(file["sha256"]) == 64 for file in digests)
    after(36_500)
    with served.service.database.reading() as db:
        assert db.scalars(select(ResultRow)).all() == []  # what it was made of is gone
    for release in (kept, waiting):
        folder = download(served, "root", release, tmp_path / release)
        assert main(["release", "verify", str(folder), "--digests-only"]) == 0
    after(36_501)
    assert get(served, "root", f"/v1/releases/{kept}").json()["state"] == "approved"
