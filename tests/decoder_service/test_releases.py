"""Releases in the service: proposed from results, approved by a second person, then public."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from decoder_service.people.access import COMMAND_LINE
from decoder_service.people.permissions import Role
from decoder_service.releases import rules as operations
from decoder_service.releases import sources as release_sources
from decoder_service.shell.models import ReleaseState
from disclosure.release import read_release
from tests.decoder_service.release_support import (
    POLICY,
    WORDS,
    decoded,
    proposal,
    propose,
    releasing,
    settle,
    stored,
)
from tests.decoder_service.support import Running, assert_answer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("releases")
    with releasing(f"sqlite:///{folder}/decoder.sqlite") as one:
        yield one


Make = Callable[..., dict[str, bytes]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Files of a decoding, made once."""
    folder, made = tmp_path_factory.mktemp("decoded"), dict[Any, dict[str, bytes]]()

    def make(metric: str, week: int, seed: int = 0, days: int = 7) -> dict[str, bytes]:
        key = (metric, week, seed, days)
        if key not in made:
            made[key] = decoded(folder, *key)
        return made[key]

    return make


def get(service: Running, who: str, path: str, status: int = 200) -> Any:
    with service.client(who) as client:
        answer = client.get(path)
    assert answer.status_code == status, answer.text
    return answer


def proposed(service: Running, files: Make, name: str, metric: str = "", who: str = "ana") -> str:
    """The id of a proposal of the first week of a metric; of the release's name if it has none."""
    result = stored(service, files(metric or name.replace(" ", "-"), 0), who)
    return str(propose(service, who, proposal(name, result))["id"])


def test_a_release_is_proposed_approved_and_downloaded(served, files, tmp_path) -> None:
    result = stored(served, files("whole", 0), "ana")
    made = propose(served, "ana", proposal("whole", result, note="the first week"))
    path = f"/v1/releases/{made['id']}"
    assert (made["state"], made["number"], made["base"]) == ("proposed", 1, None)
    for name in ("ben", "vic"):
        get(served, name, path, 404)
        get(served, name, f"{path}/files/release.csv", 404)
        get(served, name, f"{path}/difference", 404)
        assert made["id"] not in get(served, name, "/v1/releases").text
    assert settle(served, "ben", made["id"], "withdraw").status_code == 404
    assert settle(served, "root", made["id"], "withdraw").status_code == 403
    with served.client("root") as root:
        assert root.post(f"{path}/approve", json={"reason": ""}).status_code == 422
    reply = get(served, "root", f"{path}/difference").json()
    assert [one["change"] for one in reply["changes"]] == ["new table", "new", "new", "new"]
    assert {one["cell"] for one in reply["changes"][1:]} == set(WORDS[:3])
    assert settle(served, "root", made["id"]).status_code == 200
    shown = get(served, "vic", path).json()
    assert shown["state"] == "approved"
    assert not {"reviewer", "sources", "policy", "reason", "note"} & shown.keys()
    for file in shown["files"]:
        content = get(served, "vic", f"{path}/files/{file['name']}").content
        (tmp_path / file["name"]).write_bytes(content)
    release = read_release(tmp_path)
    assert release.digest == made["digest"]
    assert release.tables[0].metric == "whole"
    get(served, "vic", f"{path}/difference", 404)
    acts = get(served, "root", "/v1/audit?limit=1000").json()["entries"]
    mine = [one["act"] for one in acts if made["id"] in json.dumps(one)]
    assert {"propose-release", "approve-release", "read-release"} <= set(mine)


def test_nobody_approves_their_own_by_another_key(served: Running, files: Make) -> None:
    for who in ("ana", "root"):
        release, service = proposed(served, files, f"own of {who}", "own", who), served.service
        other = service.access.create_key(COMMAND_LINE, who, Role.ADMIN, "a second key").text
        with served.client(who) as client:
            client.headers["Authorization"] = f"Bearer {other}"
            for act in ("approve", "reject"):
                assert_answer(
                    client.post(f"/v1/releases/{release}/{act}", json={"reason": "mine"}),
                    403,
                    "you proposed",
                )
        assert get(served, who, f"/v1/releases/{release}").json()["state"] == "proposed"
        person = served.people[who]
        with service.database.writing() as db:  # the UPDATE itself refuses it
            for state in (ReleaseState.APPROVED, ReleaseState.REJECTED):
                assert not release_sources.decide(db, release, state, person.id, "", 1.0)
            withdrawn = ReleaseState.WITHDRAWN
            assert not release_sources.decide(db, release, withdrawn, "0" * 16, "", 1.0)
        assert settle(served, "rita", release, "reject").status_code == 200


