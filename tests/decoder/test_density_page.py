"""What an analyst sees: colors, the land around, names, and the first view."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoder.density.areas import area_shares
from decoder.density.maps import Density, DensityOptions, estimate_density
from decoder.formats.density_inputs import read_areas
from decoder.output.density_html import drawn_shares, positions
from decoder.output.jinja import DETECTED_FROM, THEMES, UNDETECTED_TO, colors, rgb
from tests.decoder.test_density import BLOOM, BOTH, drawn, parts
from tests.map_pages import render_maps


@pytest.fixture(scope="module")
def night() -> Density:
    rng = np.random.default_rng(1)
    return estimate_density([drawn(parts(BOTH + BLOOM)[0], 40_000, rng)], DensityOptions("simplex"))


def luminance(color: Any) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))


def contrast(a: Any, b: Any) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def data_of(page: str) -> dict[str, Any]:
    start = page.index('id="data">') + 10
    found: dict[str, Any] = json.loads(page[start : page.index("</script>", start)])
    return found


@pytest.mark.parametrize("theme", list(THEMES))
def test_more_is_always_further_from_the_ground(theme: str) -> None:
    scale = colors(np.linspace(0, 1, 256), theme)
    ground = rgb(THEMES[theme]["land"])
    away = [contrast(color, ground) for color in scale]
    assert away[0] == pytest.approx(1)
    assert all(a < b for a, b in itertools.pairwise(away))
    assert away[-1] > 10
    assert away[round(255 * UNDETECTED_TO)] < 1.6  # fades into the ground
    assert contrast(scale[round(255 * DETECTED_FROM)], scale[round(255 * UNDETECTED_TO)]) > 1.15


@pytest.mark.parametrize("theme", list(THEMES))
def test_text_and_outlines_can_be_read(theme: str) -> None:
    """WCAG 2.2: 4.5 to 1 for text, 3 to 1 for parts of a picture."""
    known = THEMES[theme]
    for ground in ("paper", "land", "water"):
        assert contrast(rgb(known["ink"]), rgb(known[ground])) > 7
        assert contrast(rgb(known["mark"]), rgb(known[ground])) > 3
    for ground in ("paper", "ground"):
        for name in ("faint", "brand", "mark", "good", "bad"):
            assert contrast(rgb(known[name]), rgb(known[ground])) > 4.5, (name, ground)
    assert contrast(rgb(known["warn"]), rgb(known["warn-ground"])) > 4.5
    assert contrast(rgb(known["edge"]), rgb(known["paper"])) > 3
    assert contrast(rgb(known["truth"]), rgb(known["paper"])) > 3


def test_cells_without_evidence_are_never_darker(night: Density) -> None:
    shares = night.shares.copy()
    told = int(np.flatnonzero(night.detected[:-1])[0])
    shares[told] = 0.0  # the map knows nothing of a cell whose interval excludes zero
    one = replace(night, shares=shares)
    places = positions(one, float(drawn_shares(one).max()))
    seen = one.detected[:-1]
    assert places[seen].min() >= DETECTED_FROM > UNDETECTED_TO >= places[~seen].max()
    assert drawn_shares(one)[told] == one.low[told] > 0


def test_hostile_names_of_areas_are_text(tmp_path: Path) -> None:
    path, bad = tmp_path / "areas.json", "</script><img src=x onerror=alert(1)>\x1b[31m"
    ring = [[0, 0], [8, 0], [8, 8], [0, 8], [0, 0]]
    path.write_text(
        json.dumps({"type": "Feature", "properties": {"name": bad},
                    "geometry": {"type": "Polygon", "coordinates": [ring]}})
    )  # fmt: skip
    one = drawn(parts(BOTH + BLOOM)[0], 40_000, np.random.default_rng(1))
    density = estimate_density([one], DensityOptions("simplex"))
    areas, _ = read_areas(path, density.places)
    page = render_maps([density], areas=[area_shares([one], density, areas)])
    assert "<img src=x" not in page
    assert page.count("</script>") == 3  # data, Leaflet, map.js
    (row,) = data_of(page)["maps"][0]["areas"]
    assert row["name"].startswith("</script><img")
    assert row["name"].isprintable()
