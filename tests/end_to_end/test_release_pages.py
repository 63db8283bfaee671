"""Pages of releases in a real browser: nothing scrolls sideways, and axe has nothing to say."""

from pathlib import Path

import pytest

from disclosure.co_clustering import co_cluster, learn_hierarchies, recode
from disclosure.co_clustering.files import render_page
from tests.decoder_service.release_support import (
    decoded,
    proposal,
    propose,
    releasing,
    settle,
    stored,
)
from tests.disclosure.iris import NUMBERS, iris
from tests.end_to_end.browser import THEMES, open_browser, sideways, violations
from tests.end_to_end.test_service_pages import every_page_fits, need_browser, signed_in_page


@pytest.mark.long
def test_a_release_in_a_browser(tmp_path: Path) -> None:
    need_browser()
    with releasing(f"sqlite:///{tmp_path}/d.sqlite") as served, signed_in_page(served) as page:
        results = [stored(served, decoded(tmp_path, "word", week), "ana") for week in (0, 1)]
        first = propose(served, "ana", proposal("words", results[0]))["id"]
        assert settle(served, "root", first).status_code == 200
        second = propose(served, "ana", proposal("words", results[1]))["id"]
        paths = ["/releases", "/releases/new", f"/releases/{first}", f"/releases/{second}"]
        every_page_fits(page, served.url, paths, "release-")
        page.goto(f"{served.url}/releases/{first}")
        with page.expect_download() as started:
            page.click("text=release.csv")
        assert b"word" in Path(started.value.path()).read_bytes()
        assert page.said == []


@pytest.mark.long
def test_it_fits_every_window_and_is_accessible(tmp_path: Path) -> None:
    table = iris()
    long = "a name without a blank " * 4 + "x" * 120
    table[long] = table.pop("Class")
    table["PetalWidth"][0] = "0.2"
    table["<b>"] = ["<script>alert(1)</script>"] * 75 + ["\u202eturned"] * 75
    model = co_cluster(recode(table, list(table), numbers=NUMBERS, intervals=3))
    path = tmp_path / "index.html"
    path.write_text(render_page(model, model.finest, learn_hierarchies(model)), encoding="utf-8")
    with open_browser() as browser:
        page = browser.new_page()
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(path.as_uri())
        for width in (320, 390, 800, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert sideways(page) <= 0, width
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            assert violations(page) == [], theme
        assert said == []
        assert page.evaluate("document.querySelectorAll('script').length") == 0
