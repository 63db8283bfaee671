"""Maps of change: between windows of a result, and between two results."""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from pyarrow import parquet
from scipy.stats import false_discovery_control, norm

from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate
from tests.service.in_process import do_jobs
from tests.service.support import Running, running, submit, upload
from tests.service.test_pages import INLINE, signed_in

PLACES = """
[metrics.places]
kind = "location"
description = "Where a device usually is"
owner = "maps@example.org"
expires = 2099-12-31
grid = "square"
box = [40.0, -74.0, 41.0, -73.0]
rows = {rows}
columns = 4
levels = [0]
slots = ["night 22-6"]
period = "week"
mode = "memo"
encoding = "symbol"
num_symbols = 8
num_cohorts = 64
epsilon_infinity = 4.0
epsilon_one = 3.0
"""
FIRST = date(2026, 9, 6)


def week(number: int, rows: int = 4) -> Aggregate:
    """The busiest cell moves from the first to the second in week 2."""
    (metric,) = parse_metrics(PLACES.format(rows=rows)).parts("places")
    assert metric.location is not None
    values = list(metric.location.domain)
    shares = np.full(len(values), 0.02)
    shares[1 if number >= 2 else 0] = 0.5
    rng = np.random.default_rng(number)
    one, _ = draw_aggregate(values, shares / shares.sum(), 40_000, metric.params, rng, metric.name)
    day = FIRST + timedelta(days=7 * number)
    return replace(one, definition=metric.to_dict(), params_id=metric.params_id,
                   first_day=day, last_day=day)  # fmt: skip


@dataclass
class Maps:
    """The service, ana's browser, and results: three weeks, the last week, and another grid."""

    served: Running
    browser: httpx.Client
    weeks: str
    last: str
    other: str


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maps]:
    folder = tmp_path_factory.mktemp("maps")
    with (
        running(f"sqlite:///{folder}/d.sqlite", tick_seconds=0) as served,
        served.client("ana") as ana,
    ):
        shas = [upload(ana, week(number).to_json().encode()) for number in range(3)]
        grid = upload(ana, week(0, rows=5).to_json().encode())
        asked = [shas, shas[2:], [grid]]
        split = {"split": "week"}
        jobs = [
            submit(ana, {"kind": "density", "source": {"aggregates": some}, "map": split})
            for some in asked
        ]
        assert do_jobs(served.service, folder) == 3
        ended = [ana.get(f"/v1/jobs/{job}").json() for job in jobs]
        assert {one["state"] for one in ended} == {"done"}, ended
        with signed_in(served, "ana") as browser:
            yield Maps(served, browser, *(one["result_id"] for one in ended))


def asked(maps: Maps, before: str, after: str, **query: str) -> httpx.Response:
    given = {"before": before, "after": after, **query}
    return maps.browser.get("/compare/map.json", params=given)


def estimates(maps: Maps, result: str) -> Any:
    """Estimate and standard error of each window, (windows, cells + 1, 2)."""
    with maps.served.client("ana") as ana:
        content = ana.get(f"/v1/results/{result}/data?format=parquet").content
    table = parquet.read_table(io.BytesIO(content))
    columns = np.stack([table["estimate"].to_numpy(), table["std_error"].to_numpy()], axis=1)
    return columns.reshape(-1, 17, 2)


def test_a_change_is_the_difference_of_the_estimates_with_its_own_test(maps: Maps) -> None:
    data = asked(maps, maps.weeks, maps.weeks).json()
    assert data["difference"] is True
    assert [one["window"] for one in data["maps"]] == ["week to 2026-09-13", "week to 2026-09-20"]
    found = estimates(maps, maps.weeks)
    for number, one in enumerate(data["maps"], 1):
        difference = found[number, :, 0] - found[0, :, 0]
        error = np.sqrt(found[number, :, 1] ** 2 + found[0, :, 1] ** 2)
        assert np.array(one["share"]) * data["unit"] == pytest.approx(difference[:-1], abs=1e-7)
        half = norm.ppf(0.975) * error[:-1]
        assert np.array(one["low"]) * data["unit"] == pytest.approx(
            difference[:-1] - half, abs=1e-6
        )
        p = 2 * norm.sf(np.abs(difference / error))
        told = np.flatnonzero(false_discovery_control(p[:-1]) <= 0.05)  # `other` is no cell
        assert one["visible"] == told.tolist()
    first, second = data["maps"]
    assert first["visible"] == []
    assert second["visible"][:2] == [0, 1]
    assert second["share"][0] < 0 < second["share"][1]
    shade = second["shade"]
    assert shade[0] < 60 < 128 < 190 < shade[1]
    assert all(100 < shade[i] < 156 for i in range(2, 16) if i not in second["visible"])


