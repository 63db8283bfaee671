"""Releases between the proposal and the approval, their signatures, and how long they are kept."""

import json
import re
import zlib
from collections.abc import Iterator
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from decoder_service.people.access import COMMAND_LINE, Access
from decoder_service.people.permissions import Role
from decoder_service.releases.page import POLICY as FORM_POLICY
from decoder_service.releases.sources import ReleasePublisher
from decoder_service.results.rules import RELEASE_FILES
from decoder_service.shell.models import KeyRow, ReleaseRow, ResultRow, release_files
from decoder_service.shell.service import make_service
from disclosure.release import key_id, load_public_key, make_keys, policy_of_text
from disclosure.release.policy import check_days
from rappor_cli.main import main
from rappor_server.errors import SettingsError
from tests.decoder_service.release_support import (
    POLICY,
    decoded,
    get,
    proposal,
    propose,
    releasing,
    settle,
    stored,
)
from tests.decoder_service.support import Running, assert_answer, settings_of
from tests.decoder_service.test_pages import INLINE, signed_in


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    found: dict[str, bytes] = decoded(tmp_path_factory.mktemp("decoded"), "attacked", 0)
    return found


@pytest.fixture
def served(tmp_path: Path, keys: tuple[Path, Path]) -> Iterator[Running]:
    with releasing(f"sqlite:///{tmp_path}/d.sqlite", keys[0]) as one:
        yield one


def page(service: Running, who: str, path: str) -> str:
    with signed_in(service, who) as browser:
        return str(browser.get(path).text)


def test_altered_proposals_are_neither_approved_nor_signed(served, made) -> None:
    """Files that somebody changed in the database, with their digests there or without."""
    result = stored(served, made, "ana")
    for name, with_digest in (
        ("manifest.json", False),
        ("manifest.json", True),
        ("release.csv", False),
        ("release.csv", True),
    ):
        asked = proposal(f"{name} {with_digest}", result)
        release = propose(served, "ana", asked)["id"]
        with served.service.database.writing() as db:
            old = RELEASE_FILES.read(db, release, name)
            new = old.replace(b"0.5", b"0.6").replace(b"public", b"secret") + b"\n"
            values: dict[str, Any] = {"content": zlib.compress(new)}
            if with_digest:
                values |= {"sha256": sha256(new).hexdigest(), "size": len(new)}
            own = (release_files.c.release_id == release) & (release_files.c.name == name)
            db.execute(update(release_files).where(own).values(**values))
        assert_answer(
            settle(served, "root", release), 409, f"file '{name}' is not the proposed one"
        )
        shown = get(served, "root", f"/v1/releases/{release}").json()
        assert (shown["state"], shown["signed"]) == ("proposed", False)
        assert get(served, "vic", f"/v1/releases/{release}").status_code == 404
        assert settle(served, "root", release, "reject").status_code == 200


def test_added_or_missing_files_are_not_approved(served: Running, made: dict[str, bytes]) -> None:
    result = stored(served, made, "ana")
    for name in ("extra.csv", ""):
        release = propose(served, "ana", proposal(f"added {name}".strip(), result))["id"]
        with served.service.database.writing() as db:
            if name:
                RELEASE_FILES.save(db, release, {name: b"more\n"})
            else:
                own = release_files.c.release_id == release
                gone = own & (release_files.c.name == "release.csv")
                db.execute(release_files.delete().where(gone))
        assert settle(served, "root", release).status_code == 409


def test_revoked_keys_approve_nothing(served, made, monkeypatch) -> None:
    """The request has come in and knows who asks; before it writes, the key is revoked."""
    release = propose(served, "ana", proposal("a", stored(served, made, "ana")))["id"]
    service, holds = served.service, Access.check_holds
    root = served.people["root"]

    def revoked_first(self: Access, db: Any, person: Any) -> None:
        key = update(KeyRow).where(KeyRow.key_id == root.key_id)
        db.execute(key.values(revoked=1.0))
        holds(self, db, person)

    monkeypatch.setattr(Access, "check_holds", revoked_first)
    assert settle(served, "root", release).status_code == 401
    monkeypatch.undo()
    assert get(served, "root", f"/v1/releases/{release}").json()["state"] == "proposed"
    service.access.revoke_key(COMMAND_LINE, root.key_id)
    assert settle(served, "root", release).status_code == 401
    assert settle(served, "rita", release).status_code == 200


