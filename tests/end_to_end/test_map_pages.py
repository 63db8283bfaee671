"""The maps of a page in a real browser: what is drawn on them, and what is said alongside them."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from decoder.output.basemap import map_json
from decoder.output.density_html import change_positions, changes_view, map_data
from decoder.output.jinja import THEMES, page_environment, rgb
from decoder.output.map_picture import write_picture
from decoder.tables.format import percent
from tests.end_to_end.browser import settled, sideways
from tests.end_to_end.test_report_pages import maps
from tests.map_pages import render_drawn

PIXEL = """([across, up]) => {
  const canvas = document.querySelector("#maps .leaflet-cells-pane canvas");
  const view = document.querySelector("#maps .view").getBoundingClientRect();
  const { left, top, width } = canvas.getBoundingClientRect(), pixels = canvas.width / width;
  const x = (view.left + across * view.width - left) * pixels;
  const y = (view.top + up * view.height - top) * pixels;
  const { data } = canvas.getContext("2d").getImageData(Math.round(x), Math.round(y), 1, 1);
  return "#" + [...data.slice(0, 3)].map(one => one.toString(16).padStart(2, "0")).join("");
}"""  # of the cells, at parts of a map from its left and its top


def with_bases(data: dict[str, Any]) -> dict[str, Any]:
    """Changes of three windows, each against each earlier one."""
    one = data["maps"][0]

    def change(base: str, window: str, share: float) -> dict[str, Any]:
        result = one["share"][1:]
        size = round(share / data["unit"])
        half = {"low": size - 10_000, "high": size + 10_000}
        return one | {
            "window": window, "base": base, "before": 1000, "detected": [0],
            "share": [size] + [0] * len(result),
            **{name: [end] + [0] * len(result) for name, end in half.items()},
            "shade": [255] + [128] * len(result),
        }  # fmt: skip

    maps = [change("week 1", "week 2", 0.01), change("week 1", "week 3", 0.02),
            change("week 2", "week 3", 0.03)]  # fmt: skip
    return data | {"difference": True, "bases": ["week 1", "week 2"], "reference": "week 1",
                   "first": "week 3", "top": 0.03, "maps": maps}  # fmt: skip


CHANGES = """{% extends "page.html.j2" %}{% import "map_frame.html.j2" as frame %}
{% block title %}Changes{% endblock %}
{% block head %}<style>{{ map_stylesheet() | safe }}</style>{% endblock %}
{% block content %}<h1>Changes</h1>{% include "changes_view.html.j2" %}{% endblock %}
{% block scripts %}{% include "map_script.html.j2" %}{% endblock %}"""


pytestmark = pytest.mark.long  # a browser

SIDE = 4  # cells of the map from west to east, and from south to north


def whole(color: str) -> list[int]:
    """Red, green, blue from 0 to 255."""
    return [round(255 * part) for part in rgb(color)]


@pytest.fixture(scope="module")
def drawn() -> dict[str, Any]:
    """What is drawn of one map of 4 x 4 cells."""
    return map_data(maps(1)[:1])


@pytest.fixture
def data(drawn: dict[str, Any]) -> dict[str, Any]:
    """A copy of it in which the first cell is detected."""
    found = deepcopy(drawn)
    found["maps"][0]["detected"] = [0]
    return found


def show(
    browser: Any, folder: Path, data: dict[str, Any], theme: str = "light", width: int = 1280
) -> Any:
    """A tab with a page of the data."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
    text = render_drawn(maps(1)[0].metric, data)
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.goto(path.as_uri())
    assert asked == [path.as_uri()]  # nothing from a network
    return page