def test_the_reference_is_chosen_and_left_out(maps: Maps) -> None:
    data = asked(maps, maps.weeks, maps.weeks, **{"from": "week to 2026-09-20"}).json()
    assert [one["window"] for one in data["maps"]] == ["week to 2026-09-06", "week to 2026-09-13"]
    across = asked(maps, maps.weeks, maps.last).json()
    assert [one["window"] for one in across["maps"]] == ["week to 2026-09-20"]
    assert across["maps"][0]["share"][0] < 0


def test_what_cannot_be_compared_is_refused_in_words(maps: Maps) -> None:
    for before, after, query, text in (
        (maps.last, maps.last, {}, "not independent"),
        (maps.weeks, maps.other, {}, "different cells"),
        (maps.weeks, maps.weeks, {"from": "<b>"}, "no window"),
    ):
        answer = asked(maps, before, after, **query)
        assert answer.status_code == 422
        assert text in answer.text
    with signed_in(maps.served, "ben") as ben:
        given = {"before": maps.weeks, "after": maps.weeks}
        assert ben.get("/compare", params=given).status_code == 404
        assert ben.get("/compare/map.json", params=given).status_code == 404


def test_the_page_holds_the_numbers_without_its_script(maps: Maps) -> None:
    page = maps.browser.get("/compare", params={"before": maps.weeks, "after": maps.weeks}).text
    assert not INLINE.search(page)
    assert "Largest changes: night" in page
    assert f"before={maps.weeks}&amp;after={maps.weeks}&amp;from=week+to+2026-09-06" in page
    assert "of 16" in page
    result = maps.browser.get(f"/results/{maps.weeks}").text
    assert "Changes between its windows" in result
    assert "Changes between its windows" not in maps.browser.get(f"/results/{maps.last}").text
    assert "maps of places" in maps.browser.get("/compare").text
    assert json.loads(asked(maps, maps.weeks, maps.weeks).text)["level"] == 0.95


def test_the_command_of_a_result_makes_its_maps_again(
    maps: Maps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the files that its page offers. The page of the maps differs in a paragraph alone."""
    page = unescape(maps.browser.get(f"/results/{maps.weeks}").text)
    command = page.partition("on a command line</h3>\n<pre>")[2].partition("</pre>")[0]
    with maps.served.client("ana") as ana, maps.served.client("ben") as ben:
        stored = ana.get(f"/v1/results/{maps.weeks}").json()
        for (sha,) in zip(*stored["manifest"]["inputs"]["aggregates"], strict=True):
            path = f"/v1/results/{maps.weeks}/counts/{sha}"
            assert f'href="{path}" download="{sha[:16]}.json"' in page
            assert (ben.get(path).status_code, ana.get(path[:-1]).status_code) == (404, 404)
            (tmp_path / f"{sha[:16]}.json").write_bytes(ana.get(path).content)
        monkeypatch.chdir(tmp_path)
        assert main(shlex.split(command)[1:]) == 0
        made = {path.name: path.read_bytes() for path in (tmp_path / "result").iterdir()}
        assert set(made) == {"density.csv", "density.parquet", "density.geojson", "density.png",
                             "density.html"}  # fmt: skip
        for name in set(made) - {"density.html"}:
            path = f"/v1/results/{maps.weeks}/files/{name}?exact=true"
            assert ana.get(path).content == made[name], name
