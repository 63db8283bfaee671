"""Pages of releases: proposed by a form, approved or rejected by another, downloaded by viewers."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.decoder_service.release_support import POLICY, decoded, releasing, stored
from tests.decoder_service.support import Running
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
