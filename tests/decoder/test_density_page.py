"""What an analyst sees: colours, the land around, names, and the first view."""

import itertools
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from decoder.comparison.differences import differences
from decoder.density.map_check import MapCheck
from decoder.density.maps import Density, DensityOptions, estimate_density
from decoder.errors import DecodeError
from decoder.output.base_layer import BaseLayer, place_name, read_base
from decoder.output.density_html import first_view, render_page
from decoder.output.density_png import write_picture
from decoder.output.density_text import (
    NONE_DETECTED,
    visible_notes,
    visible_text,
    window_text,
)
from decoder.output.palette import (
    DETECTED_FROM,
    THEMES,
    UNDETECTED_TO,
    colours,
    drawn_shares,
    positions,
    rgb,
)
from decoder.results.warnings import percent
from tests.decoder.test_density import BLOOM, BOTH, drawn, parts


@pytest.fixture(scope="module")
def night() -> Density:
    rng = np.random.default_rng(1)
    return estimate_density([drawn(parts(BOTH + BLOOM)[0], 40_000, rng)], DensityOptions("simplex"))


def luminance(colour: Any) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
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
    scale = colours(np.linspace(0, 1, 256), theme)
    ground = rgb(THEMES[theme]["land"])
    away = [contrast(colour, ground) for colour in scale]
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


def test_pictures_with_nothing_told_have_no_scale(
    night: Density, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    nothing = replace(night, detected=np.zeros_like(night.detected))
    for one in (night, nothing):
        write_picture([one], tmp_path / "map.png")
    texts = [[text.get_text() for text in figure.findobj(Text)] for figure in drawn]
    assert [NONE_DETECTED in said for said in texts] == [False, True]
    assert [len(figure.axes) for figure in drawn] == [2, 1]  # the second is the scale


def feature(name: str, kind: str, coordinates: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": {"name": name},
            "geometry": {"type": kind, "coordinates": coordinates}}  # fmt: skip


def test_hostile_names_of_a_base_are_text(night: Density, tmp_path: Path) -> None:
    path, bad = tmp_path / "base.json", "</script><img src=x onerror=alert(1)>\x1b[31m" + "x" * 99
    square = [[[0, 0], [8, 0], [8, 8], [0, 8], [0, 0]]]
    shapes = [feature(bad, "Polygon", square), feature(bad, "Point", [1, 1])]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    base = read_base(path)
    page = render_page([night], base=base)
    assert "<img" not in page
    assert page.count("</script>") == 2
    called = set(data_of(page)["called"].values())
    assert len(called) == 1
    assert len(name := called.pop()) == 60
    assert name.startswith("</script><img")
    assert name.isprintable()
    write_picture([night], tmp_path / "map.png", base=base)


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", "x", '{"type": "Point", "coordinates": [1, 91]}',
     '{"type": "Point", "coordinates": [NaN, 1]}', '{"type": "Sphere"}',
     '{"type": "FeatureCollection", "features": []}', '{"type": "LineString", "coordinates": [1]}'],
)  # fmt: skip
def test_a_base_of_no_geojson_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(DecodeError, match=r"base\.json"):
        read_base(path)


def test_cells_are_called_after_what_is_near() -> None:
    base = BaseLayer(points=[("depot", [-73.99, 40.73])])
    assert place_name((40.73, -73.98), base, 2.0) == "depot"
    assert place_name((40.73, -73.98), BaseLayer(), 2.0) == "New York"
    assert place_name((40.9, -73.7), BaseLayer(), 2.0) == "32 km NE of New York"
    assert place_name((0.0, -140.0), BaseLayer(), 2.0) == ""
    near = [(40.76, -73.85), (40.752, -73.85)]
    assert len({place_name(one, BaseLayer(), 1.0) for one in near}) == 1
    assert len({place_name(one, BaseLayer(), 1.0, finely=True) for one in near}) == 2


def test_the_first_view_is_not_the_empty_window(night: Density) -> None:
    shares = np.zeros_like(night.shares)
    shares[-1] = 1.0
    assert night.last_day is not None
    late = replace(night, shares=shares, last_day=night.last_day + timedelta(days=1))
    assert first_view([night, late]) == 0
    assert first_view([night, night]) == 1
    data = data_of(render_page([night, late]))
    assert data["first"] == data["maps"][0]["window"] != data["maps"][1]["window"]


def test_each_slot_has_its_own_figures(night: Density) -> None:
    """The page gave those of one slot, and called a told cell below them not told apart."""
    assert visible_notes([night], window_text(night)) == [visible_text(night)]
    slot = next(one.name for one in night.location.slots if one.name != night.location.slot)
    name = night.metric.name.replace(f"/{night.location.slot}/", f"/{slot}/")
    metric = night.metric.replace(name=name, location=night.location.replace(slot=slot))
    day = replace(night, metric=metric, detectable_share=2 * night.detectable_share)
    assert visible_notes([night, day], window_text(night)) == [
        f"{one.slot_text}: {visible_text(one)}" for one in (night, day)
    ]
    assert percent(day.detectable_share) in visible_notes([night, day], window_text(night))[1]


def test_series_say_what_changed_and_how(night: Density) -> None:
    size = len(night.cells)
    change, told = np.zeros(size), np.zeros(size, dtype=bool)
    change[2], told[2], change[-1] = -0.05, True, np.nan
    changes = replace(differences(change, np.full(size, 0.01)), detected=told)
    poor = MapCheck(chi_square=200.0, freedom=15, misfit=1.0, misfit_freedom=1)
    one = replace(night, changes=changes, check=poor, source="projection")
    found = data_of(render_page([one]))["maps"][0]
    assert found["changed"] == {"2": pytest.approx([-0.05, -0.0696, -0.0304])}
    assert found["source"].startswith("made of the plain estimates alone, at odds with")
    plain = data_of(render_page([replace(night, check=None, source="field")]))["maps"][0]
    assert plain["source"] == ""
    assert plain["changed"] == {}