def test_proposers_keys_are_replaced_and_revoked(served: Running, made: dict[str, bytes]) -> None:
    """Another key is still the same person; without any, the approver is warned."""
    asked = proposal("a", stored(served, made, "root"))
    release = propose(served, "root", asked)["id"]
    path, service = f"/v1/releases/{release}", served.service
    other = service.access.create_key(COMMAND_LINE, "root", Role.ADMIN, "new").text
    service.access.revoke_key(COMMAND_LINE, served.people["root"].key_id)
    with served.client("rita") as client:
        client.headers["Authorization"] = f"Bearer {other}"
        assert client.post(f"{path}/approve", json={"reason": "x"}).status_code == 403
    assert get(served, "rita", path).json()["proposer_holds"] is True
    assert "no longer has a valid key" not in page(served, "rita", f"/releases/{release}")
    service.access.revoke_key(COMMAND_LINE, service.access.person_of_key(other).key_id)
    assert get(served, "rita", path).json()["proposer_holds"] is False
    assert "no longer has a valid key" in page(served, "rita", f"/releases/{release}")
    assert settle(served, "rita", release).status_code == 200
    shown = get(served, "vic", path).json()
    assert not {"proposer_holds", "sources"} & shown.keys()


def test_approvers_learn_of_deleted_results(served: Running, made: dict[str, bytes]) -> None:
    old, gone = (stored(served, made, "ana") for _ in range(2))
    asked = {**proposal("a", old), "note": "two"}
    release = propose(served, "ana", asked)["id"]
    deleted = propose(served, "ana", proposal("b", gone))["id"]
    with served.client("ana") as ana:
        assert ana.delete(f"/v1/results/{gone}").status_code == 200
    (source,) = get(served, "root", f"/v1/releases/{release}").json()["sources"]
    assert source == {"result": old, "strata": {}, "is_there": True}
    (source,) = get(served, "root", f"/v1/releases/{deleted}").json()["sources"]
    assert source["is_there"] is False
    assert settle(served, "root", deleted).status_code == 200  # what was built stays as it is


def test_a_signature_holds_after_restarts_and_another_key(made, keys, tmp_path) -> None:
    """What was approved stays signed by its key, and later ones are built on it with another."""
    url = f"sqlite:///{tmp_path}/d.sqlite"
    other, public, _ = make_keys(tmp_path / "other")
    with releasing(url, keys[0]) as service:
        first = propose(service, "ana", proposal("a", stored(service, made, "ana")))["id"]
        assert settle(service, "root", first).status_code == 200
    with releasing(url, other) as service:
        later = stored(service, decoded(tmp_path, "attacked", 1), "ana")
        second = propose(service, "ana", proposal("a", later))
        assert second["base"] == first
        assert settle(service, "root", second["id"]).status_code == 200
    with releasing(url) as service:
        for release, key in ((first, keys[1]), (second["id"], public)):
            folder = tmp_path / release
            folder.mkdir()
            for file in get(service, "vic", f"/v1/releases/{release}").json()["files"]:
                path = f"/v1/releases/{release}/files/{file['name']}"
                (folder / file["name"]).write_bytes(get(service, "vic", path).content)
            for public_key, code in ((keys[1], 0), (public, 0)):
                wanted = 0 if public_key == key else 1
                command = ["release", "verify", str(folder), "--public-key", str(public_key)]
                assert main(command) == wanted + code


def test_before_the_approval_nobody_else_reads_anything(served, made) -> None:
    """By every route and page, with every method that reads; of a rejected one for good."""
    release = propose(served, "ana", proposal("hush", stored(served, made, "ana"), note="psst"))
    identity = release["id"]
    paths = [f"/v1/releases/{identity}", f"/v1/releases/{identity}/difference"]
    paths += [f"/releases/{identity}", f"/releases/{identity}/approve"]
    paths += [f"/v1/releases/{identity}/files/{name}" for name in
              ("manifest.json", "release.csv", "manifest.sig", "none")]  # fmt: skip
    for settled in (False, True):
        if settled:
            assert settle(served, "root", identity, "reject").status_code == 200
        for who in ("vic", "ben"):
            with served.client(who) as client, signed_in(served, who) as browser:
                for asker in (client, browser):
                    for path in paths:
                        answer = asker.get(path)
                        assert answer.status_code in (404, 405), (who, path)
                        assert asker.head(path).status_code in (404, 405)
                    for state in ("", "proposed", "rejected"):
                        query = {"state": state} if state else {}
                        for listing in ("/v1/releases", "/releases"):
                            text = asker.get(listing, params=query).text
                            assert identity not in text
                            assert "hush" not in text
                    for act in ("approve", "reject", "withdraw"):
                        headers = {"Origin": served.url}
                        answer = asker.post(
                            f"/v1/releases/{identity}/{act}", json={"reason": "x"}, headers=headers
                        )
                        assert answer.status_code in (403, 404), (who, act, answer.text)
                        assert "hush" not in answer.text
    with served.service.database.reading() as db:
        row = db.get_one(ReleaseRow, identity)
    assert (row.state, row.reviewer) == ("rejected", served.people["root"].id)


