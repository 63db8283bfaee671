"""What an analyst sees: colors, the land around, names, and the first view."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoder.density.cells import Places
from decoder.density.maps import Density, DensityOptions, estimate_density
from decoder.errors import DecodeError
from decoder.output.basemap import BaseLayer, read_base
from decoder.output.density_csv import cell_size
from decoder.output.density_html import drawn_shares, map_data, positions
from decoder.output.jinja import DETECTED_FROM, THEMES, UNDETECTED_TO, colors, rgb
from decoder.output.map_picture import write_picture
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


def test_the_size_of_a_cell_takes_one_outline(night: Density) -> None:
    """It is asked for every cell that is named: of 3,600, with all outlines, for three minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Places, "outlines", None)
        assert cell_size(night) == pytest.approx((110.86, 111.2), abs=0.01)


def feature(name: str, kind: str, coordinates: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": {"name": name},
            "geometry": {"type": kind, "coordinates": coordinates}}  # fmt: skip


def test_hostile_names_of_a_base_are_text(night: Density, tmp_path: Path) -> None:
    path, bad = tmp_path / "base.json", "</script><img src=x onerror=alert(1)>\x1b[31m" + "x" * 99
    square = [[[0, 0], [8, 0], [8, 8], [0, 8], [0, 0]]]
    shapes = [feature(bad, "Polygon", square), feature(bad, "Point", [1, 1])]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    base = read_base(path)
    page = render_maps([night], base=base)
    assert "<img src=x" not in page
    assert page.count("</script>") == 3  # data, Leaflet, map.js
    called = set(data_of(page)["called"].values())
    assert len(called) == 1
    assert len(name := called.pop()) == 60
    assert name.startswith("</script><img")
    assert name.isprintable()
    write_picture(map_data([night], base=base), tmp_path / "map.svg")
    assert "<img" not in (tmp_path / "map.svg").read_text()


@pytest.mark.parametrize(
    "text",
    ["{}", "x", '{"type": "Point", "coordinates": [1, 91]}',
     '{"type": "Point", "coordinates": [NaN, 1]}', '{"type": "LineString", "coordinates": [1]}'],
)  # fmt: skip
def test_a_base_of_no_geojson_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(DecodeError, match=r"base\.json"):
        read_base(path)


def test_shapes_of_a_base_without_corners_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    empty = [feature("x", kind, []) for kind in ("Point", "LineString", "Polygon", "MultiPolygon")]
    shapes = [*empty, feature("y", "Point", [1, 2])]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    assert read_base(path) == BaseLayer(points=[("y", [1.0, 2.0])])
    path.write_text(json.dumps({"type": "FeatureCollection", "features": empty}))
    with pytest.raises(DecodeError, match=r"base\.json: 0 corners"):
        read_base(path)