def test_moves_of_a_map_are_in_its_address(data, tmp_path, browser) -> None:
    page = show(browser, tmp_path, data)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))

    def where() -> tuple[float, float, float]:
        settled(page)
        found = parse_qs(urlsplit(page.url).fragment)["at"][0].split(",")
        return float(found[0]), float(found[1]), float(found[2])

    page.click("#nearer")
    x, _, zoom = where()
    view = page.locator("#maps .view").first
    view.focus()
    page.keyboard.press("+")
    page.keyboard.press("Shift+ArrowRight")
    right = where()
    assert right[2] == pytest.approx(zoom + 0.5)
    assert right[0] > x
    box = view.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.wheel(0, -400)
    page.wait_for_function(f"Number(location.hash.split('%2C')[2]) > {right[2]}")
    before = where()
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 100, steps=3)
    page.mouse.up()
    assert where()[0] < before[0]
    again = page.url
    page.goto("about:blank")
    page.goto(again)
    assert page.url == again
    page.locator("#maps .view").first.focus()
    page.keyboard.press("0")
    assert "at=" not in page.url
    page.fill("#find", data["names"][3])
    page.keyboard.press("Enter")
    assert where()[2] == pytest.approx(zoom + 1.5)
    assert data["names"][3] in page.inner_text("#tip")
    page.fill("#find", "nowhere at all")
    page.keyboard.press("Enter")
    assert page.inner_text("#found") == "no such place on this map"
    assert not errors
    page.close()


def test_maps_of_slots_move_together(tmp_path, browser) -> None:
    page = show(browser, tmp_path, map_data(maps(1)))
    page.locator("#maps .view").nth(1).focus()
    page.keyboard.press("+")
    page.keyboard.press("Shift+ArrowDown")
    settled(page)
    ways = page.locator("#maps path.coast")
    assert ways.count() == 2
    assert ways.nth(0).get_attribute("d") == ways.nth(1).get_attribute("d")
    page.close()


def test_windows_of_a_slot_are_side_by_side(tmp_path, browser) -> None:
    page = show(browser, tmp_path, map_data(maps(3)))
    slots = page.locator("#maps figcaption b").all_inner_texts()
    page.select_option("#side", slots[1])
    settled(page)
    captions = page.locator("#maps figcaption").all_inner_texts()
    assert all(caption.startswith(slots[1]) for caption in captions)
    weeks = [day for caption in captions for day in ("13", "20", "27") if f"09-{day}:" in caption]
    assert weeks == ["13", "20", "27"]
    again = page.url
    page.goto("about:blank")
    page.goto(again)
    assert page.locator("#maps figcaption").all_inner_texts() == captions
    page.select_option("#side", "")
    assert page.locator("#maps figcaption b").all_inner_texts() == slots
    page.close()


def test_a_metropolis_has_few_names_and_those_of_the_user(data, tmp_path, browser) -> None:
    city, x, y = data["around"]["cities"][0]
    data["base"]["points"] = [["our office", [x, y]]]
    page = show(browser, tmp_path, data)
    assert len(data["around"]["cities"]) > 100
    assert 4 <= page.locator(".place.city:not(.crowded)").count() <= 20
    assert page.locator(".place.station:not(.crowded)").inner_text() == "our office"
    assert page.locator(".place.city:not(.crowded)", has_text=city).count() == 0
    page.close()


def test_a_wheel_scrolls_the_page_until_a_map_has_the_focus(data, tmp_path, browser) -> None:
    page = show(browser, tmp_path, data)
    box = page.locator("#maps .view").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.wheel(0, 60)
    page.wait_for_function("scrollY > 0")
    assert "at=" not in page.url
    page.locator("#maps .view").focus()
    scrolled = page.evaluate("scrollY")
    page.mouse.wheel(0, -60)
    page.wait_for_function("location.hash.includes('at=')")
    assert page.evaluate("scrollY") == scrolled
    page.close()


def test_areas_of_a_map_are_rows(data, tmp_path, browser) -> None:
    row = {"name": "south", "estimate": 0.4, "low": 0.3, "high": 0.5, "detected": True}
    data["areas"] = [[data["cells"][0]]]
    data["maps"][0]["areas"] = [row]
    page = show(browser, tmp_path, data | {"level": 0.999})
    assert page.inner_text("#areas").split() == ["south", "40.0", "%", "30.0", "to", "50.0", "%"]
    page.locator("#maps .view").click()
    assert "99.9 % interval" in page.inner_text("#tip")
    page.close()


