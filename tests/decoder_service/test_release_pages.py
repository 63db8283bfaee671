"""Pages of releases: proposed by a form, approved or rejected by another, downloaded by viewers."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from decoder.density.maps import DensityOptions, estimate_density
from decoder.output.density_csv import write_density_files
from tests.decoder_service.release_support import POLICY, decoded, releasing, stored
from tests.decoder_service.support import Running
from tests.decoder_service.test_map_changes import week
from tests.decoder_service.test_pages import INLINE, signed_in

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("release-pages")
    with releasing(f"sqlite:///{folder}/decoder.sqlite") as one:
        yield one


@pytest.fixture(scope="module")
def browsers(served: Running) -> Iterator[dict[str, httpx.Client]]:
    found = {name: signed_in(served, name) for name in ("ana", "ben", "vic", "root")}
    yield found
    for one in found.values():
        one.close()


@pytest.fixture
def result(served: Running, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    metric = re.sub("[^a-z]", "", request.node.name.lower())[-40:]
    return stored(served, decoded(tmp_path, metric, 0), "ana")


def propose(browser: httpx.Client, result: str, **more: str) -> httpx.Response:
    given = {"name": f"of {result}", "policy": POLICY, "result": result}
    return browser.post("/releases", data=given | more)


def text(browser: httpx.Client, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status, answer.text
    assert INLINE.search(answer.text) is None
    assert EVIL not in answer.text
    assert "\u202e" not in answer.text
    return html.unescape(answer.text)


def test_a_release_is_proposed_and_approved_by_forms(
    browsers: dict[str, httpx.Client], result: str
) -> None:
    ana, root, vic = (browsers[name] for name in ("ana", "root", "vic"))
    assert result in text(ana, "/releases/new")
    answer = propose(ana, result, note=EVIL, name=f"{EVIL} {result}")
    assert answer.status_code == 303, answer.text
    path = answer.headers["location"]
    own = text(ana, path)
    assert "Withdraw" in own
    assert "/approve" not in own  # the proposer has no such form
    assert ana.post(f"{path}/approve", data={"reason": "mine", "sure": "1"}).status_code == 403
    for name in ("ben", "vic"):
        text(browsers[name], path, 404)
        assert path not in text(browsers[name], "/releases")
    shown = text(root, path)
    assert "new table" in shown
    assert "=cmd()" in shown
    assert "/approve" in shown
    assert "/withdraw" not in shown
    assert root.post(f"{path}/approve", data={"reason": "good"}).status_code == 422  # not ticked
    done = root.post(f"{path}/approve", data={"reason": "good", "sure": "1"})
    assert done.status_code == 303, done.text
    public = text(vic, path)
    for hidden in (result, "Proposed", "good", "What it changes", "ana"):
        assert hidden not in public.replace(f"{EVIL} {result}", "").replace("of ", ""), hidden
    assert "approved" in public
    link = re.search(r'href="(/v1/releases/[^"]+/release\.csv)"', public)
    assert link is not None
    assert "metric" in vic.get(link[1]).text
    assert path in text(vic, "/releases")


@pytest.fixture
def map_result(served: Running, tmp_path: Path) -> str:
    """A map of 16 cells, of which most are not detected."""
    one = week(0)
    write_density_files([estimate_density([one], DensityOptions("simplex"))], tmp_path)
    days = {"first_day": str(one.first_day), "last_day": str(one.last_day)}
    manifest = {"metric": "places", "params_id": one.params_id} | days
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    return stored(served, files, "ana", "density")


def test_rows_without_numbers_are_explained(
    browsers: dict[str, httpx.Client], map_result: str
) -> None:
    """A map's release had hundreds of rows that were `u` and nothing else."""
    policy = POLICY.replace("min_low = 0.01", "min_low = 0.2") + 'strata = ["slot"]'
    path = propose(browsers["ana"], map_result, policy=policy).headers["location"]
    number = re.compile(r'<td class="left wrap">u</td>')
    shown = text(browsers["root"], path)
    assert number.search(shown) is None
    assert "2 of 2 rows" in shown  # the table, and the one cell that is shown
    assert "u: no number is shown: not detected" in re.sub("<[^>]+>", "", shown)
    link = re.search(r'<a href="(\?all=1)#changes">all rows</a>', shown)
    assert link is not None
    assert len(number.findall(text(browsers["root"], path + link[1]))) >= 15
    assert "Only rows with a number" in text(browsers["root"], path + link[1])
    assert "No value holds" in text(browsers["root"], f"{path}?q=none+such")
    pages = [text(browsers["root"], f"{path}?all=1&rows=9&page={page}") for page in (1, 2)]
    assert len(number.findall(pages[0])) <= 9
    assert "page 1 of 2" in pages[0]
    assert "page 2 of 2" in pages[1]


def test_the_form_keeps_what_was_typed(browsers: dict[str, httpx.Client], result: str) -> None:
    ana = browsers["ana"]
    for more, told in (
        ({"policy": "min_reports = 1"}, "keys missing"),
        ({f"strata-{result}": "north"}, "write it as region=north"),
        ({f"strata-{result}": "region=north"}, "does not publish the stratum"),
        ({"name": " "}, "name"),
    ):
        answer = propose(ana, result, note="kept", **more)
        assert answer.status_code == 422, answer.text
        page = html.unescape(answer.text)
        assert told in page
        assert 'value="kept"' in page
        assert re.search(f'value="{result}" checked', page)
    split = propose(
        ana, result, policy=POLICY + 'strata = ["region"]', **{f"strata-{result}": "region=north"}
    )
    assert split.status_code == 303, split.text
    assert "region = north" in text(ana, split.headers["location"])
    text(browsers["vic"], "/releases/new", 403)
    assert propose(browsers["vic"], result).status_code == 403
    text(ana, "/releases?state=x", 422)


def test_second_releases_show_changes_and_stale_ones(
    served: Running, browsers: dict[str, httpx.Client], result: str, tmp_path: Path
) -> None:
    ana, root = browsers["ana"], browsers["root"]
    first, second = (propose(ana, result, name="two").headers["location"] for _ in range(2))
    root.post(f"{first}/approve", data={"reason": "good", "sure": "1"})
    stale = text(root, second)
    assert "Another release was approved" in stale
    assert "/approve" not in stale
    late = root.post(f"{second}/approve", data={"reason": "good", "sure": "1"})
    assert late.status_code == 409
    assert root.post(f"{second}/reject", data={"reason": "stale"}).status_code == 303
    assert "stale" in text(ana, second)
    policy = POLICY.replace("min_low = 0.01", "min_low = 0.02")
    third = propose(ana, result, name="two", policy=policy).headers["location"]
    shown = text(root, third)
    assert "min_low" in shown
    assert first in shown  # what it is compared with
    assert ana.post(f"{third}/withdraw", data={}).status_code == 303
    assert "its files are deleted" in text(ana, third)
    assert third in text(ana, "/releases?state=withdrawn")
    assert third not in text(ana, "/releases?state=approved")
