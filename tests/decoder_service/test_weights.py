"""Lists that jobs name alongside candidates: weights, and named areas."""

import csv
import io
import json
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from decoder_service.jobs.rules import ResolvedSpec
from decoder_service.jobs.specs import JobSpec
from decoder_service.lists.rules import content_of
from decoder_service.schedules.rules import spec_digest_of
from decoder_service.shell.models import ListKind
from tests.decoder_service.in_process import do_jobs, done
from tests.decoder_service.support import (
    WORDS,
    Running,
    as_listed,
    decode_spec,
    running,
    set_metrics,
    store_list,
    submit,
    upload,
)
from tests.decoder_service.test_map_changes import week
from tests.decoder_service.test_pages import INLINE, signed_in
from tests.decoder_service.test_schedule_status import SCHEDULE, post

VALUES = WORDS.decode().splitlines()
HEAVY = f"value,weight\n{VALUES[0]},30\n,1\n"


@pytest.fixture
def served(collecting: Running) -> Running:
    return collecting


def store(client: httpx.Client, name: str, text: str, kind: str = "weights") -> dict[str, Any]:
    return store_list(client, name, text, kind)


def words(client: httpx.Client, name: str) -> dict[str, Any]:
    return {"list": store_list(client, name, WORDS)["id"]}


def test_weights_are_a_list_by_their_content(served: Running) -> None:
    with served.client("ana") as ana:
        made = store(ana, "content", HEAVY)
        assert (made["kind"], made["version"], made["entries"]) == ("weights", 1, 1)
        path = f"/v1/lists/{made['id']}"
        sent = ana.get(f"{path}/content?exact=1")
        assert sent.text == f"{VALUES[0]},30.0\n,1.0\n"
        assert sent.headers["content-type"] == "text/csv; charset=utf-8"
        assert f'filename="weights-{made["id"]}-1.csv"' in sent.headers["content-disposition"]
        assert sha256(sent.content).hexdigest() == made["sha256"]
        same = ana.post(f"{path}/versions", content=f",1.0\n{VALUES[0]},3e1\n".encode()).json()
        assert same["number"] == 1  # in another order, and written otherwise
        other = ana.post(f"{path}/versions", content=b"a,2\n").json()
        assert (other["number"], other["entries"]) == (2, 1)
        assert [one["kind"] for one in ana.get("/v1/lists").json()["lists"]] == ["weights"]
        formulas = store(ana, "formulas", "=1+1,2\n")["id"]
        assert ana.get(f"/v1/lists/{formulas}/content").text == '"\'=1+1","2.0"\n'
        for one in (made["id"], formulas):
            assert ana.delete(f"/v1/lists/{one}").status_code == 200


def test_what_are_no_weights_is_refused_in_words(served: Running) -> None:
    """The reader's own refusals; nothing is stored."""
    query = {"name": "bad", "kind": "weights"}
    with served.client("ana") as ana:
        answer = ana.post("/v1/lists", params=query, content=b"a,1\na,2\n")
        assert (answer.status_code, "is repeated" in answer.json()["detail"]) == (422, True)
        assert "/tmp" not in answer.text
        answer = ana.post("/v1/lists", params={**query, "column": "x"}, content=b"a,1\n")
        assert "name none" in answer.json()["detail"]
        assert all(one["name"] != "bad" for one in ana.get("/v1/lists").json()["lists"])


def test_result_pages_name_their_weights(served: Running, tmp_path: Path) -> None:
    with served.client("ana") as ana:
        candidates = words(ana, "words of the page")
        listed = store(ana, "weights of the page", HEAVY.replace("30", "77"))["id"]
        spec = decode_spec(ana, candidates=candidates, weights={"list": listed})
        result = done(served, ana, tmp_path, spec)
        for kind, name in (("candidates", f"list-{candidates['list']}-1.txt"),
                           ("weights", f"weights-{listed}-1.csv")):  # fmt: skip
            identity = candidates["list"] if kind == "candidates" else listed
            sent = ana.get(f"/v1/lists/{identity}/content")
            assert name in sent.headers["content-disposition"]
        with signed_in(served, "ana") as browser:
            page = unescape(browser.get(f"/results/{result}").text)
        assert "p-values divided by weights of" in page
        assert f'<a href="/lists/{listed}">version 1</a>, stored 20' in page


