"""Tiles of an operator's server behind the maps of a page, in a real browser."""

import struct
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from decoder.kinds.location import KIND
from decoder.kinds.run import render_page
from decoder.output.density_html import map_data
from decoder.output.tiles import Tiles
from tests.end_to_end.browser import kept, settled
from tests.end_to_end.test_report_pages import maps
from tests.map_pages import stored_map

RED = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
PIXEL = """selector => {
  const context = document.querySelector(selector)?.getContext("2d");
  return context ? [...context.getImageData(9, 9, 1, 1).data] : [];
}"""

pytestmark = pytest.mark.long  # a browser


def varint(number: int) -> bytes:
    """A number as Protocol Buffers and PMTiles have it."""
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def field(number: int, content: bytes | int) -> bytes:
    """A field of a Protocol Buffers message."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def archive() -> bytes:
    """A PMTiles archive (version 3) of one vector tile: the world is land."""
    square = b"".join(map(varint, [9, 0, 0, 26, 8192, 0, 0, 8192, 8191, 0, 15]))
    land = field(1, b"earth") + field(2, field(3, 3) + field(4, square)) + field(5, 4096)
    tile = field(3, land + field(15, 2))
    directory = b"".join(map(varint, [1, 0, 1, len(tile), 1]))
    sizes = [len(directory), 2, 0, len(tile)]
    starts = [127, 127 + sizes[0], 0, 129 + sizes[0]]
    places = b"".join(struct.pack("<QQ", *one) for one in zip(starts, sizes, strict=True))
    counts = struct.pack("<QQQ", 1, 1, 1)
    kinds = bytes([1, 1, 1, 1, 0, 0])  # clustered, nothing is compressed, vector; zoom 0 to 0
    box = struct.pack("<iiii", -1800000000, -850000000, 1800000000, 850000000)
    head = b"PMTiles\x03" + places + counts + kinds + box + bytes([0]) + struct.pack("<ii", 0, 0)
    return head + directory + b"{}" + tile


def show(browser: Any, folder: Path, tiles: Tiles, theme: str, body: bytes) -> tuple[Any, set[str]]:
    """A tab with a page of one map, and what it asks of the server of its tiles."""
    page_file = folder / "page.html"
    stored = stored_map(maps(1)[0].metric, map_data(maps(1)[:1]))
    page_file.write_text(render_page(KIND, stored, tiles), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=theme)
    asked: set[str] = set()

    def answer(route: Any) -> None:
        asked.add(route.request.url)
        route.fulfill(body=body, headers={"Access-Control-Allow-Origin": "*"})

    page.route("https://tiles.example/**", answer)
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.goto(page_file.as_uri())
    page.wait_for_selector("#maps .leaflet-cells-pane canvas")
    return page, asked


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_raster_tiles_lie_behind_the_cells(tmp_path, browser, theme) -> None:
    tiles = Tiles("https://tiles.example/{z}/{x}/{y}.png", "© <b>people</b>")
    page, asked = show(browser, tmp_path, tiles, theme, RED)
    page.wait_for_function("document.querySelectorAll('.leaflet-tile-loaded').length > 3")
    settled(page)
    kept(page, f"tiles-raster-{theme}")
    assert all(url.endswith(".png") and "{" not in url for url in asked)
    assert page.inner_text(".leaflet-control-attribution") == "© people"
    assert page.locator(".place.city").count() == 0  # the tiles have names


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_vector_tiles_are_drawn_from_one_archive(tmp_path, browser, theme) -> None:
    tiles = Tiles("https://tiles.example/world.pmtiles?key=1")
    page, asked = show(browser, tmp_path, tiles, theme, archive())
    page.wait_for_function(f"({PIXEL})('.leaflet-tile-pane canvas')[3] === 255")
    settled(page)
    kept(page, f"tiles-vector-{theme}")
    assert asked == {tiles.url}
    red, green, blue, _ = page.evaluate(PIXEL, ".leaflet-tile-pane canvas")
    assert (red + green + blue > 384) == (theme == "light")


def test_a_server_that_does_not_answer_leaves_the_packaged_ground(tmp_path, browser) -> None:
    page, _ = show(browser, tmp_path, Tiles("https://tiles.example/{z}/{x}/{y}.png"), "light", b"")
    assert page.locator(".leaflet-ground-pane path.land").count() == 1