def test_a_finger_scrolls_the_page_until_a_map_is_enlarged(data, tmp_path, browser) -> None:
    show(browser, tmp_path, data).close()
    context = browser.new_context(
        viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    view = page.locator("#maps .view")
    assert view.evaluate("one => getComputedStyle(one).touchAction") == "pan-x pan-y"
    view.tap()
    assert "interval of the cell: " in page.inner_text("#tip")
    page.tap("#nearer")
    assert view.evaluate("one => getComputedStyle(one).touchAction") == "none"
    context.close()


def test_a_page_without_scripts_shows_the_picture_with_its_legend(data, tmp_path, browser) -> None:
    shown = data["maps"][0]
    shown["shade"] = [255] + [0] * (SIDE * SIDE - 1)
    show(browser, tmp_path, data).close()
    write_picture(data, tmp_path / "density.svg")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    assert page.locator("noscript img").bounding_box()["width"] > 300
    assert not page.is_visible("#controls")
    assert not page.is_visible("#scale")
    assert sideways(page) <= 0
    page.goto((tmp_path / "density.svg").as_uri())
    assert page.locator(".cell").count() == 1
    fill = page.locator(".cell").evaluate("one => getComputedStyle(one).fill")
    assert fill == f"rgb({', '.join(map(str, whole(THEMES['light']['stops'][-1])))})"
    assert len(page.get_attribute(".detected", "d").split("M")) == 5  # four edges
    box = page.locator(".cell").bounding_box()
    frame = page.locator("svg svg").first.bounding_box()
    assert box["y"] > frame["y"] + frame["height"] / 2  # the first cell is in the south-west
    assert box["x"] < frame["x"] + frame["width"] / 2
    legend = page.text_content(".legend")
    assert percent(float(f"{data['top']:.2g}")) in legend
    assert "Paler: not distinguishable from zero" in legend
    context.close()


def test_changes_have_a_base(data, tmp_path, browser) -> None:
    changes = with_bases(data)
    changes["called"] = {}
    text = page_environment(None, "decoder_service.results").from_string(CHANGES).render(
        data=map_json(changes), data_url=None, **changes_view(json.loads(map_json(changes)) | {
            "texts": data["texts"]})
    )  # fmt: skip
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector("#maps .leaflet-cells-pane canvas")
    assert "+2.00 points" in page.inner_text("#busiest tr:first-child")
    page.select_option("#base", "week 2")
    settled(page)
    assert "+3.00 points" in page.inner_text("#busiest tr:first-child")
    assert not page.is_visible("#time")  # one window is later
    assert "against week 2" in page.inner_text("#maps figcaption")
    last = page.url
    page.goto("about:blank")
    page.goto(last)
    page.wait_for_selector("#maps .leaflet-cells-pane canvas")
    assert page.input_value("#base") == "week 2"
    page.close()


@pytest.mark.parametrize("theme", list(THEMES))
def test_the_strongest_decrease_has_the_first_color(theme, data, tmp_path, browser) -> None:
    """On a map of changes shade 0 is the most less, and was left out as if nothing were there."""
    change = np.full(SIDE * SIDE, -0.2)
    places = change_positions(change, np.ones(SIDE * SIDE, dtype=bool), 0.2)
    data["maps"][0] |= {"shade": np.rint(255 * places).astype(int).tolist(), "before": 1000}
    assert set(data["maps"][0]["shade"]) == {0}
    page = show(browser, tmp_path, data | {"difference": True}, theme)
    page.wait_for_selector("#maps .leaflet-cells-pane canvas")
    assert page.evaluate(PIXEL, [0.45, 0.42]) == "#000000"  # not among those that changed
    page.uncheck("#sure")
    settled(page)
    assert page.evaluate(PIXEL, [0.45, 0.42]) == THEMES[theme]["turn"][0]
    page.close()