def test_contradictory_settings_are_refused_when_asked(served: Running) -> None:
    with served.client("ana") as ana, served.client("ben") as ben:
        values, listed = words(ana, "words of wrong"), store(ana, "wrong", HEAVY)["id"]
        spec, given = decode_spec(ana, candidates=values), {"list": listed}
        cases: list[tuple[dict[str, Any], int, str]] = [
            ({**spec, "weights": values}, 422, "it holds values without weights"),
            ({**spec, "candidates": given}, 422, "it holds weights"),
            ({**spec, "weights": {"list": "0" * 16}}, 404, "there is no list"),
        ]
        for asked, status, reply in cases:
            answer = ana.post("/v1/jobs", json=asked)
            assert (answer.status_code, reply in answer.text) == (status, True), answer.text
        foreign = {**decode_spec(ben), "weights": given}
        assert ben.post("/v1/jobs", json=foreign).status_code == 404
        ana.post(f"/v1/lists/{listed}/share", json={"shared": True})
        assert ben.post("/v1/jobs", json=foreign).status_code == 202


def test_questions_without_weights_are_what_they_were() -> None:
    """No window is decoded again, and no result made again, because weights came into being."""
    spec = JobSpec.model_validate(
        {
            "operation": "decode",
            "source": {"aggregates": ["a" * 64]},
            "candidates": {"numbers": [0, 9]},
        }
    )
    known = "9da6d342aeef5cbbf93a3a0b85da0d18c35178a92c8a2857f3b3711fe0cbeae5"
    assert spec_digest_of(ResolvedSpec(spec, {})) == known
    assert spec_digest_of(ResolvedSpec(spec, {"weights": "0" * 64})) != known


@pytest.mark.long
def test_a_schedule_decodes_with_them(served: Running, tmp_path: Path) -> None:
    set_metrics(served, as_listed(served))
    with served.client("ana") as ana:
        listed = store(ana, "scheduled", "word-0,30\n,1\n")["id"]
        given = store(ana, "scheduled words", "word-0\nword-1\n", "candidates")["id"]
        lists = {"candidates": {"list": given}, "weights": {"list": listed}}
        status, made = post(served, "/v1/schedules", {**SCHEDULE, "name": "weighted", **lists})
        assert (status, made["weights"]) == (201, {"list": listed, "version": None})
        assert served.service.tick().queued == 2
        do_jobs(served.service, tmp_path)
        served.service.tick()
        result = ana.get(f"/v1/schedules/{made['id']}").json()["windows"][0]["result_id"]
        manifest = ana.get(f"/v1/results/{result}").json()["manifest"]
        assert manifest["spec"]["weights"] == {"list": listed, "version": 1}
        ana.post(f"/v1/lists/{listed}/versions", content=b"word-0,40\n,1\n")
        assert served.service.tick().queued == 2  # a new version decodes all windows again


def district(name: str, west: float, east: float, **more: Any) -> dict[str, Any]:
    """From 40 to 41 degrees north, in the box of the maps."""
    ring = [[west, 40.0], [east, 40.0], [east, 41.0], [west, 41.0], [west, 40.0]]
    return {"type": "Feature", "properties": {"name": name, **more},
            "geometry": {"type": "Polygon", "coordinates": [ring]}}  # fmt: skip


def collection(*features: dict[str, Any]) -> bytes:
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()


TWO = collection(district("west side", -74.0, -73.5), district("east side", -73.5, -73.0))


def stored(content: bytes, column: str | None = None) -> tuple[bytes, int]:
    return content_of(content, ListKind.AREAS, "txt", column)


