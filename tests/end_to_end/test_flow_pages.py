"""flows.html in a real browser: every width, both themes, loads nothing, and what is hidden."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from decoder.flows.decoding import decode_flows
from decoder.output.flows_content import flows_content
from decoder.output.flows_html import render_flows
from simulations.flows.city import city_matrix, city_metric, draw_flows
from tests.end_to_end.browser import THEMES, WIDTHS, open_browser, sideways, violations

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    metric, rng = city_metric(4.0, 100_000, rows=3, columns=3), np.random.default_rng(1)
    counts = draw_flows(metric, city_matrix(metric.details, rng), 100_000, rng)
    path = tmp_path_factory.mktemp("page") / "flows.html"
    path.write_text(render_flows(flows_content(decode_flows(counts))), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_and_is_accessible(
    width: int, theme: str, address: str, browser: Any
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    assert asked == [address]
    assert sideways(page) <= 0
    maps = page.locator(".plot.flowmap")
    shown = [maps.nth(i).is_visible() for i in range(maps.count())]
    assert shown == [width > 719, width <= 719]
    assert violations(page) == []
    page.close()


def test_a_box_hides_what_is_not_told(address: str, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    wide = ".plot.flowmap.wide"
    untold, told = (page.locator(f"{wide} .flow.{name}").first for name in ("untold", "told"))
    dashes = "one => getComputedStyle(one.querySelector('path')).strokeDasharray"
    assert untold.evaluate(dashes) != "none"
    assert told.evaluate(dashes) == "none"
    assert untold.is_visible()
    page.get_by_label("only what is told from zero").check()
    assert not untold.is_visible()
    assert told.is_visible()
    page.close()
