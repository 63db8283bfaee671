"""The page of flows in a browser: every width, both themes, loads nothing, what is hidden."""

from typing import Any

import numpy as np
import pytest

from decoder.kinds.flow import KIND
from decoder.kinds.result import Question, Result
from decoder.kinds.run import in_memory, render_page
from decoder.tables.format import percent
from simulations.flows import city_matrix, city_metric, draw_flows
from tests.end_to_end.browser import THEMES, WIDTHS, kept, settled, sideways, violations

pytestmark = pytest.mark.long  # a browser


@pytest.fixture(scope="module")
def result() -> Result:
    metric, rng = city_metric(4.0, 100_000, rows=3, columns=3), np.random.default_rng(1)
    counts = draw_flows(metric, city_matrix(metric.details, rng), 100_000, rng)
    return KIND.decode([counts], Question())


@pytest.fixture(scope="module")
def content(result: Result) -> dict[str, Any]:
    return result.content


@pytest.fixture(scope="module")
def address(result: Result, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_page(KIND, in_memory(result, "decode")), encoding="utf-8")
    return path.as_uri()


def shown(browser: Any, address: str, width: int = 1280, theme: str = "light") -> Any:
    """A tab with the page; what goes wrong in it is kept in `said`."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
    page.said = []
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("request", lambda request: page.said.append(request.url))
    page.goto(address)
    page.wait_for_selector("#maps .leaflet-flows-pane canvas")
    return page


@pytest.mark.parametrize("theme", THEMES)
def test_the_page_fits_and_is_accessible(theme, address, browser) -> None:
    page = shown(browser, address, WIDTHS[0], theme)
    assert page.said == [address]
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert sideways(page) <= 0, width
        kept(page, f"flows-{width}-{theme}")
        if (width, theme) in ((WIDTHS[0], "light"), (WIDTHS[-1], "dark")):
            assert violations(page) == [], width
    page.close()


PIXELS = """color => {
  const canvas = document.querySelector("#maps .leaflet-flows-pane canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let blue = 0, other = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 2] > data[i] + 60) blue++;
    else if (data[i + 3]) other++;
  }
  return [blue, other];
}"""  # pixels of detected flows, and of all else


def test_a_box_hides_what_is_not_told(address, browser) -> None:
    page = shown(browser, address)
    settled(page)
    reply, undetected = page.evaluate(PIXELS)
    page.check("#sure")
    settled(page)
    told_alone, rest = page.evaluate(PIXELS)
    assert told_alone == pytest.approx(reply, rel=0.1)
    assert rest < 0.75 * undetected
    assert "detected=1" in page.url
    page.close()


def test_flows_are_read_by_keys_pointer_and_table(content, address, browser) -> None:
    page = shown(browser, address)
    rows = [
        row for row in content["flows"] if row["detected"] and row["origin"] != row["destination"]
    ]
    largest = max(rows, key=lambda row: row["estimate"])
    page.locator("#maps .view").focus()
    page.keyboard.press("ArrowRight")
    first = page.inner_text("#tip")
    assert f"{percent(largest['low'])} to {percent(largest['high'])}" in first
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#tip") != first
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#tip") == first
    box = page.locator("#tip").bounding_box()
    page.mouse.move(box["x"] - 14, box["y"] - 14)  # where the tip says that the flow is
    assert page.inner_text("#tip") == first
    page.mouse.move(2, 2)
    assert not page.is_visible("#tip")
    page.focus("#busiest button")
    page.keyboard.press("Enter")
    assert page.inner_text("#tip") == first
    page.close()


def test_maps_of_flows_are_searched(content, address, browser) -> None:
    """Moves are tested in test_map_pages.py, of the same script."""
    page, cell = shown(browser, address), content["cells"][4]["cell"]
    page.fill("#find", cell)
    page.keyboard.press("Enter")
    settled(page)
    assert f"cell={cell}" in page.url
    assert "at=" in page.url
    page.fill("#find", "")
    page.keyboard.press("Enter")
    settled(page)
    assert "cell=" not in page.url
    assert all(one.startswith("file:") for one in page.said)
    page.close()