def test_the_same_areas_are_the_same_content() -> None:
    spaced = json.dumps(json.loads(TWO), indent=3).encode()
    more = collection(district("west side", -74.0, -73.5, code=7),
                      district("east side", -73.5, -73.0))  # fmt: skip
    assert stored(TWO) == stored(spaced) == stored(more)
    content, areas = stored(TWO)
    assert areas == 2
    assert [one["properties"] for one in json.loads(content)["features"]] == [
        {"name": "west side"}, {"name": "east side"}]  # fmt: skip
    by_code = stored(collection(district("west side", -74.0, -73.5, code="W1")), "code")[0]
    assert json.loads(by_code)["features"][0]["properties"] == {"name": "W1"}


def test_a_job_of_maps_takes_areas(tmp_path: Path) -> None:
    with (
        running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0) as served,
        served.client("ana") as ana,
        served.client("ben") as ben,
    ):
        sha = upload(ana, week(0).to_json().encode())
        listed = store_list(ana, "sides", TWO, "areas")["id"]
        areas = {"areas": {"list": listed}}
        spec = {"source": {"aggregates": [sha]}, **areas}
        result = done(served, ana, tmp_path, spec)
        rows = list(csv.DictReader(io.StringIO(ana.get(
            f"/v1/results/{result}/files/areas.csv").text)))  # fmt: skip
        assert [row["name"] for row in rows] == ["west side", "east side"]
        low, high = (float(rows[0][name]) for name in ("low", "high"))
        assert low < (0.5 + 7 * 0.02) / 0.82 < high  # the busiest cell and seven of the others
        manifest = ana.get(f"/v1/results/{result}").json()["manifest"]
        assert manifest["spec"]["areas"] == {"list": listed, "version": 1}
        assert len(manifest["inputs"]["areas"]) == 64
        with signed_in(served, "ana") as browser:
            page = browser.get(f"/results/{result}").text
            assert not INLINE.search(page)
            assert "west side" in browser.get(f"/results/{result}/map.json").text
            address = f"/v1/results/{result}/files/density.svg"  # of readers without JavaScript
            assert f'<img src="{address}"' in page
            assert browser.get(address).headers["content-type"] == "image/svg+xml"
            assert f'<a href="/lists/{listed}">version 1</a>' in page
        content = ana.get(f"/v1/lists/{listed}/content")
        assert content.headers["content-type"] == "application/geo+json"
        assert stored(content.content) == stored(TWO)

        assert ben.post("/v1/jobs", json=spec).status_code == 404
        other = ana.post("/v1/jobs", json=spec | {"areas": None, "candidates": {"list": listed}})
        assert other.status_code == 422
        decoding = {"operation": "decode", "source": {"aggregates": [sha]}, "candidates": {
            "list": listed}}  # fmt: skip
        assert "it holds named areas" in ana.post("/v1/jobs", json=decoding).json()["detail"]
        decoding = decoding | areas | {"candidates": {"numbers": [0, 9]}}
        job = ana.post("/v1/jobs", json=decoding).json()["id"]
        do_jobs(served.service, tmp_path)
        said = ana.get(f"/v1/jobs/{job}").json()["reason"]
        assert said == "candidates: does not apply to a metric of kind location; omit it"


def test_missing_weights_and_deleted_lists_are_told(served: Running, tmp_path: Path) -> None:
    with served.client("ana") as ana:
        listed = store(ana, "few", f"{VALUES[0]},2\n")["id"]
        spec = decode_spec(ana, candidates=words(ana, "words of few"), weights={"list": listed})
        job = submit(ana, spec)
        do_jobs(served.service, tmp_path)
        failed = ana.get(f"/v1/jobs/{job}").json()
        assert (failed["state"], "has no weight" in failed["reason"]) == ("failed", True)
        job = submit(ana, spec)
        ana.delete(f"/v1/lists/{listed}")
        do_jobs(served.service, tmp_path)
        ended = ana.get(f"/v1/jobs/{job}").json()
        assert "a list of this job was deleted" in ended["reason"]
        ana.post(f"/v1/jobs/{job}/cancel")