@pytest.mark.parametrize(
    "first",
    ["approve", *(pytest.param(one, marks=pytest.mark.long) for one in ("reject", "withdraw"))],
)
def test_what_is_settled_stays(served: Running, files: Make, first: str) -> None:
    release = proposed(served, files, f"settled {first}")
    who = "ana" if first == "withdraw" else "root"
    assert settle(served, who, release, first).status_code == 200
    before = get(served, "root", f"/v1/releases/{release}").json()
    for by, act in (("rita", "approve"), ("rita", "reject"), ("ana", "withdraw")):
        assert_answer(settle(served, by, release, act), 409, "already")
    with served.service.database.writing() as db:  # the UPDATE itself refuses it
        for by, state in (("rita", "approved"), ("rita", "rejected"), ("ana", "withdrawn")):
            person = served.people[by].id
            assert not release_sources.decide(db, release, ReleaseState(state), person, "", 1.0)
    assert get(served, "root", f"/v1/releases/{release}").json() == before


def test_next_releases_agree_with_approved_ones(served: Running, files: Make) -> None:
    first, again = (stored(served, files("series", 0, seed), "ana") for seed in (0, 1))
    made = propose(served, "ana", proposal("series", first))["id"]
    assert settle(served, "root", made).status_code == 200
    refusing = POLICY + 'on_change = "refuse"\n'
    with served.client("ana") as ana:  # another decoding of the same week has other numbers
        answer = ana.post("/v1/releases", json=proposal("series", again, policy=refusing))
    assert answer.status_code == 422
    assert "was published with another" in answer.json()["detail"]
    kept = propose(served, "ana", proposal("series", again))
    assert (kept["number"], kept["base"]) == (2, made)
    reply = get(served, "root", f"/v1/releases/{kept['id']}/difference").json()
    assert (reply["changes"], reply["policy"]) == ([], {})  # what was shown stays as it was
    next_week = stored(served, files("series", 1), "ana")
    changed = POLICY.replace("min_low = 0.01", "min_low = 0.02")
    later = propose(served, "ana", proposal("series", next_week, policy=changed))["id"]
    reply = get(served, "root", f"/v1/releases/{later}/difference").json()
    assert [one["change"] for one in reply["changes"]] == ["new table", *["new"] * 3, "table gone"]
    assert reply["policy"] == {"min_low": [0.01, 0.02]}


def test_a_release_of_another_name_is_known_too(served: Running, files: Make) -> None:
    """Two windows that differ by one day tell of that day, whatever the releases are called."""
    week = stored(served, files("windows", 0), "ana")
    six_days = stored(served, files("windows", 0, 2, 6), "ana")
    first = propose(served, "ana", proposal("a name", week))["id"]
    assert settle(served, "root", first).status_code == 200
    second = propose(served, "ana", proposal("another name", six_days))
    assert second["base"] is None
    text = get(served, "root", f"/v1/releases/{second['id']}/files/release.json").json()
    assert text["tables"][0]["withheld"] == "c"
    assert len(text["earlier"]) == 1


@pytest.mark.parametrize("same_name", [pytest.param(True, marks=pytest.mark.long), False])
def test_one_of_two_rival_releases_is_approved(served, files, same_name) -> None:
    metric = f"race-{same_name}".lower()
    made = []
    for number in range(2):
        name = f"race {same_name}" if same_name else f"race of {number}"
        of = f"{metric}-{number}" if same_name else metric  # a name, or a metric, in common
        result = stored(served, files(of, number), "ana")
        made.append(propose(served, "ana", proposal(name, result))["id"])
    assert settle(served, "root", made[0]).status_code == 200
    assert_answer(settle(served, "root", made[1]), 409, "proposed again")
    shown = get(served, "ana", f"/v1/releases/{made[1]}").json()
    assert (shown["state"], shown["stale"]) == ("proposed", True)
    assert settle(served, "root", made[1], "reject").status_code == 200


