"""Who may call which route, and what each sees: nobody another's jobs, results or lists."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from decoder_service.jobs.specs import CountSource, JobSpec, WindowSpec
from decoder_service.results.rules import load_results
from decoder_service.shell.database import decoder_version, save
from decoder_service.shell.models import AlarmRow, ResultRow, ScheduleRow
from tests.decoder_service.in_process import done
from tests.decoder_service.support import (
    STRINGS,
    WORDS,
    Running,
    decode_spec,
    keep_result,
    result_row,
    running,
    store_list,
    submit,
    upload,
)

NOT_THERE = "0" * 16
SPEC = JobSpec(source=CountSource(collector=WindowSpec(metric="homepage"))).to_json()


@pytest.fixture(scope="module")
def things(served: Running) -> dict[str, str]:
    """What ana has: a list, a job, an aggregate, a result; and a result that is released."""
    with served.client("ana") as ana:
        listed = ana.post("/v1/lists?name=mine", content=WORDS).json()["id"]
        spec = decode_spec(ana, candidates={"list": listed})
        job = submit(ana, spec)
    found = {"list": listed, "job": job, "aggregate": spec["source"]["aggregates"][0]}
    schedule = ScheduleRow(
        id="5" * 16, name="s", owner=served.people["ana"].id, metric="homepage", every="day",
        spec=SPEC, enabled=False, created=0.0,
    )  # fmt: skip
    alarm = AlarmRow(
        id="a" * 16, schedule_id="5" * 16, name="n", target="ops", rules="{}", show_values=False,
        created=0.0,
    )  # fmt: skip
    with served.service.database.writing() as db:
        save(db, schedule)
        save(db, alarm)
    found |= {"schedule": schedule.id, "alarm": alarm.id}
    for name, released in (("result", False), ("released", True)):
        found[name] = _store(served, name, released, found["aggregate"])
    return found


def _store(served: Running, name: str, released: bool, sha: str) -> str:
    spec = {"source": {"aggregates": [sha]}}
    row = result_row(
        name.encode().hex()[:16].ljust(16, "0"),
        version=decoder_version(),
        manifest=json.dumps({"spec": spec, "inputs": {"aggregates": [[sha]]}}),
        released=released,
    )
    files = {"results.csv": b"a\n", "candidates.csv": b"secret\n"}
    return keep_result(served, row, files, "ana")


# what each gets; "ana" owns what is in braces, and no collector and no releases are set up here
MATRIX = json.loads(Path(__file__).with_name("permissions.json").read_text())
OPEN = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/telemetry")}


def ask(client: httpx.Client, method: str, path: str, body: Any) -> httpx.Response:
    if body is None or "text" in body:
        return client.request(method, path, content=(body or {}).get("text"))
    return client.request(method, path, json=body)


@pytest.mark.parametrize("who", ["ben", "vic", "root", "ana", None])
def test_every_route_asks_who_it_is(served, things, who) -> None:
    for row in MATRIX["asked"]:
        method, path, body, *statuses = row
        body = json.loads(json.dumps(body).replace("{missing}", NOT_THERE))
        expected = dict(zip(MATRIX["columns"][3:], statuses, strict=True))
        with served.client(who) as client:
            answer = ask(client, method, path.format(missing=NOT_THERE, **things), body)
        if who is None:
            assert answer.status_code == 401, (method, path)
        elif who == "vic" and answer.status_code == 403:  # a role that may not have such things
            assert expected["vic"] in (403, 404), (method, path)
        else:
            assert answer.status_code == expected[who], (method, path, answer.text)
        assert b"secret" not in answer.content or who in ("ana", "root")


def test_the_matrix_has_every_route(served: Running) -> None:
    with served.client(None) as client:
        paths = client.get("/openapi.json").json()["paths"]
    words = {part for path in paths for part in path.split("/") if "{" not in part}

    def shape(path: str) -> str:
        """A path without the names of its parameters, and without values for them."""
        return "/".join(part if part in words else "*" for part in path.split("/"))

    described = {(m.upper(), shape(path)) for path, methods in paths.items() for m in methods}
    rows = [*MATRIX["asked"], *MATRIX["gone by then"]]
    tested = {(method, shape(path.partition("?")[0])) for method, path, *_ in rows}
    assert described - OPEN == tested


def test_what_is_listed_is_ones_own(served: Running, things: dict[str, str]) -> None:
    with served.client("ben") as ben, served.client("vic") as vic:
        assert all(row["owner"] == "ben" for row in ben.get("/v1/jobs").json()["jobs"])
        assert things["list"] not in ben.get("/v1/lists").text
        assert things["aggregate"] not in ben.get("/v1/aggregates").text
        for client in (ben, vic):
            ids = [row["id"] for row in client.get("/v1/results").json()["results"]]
            assert things["released"] in ids
            assert things["result"] not in ids
            files = client.get(f"/v1/results/{things['released']}").json()["files"]
            assert [file["name"] for file in files] == ["results.csv"]


def test_jobs_read_what_owners_may_see(served: Running, things: dict[str, str]) -> None:
    with served.client("ben") as ben:
        mine = decode_spec(ben)
        other_list = mine | {"candidates": {"list": things["list"]}}
        assert ben.post("/v1/jobs", json=other_list).status_code == 404
    with served.client("root") as root:
        other = STRINGS.replace(b'"metric":"strings"', b'"metric":"others"')
        sha = upload(root, other)
    with served.client("ben") as ben:
        foreign = {"source": {"aggregates": [sha]}}
        assert ben.post("/v1/jobs", json=foreign).status_code == 404


def test_shared_lists_are_read_only_to_others(served: Running) -> None:
    with served.client("ana") as ana, served.client("ben") as ben, served.client("vic") as vic:
        shared = ana.post("/v1/lists?name=shared&shared=true", content=b"x\ny\n").json()["id"]
        assert ben.get(f"/v1/lists/{shared}/content").content == b"x\ny\n"
        assert ben.delete(f"/v1/lists/{shared}").status_code == 404
        assert ben.post(f"/v1/lists/{shared}/versions", content=b"z\n").status_code == 404
        assert vic.get(f"/v1/lists/{shared}").status_code == 403
        assert ana.delete(f"/v1/lists/{shared}").status_code == 200
        assert ben.get(f"/v1/lists/{shared}").status_code == 404


def test_a_released_result_can_be_taken_back(served: Running, things: dict[str, str]) -> None:
    path = f"/v1/results/{things['result']}"
    with served.client("ana") as ana, served.client("vic") as vic:
        assert vic.get(path).status_code == 404
        ana.post(f"{path}/release", json={"released": True})
        assert vic.get(path).status_code == 200
        assert "spec" not in vic.get(path).json()["manifest"]
        ana.post(f"{path}/release", json={"released": False})
        assert vic.get(path).status_code == 404
    with served.service.database.reading() as db:
        row = load_results(db, ResultRow.id == things["result"], 1)[0]
    assert not row.released


@dataclass
class Shared:
    """A result that ana had first and ben, who asked the same, has too."""

    service: Running
    result: str
    listed: str  # ana's list

    def release(self, name: str, released: bool) -> int:
        with self.service.client(name) as client:
            path = f"/v1/results/{self.result}/release"
            return client.post(path, json={"released": released}).status_code

    def page(self, name: str) -> str:
        with self.service.client(name) as client:
            answer = client.get(f"/results/{self.result}")
            assert answer.status_code == 200
            return answer.text

    def is_released(self) -> bool:
        with self.service.client("vic") as client:
            return client.get(f"/v1/results/{self.result}").status_code == 200


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared")
    with running(f"sqlite:///{folder}/decoder.sqlite", tick_seconds=0) as service:
        ana, listed = _asks(service, "ana", folder)
        ben, _ = _asks(service, "ben", folder)
        assert ana == ben
        yield Shared(service, ana, listed)


def _asks(service: Running, name: str, folder: Path) -> tuple[str, str]:
    with service.client(name) as client:
        listed = store_list(client, "words", WORDS)["id"]
        spec = decode_spec(client, candidates={"list": listed})
        return done(service, client, folder, spec), listed


def test_released_results_name_lists_to_owners_alone(shared: Shared) -> None:
    assert shared.release("ana", True) == 200
    assert f"/lists/{shared.listed}" in shared.page("ana")
    for name in ("ben", "vic"):
        assert f"/lists/{shared.listed}" not in shared.page(name), name
    assert shared.listed not in shared.page("vic")
    assert shared.release("ana", False) == 200


def test_proposers_and_admins_withdraw_releases(shared: Shared) -> None:
    for releases, others in (("ana", "ben"), ("ben", "ana"), ("root", "ana")):
        assert shared.release(releases, True) == 200
        assert shared.release(others, True) == 200  # it is released: nothing changes
        assert shared.release(others, False) == 403
        assert shared.is_released()
        assert f"{shared.result}/release" not in shared.page(others)
        assert f"{shared.result}/release" in shared.page(releases)
        assert shared.release(releases, False) == 200
        assert not shared.is_released()
    assert shared.release("ana", True) == 200
    assert shared.release("root", False) == 200
    assert shared.release("vic", True) == 403
