"""The page of a co-clustering in a browser."""

from pathlib import Path

import pytest

from disclosure.co_clustering import co_cluster, learn_hierarchies, recode
from disclosure.co_clustering.files import render_page
from tests.disclosure.iris import NUMBERS, iris
from tests.end_to_end.browser import THEMES, open_browser, sideways, violations


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