EVIL = "<script>alert(1)</script>"


def test_forms_propose_and_approve_what_viewers_download(served, made) -> None:
    result, name = stored(served, made, "ana"), f"{EVIL} of a week"
    with signed_in(served, "ana") as ana, signed_in(served, "root") as root:
        form = {"name": name, "policy": POLICY, "result": result, "note": EVIL}
        answer = ana.post("/releases", data=form)
        assert answer.status_code == 303, answer.text
        named = {"owner": 'a "b" @example.org', "audience": "all", "policy": FORM_POLICY}
        again = ana.post("/releases", data=form | named)
        assert again.status_code == 303, again.text
        own = page(served, "ana", again.headers["location"])
        assert "a &#34;b&#34; @example.org, for all" in own
        missing = ana.post("/releases", data=form | named | {"owner": ""})
        assert 'role="alert">Owner: is empty; give one<' in missing.text
        rules = policy_of_text('owner = "a"\naudience = "b"\n' + FORM_POLICY)
        check_days(rules, "the newest closed day", *[date(2025, 3, 3)] * 3)
        path = answer.headers["location"]
        own, shown = page(served, "ana", path), page(served, "root", path)
        assert "Withdraw" in own
        assert "/approve" not in own  # the proposer has no such form
        assert "=cmd()" in shown
        assert "/withdraw" not in shown
        ticked = {"reason": "good", "sure": "1"}
        assert ana.post(f"{path}/approve", data=ticked).status_code == 403
        assert root.post(f"{path}/approve", data={"reason": "good"}).status_code == 422
        assert root.post(f"{path}/approve", data=ticked).status_code == 303
    public = page(served, "vic", path)
    for one in (own, shown, public):
        assert INLINE.search(one) is None
        assert EVIL not in one
        assert "\u202e" not in one
    for hidden in (result, "Proposed", "good", 'id="changes"', "ana"):
        assert hidden not in public, hidden
    link = re.search(r'href="(/v1/releases/[^"]+/release\.csv)"', public)
    assert "metric" in get(served, "vic", link[1]).text
    assert path in page(served, "vic", "/releases")


def download(service: Running, who: str, release: str, folder: Path) -> Path:
    folder.mkdir()
    for file in get(service, who, f"/v1/releases/{release}").json()["files"]:
        answer = get(service, who, f"/v1/releases/{release}/files/{file['name']}")
        assert answer.status_code == 200, answer.text
        (folder / file["name"]).write_bytes(answer.content)
    return folder


def test_approved_releases_are_signed_and_verify(served, keys, made, tmp_path, capsys) -> None:
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
    reply = json.loads(capsys.readouterr().out)
    assert (reply["signed"], reply["digest"]) == (True, release["digest"])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["key"] == key_id(load_public_key(keys[1]))
    other = make_keys(tmp_path / "other")[1]
    assert main(["release", "verify", str(folder), "--public-key", str(other)]) == 1
    assert "not signed by any" in capsys.readouterr().err
    with (folder / "release.csv").open("a") as file:
        file.write("more\n")
    assert main(verify) == 1
    page = get(served, "vic", f"/releases/{identity}")
    assert page.status_code in (200, 303)


def test_builds_for_another_key_are_not_approved(made, keys, tmp_path) -> None:
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
            assert_answer(settle(service, "root", signed), 409, "was built for key")
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


def test_releases_are_kept_as_long_as_is_said(served, made, tmp_path) -> None:
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
    assert_answer(
        get(served, "ana", f"/v1/releases/{refused}/files/release.csv"),
        404,
        "are deleted; propose the release again",
    )
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
