"""Named areas in the service: stored as a list, taken by a job of maps, bounded and refused."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from decoder_service.lists.rules import content_of
from decoder_service.shell.models import ListKind
from tests.decoder_service.in_process import do_jobs, done
from tests.decoder_service.support import running, store_list, upload
from tests.decoder_service.test_map_changes import week
from tests.decoder_service.test_pages import INLINE, signed_in


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
        assert said == "candidates: not of a metric of kind location; leave it out"