def test_concurrent_decisions_have_one_winner(database_url: str, files: Make) -> None:
    with releasing(database_url) as served:
        made = [proposed(served, files, name, "both") for name in ("both", "both too")]
        starting = threading.Barrier(8)

        def decide(who: str, release: str, act: str) -> tuple[str, str, int]:
            starting.wait()
            return act, release, settle(served, who, release, act).status_code

        acts = [(who, one, "approve") for who in ("root", "rita") for one in made]
        acts += [("rita", made[0], "reject"), ("root", made[1], "reject")]
        acts += [("ana", one, "withdraw") for one in made]
        with ThreadPoolExecutor(8) as pool:
            codes = list(pool.map(lambda act: decide(*act), acts))
        won = [(act, release) for act, release, code in codes if code == 200]
        assert {code for *_, code in codes} <= {200, 409}
        assert sorted(release for _, release in won) == sorted(made)  # one decision of each
        assert sum(act == "approve" for act, _ in won) <= 1  # both were built on none
        states = {"approve": "approved", "reject": "rejected", "withdraw": "withdrawn"}
        for act, release in won:
            shown = get(served, "root", f"/v1/releases/{release}").json()
            assert shown["state"] == states[act]
        with served.service.database.reading() as db:
            numbers = release_sources.approved_numbers(db, ["both"])
        assert numbers == {"both": sum(act == "approve" for act, _ in won)}


def test_what_cannot_be_released_is_refused(served: Running, files: Make) -> None:
    own, foreign = (stored(served, files("refused", 0), who) for who in ("ana", "ben"))
    series = stored(served, files("refused", 0), "ana", "series")
    broken = stored(served, {"manifest.json": files("refused", 0)["manifest.json"]}, "ana")
    without = POLICY.replace("min_reports = 1000\n", "")
    strata = {"sources": [{"result": own, "strata": {"region": "north"}}]}
    cases: list[tuple[dict[str, Any], int, str]] = [
        (proposal("x", foreign), 404, "no result"),
        (proposal("x", "0" * 16), 404, "no result"),
        (proposal("x", own, own), 422, "is repeated"),
        (proposal("x", series), 422, "a series of kind string is not released"),
        (proposal("x", broken), 422, "contains neither"),
        (proposal("x", own, policy=without), 422, "min_reports: Field required"),
        (proposal("x", own, policy="["), 422, "not TOML"),
        (proposal("x", own, policy="a = " + "[" * 50_000), 422, "nested"),
        (proposal("x", own, policy=POLICY + "a = '\udcff'"), 422, "unicode string"),
        (proposal("x", own, policy="x" * (1 << 17)), 422, "policy"),
        (proposal("x", own) | strata, 422, "region"),
        (proposal("", own), 422, "name"),
        (proposal("a\u202eb", own), 422, "printable"),
        (proposal("x"), 422, "sources"),
        (proposal("x", own) | {"issued": "2020-01-01"}, 422, "issued"),
    ]
    huge = ("min_low = 1e9999999", "min_low = 1" + "0" * 400, "sealed_after_days = 9999999999")
    for number in huge:
        name = number.partition(" ")[0]
        lines = [line for line in POLICY.splitlines() if not line.startswith(name)]
        cases.append((proposal("x", own, policy="\n".join([*lines, number])), 422, name))
    levels = '[roll_up.refused]\ntree = "cells"\nlevels = 999999999999\n'
    cases.append((proposal("x", own, policy=POLICY + levels), 422, "levels"))
    with served.client("ana") as ana:
        for asked, status, text in cases:
            headers = {"Content-Type": "application/json"}
            answer = ana.post("/v1/releases", content=json.dumps(asked).encode(), headers=headers)
            assert answer.status_code == status, (text, answer.text)
            assert text in answer.json()["detail"], answer.text
            assert "/tmp" not in answer.text
    with served.client("vic") as vic:
        assert vic.post("/v1/releases", json=proposal("x", own)).status_code == 403


def test_what_waits_is_bounded(served, files, monkeypatch) -> None:
    own = stored(served, files("bounded", 0), "ben")
    monkeypatch.setattr(operations, "MAX_WAITING", 1)
    made = propose(served, "ben", proposal("bounded", own))["id"]
    with served.client("ben") as ben:
        assert ben.post("/v1/releases", json=proposal("bounded", own)).status_code == 429
        assert settle(served, "ben", made, "withdraw").status_code == 200
        monkeypatch.setattr(release_sources, "MAX_SOURCE_BYTES", 1000)
        answer = ben.post("/v1/releases", json=proposal("bounded", own))
    assert answer.status_code == 429
    assert "1,000 bytes" in answer.json()["detail"]
    monkeypatch.undo()
    with served.service.database.reading() as db:
        assert release_sources.held_by(db, served.people["ben"].id) == (0, 0)


def test_one_release_is_built_at_a_time(served: Running, files: Make) -> None:
    own = stored(served, files("one", 0), "ana")
    with served.client("ana") as ana:
        with served.service.releases.building:
            assert_answer(ana.post("/v1/releases", json=proposal("one", own)), 503, "being built")
        assert ana.post("/v1/releases", json=proposal("one", own, policy="[")).status_code == 422
        assert ana.post("/v1/releases", json=proposal("one", own)).status_code == 201
