"""Shares of named areas: parts of cells, intervals from the covariance of the cells, bad files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from shapely.geometry import shape

from decoder.density import outlines
from decoder.density.areas import Areas, AreaShares, area_shares, check_size
from decoder.density.cells import Places, places_of
from decoder.density.maps import Density, DensityOptions, estimate_density
from decoder.errors import DecodeError
from decoder.formats.density_inputs import read_areas
from decoder.model.noise import BitNoise
from decoder.output.density_html import map_data
from decoder.tables.geo_files import Shape
from rappor_core.aggregate import Aggregate
from rappor_core.errors import ParameterError
from rappor_core.grid.box import Box
from rappor_core.grid.grid import Grid
from simulations.populations.draws import declared_aggregate, draw_aggregate
from tests.decoder.test_density import BOTH, DAY, ONE_HOT, drawn, parts
from tests.map_draws import square_metric
from tests.map_pages import render_maps, write_maps

Polygon = list[tuple[float, float]]
SIDE = 12
MEMO = 'mode = "memo"\nepsilon_infinity = 3.0\nepsilon_one = 1.5\n'
CAP = 'mechanism = "l-osue"\nmax_memoized_values = 3\n'
SYMBOLS = MEMO + 'encoding = "symbol"\nnum_symbols = 8\nnum_cohorts = 64\n'
BITS = MEMO + CAP + "num_bits = 32\nnum_cohorts = 64\n"
FEW_SYMBOLS = SYMBOLS.replace("num_symbols = 8", "num_symbols = 3")
MAPS, COVERED_LEAST, COVERED_MOST = 100, 0.93, 0.97


def square(west: float, south: float, east: float, north: float) -> Polygon:
    return [(west, south), (east, south), (east, north), (west, north), (west, south)]


def feature(name: object, *rings: Polygon, **more: object) -> dict[str, Any]:
    shape = {"type": "Polygon", "coordinates": rings}
    return {"type": "Feature", "properties": {"name": name}, "geometry": shape, **more}


def areas_of(grid: Grid, cells: Any, given: dict[str, Any]) -> tuple[Areas, tuple[str, ...]]:
    """Areas of a GeoJSON, with the sentences about them."""
    shapes = [
        Shape(number, one["properties"], shape(one["geometry"]))
        for number, one in enumerate(given["features"], start=1)
    ]
    return outlines.areas_of(grid, cells, outlines.outlines_of(shapes))


def collection(*features: Any) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(features)}


@pytest.fixture(scope="module")
def places() -> Places:
    """16 cells of 2 by 2 degrees, row by row from the south-west."""
    return places_of([parts(BOTH + ONE_HOT, "0")[0].location])


def weights(places: Places, *features: Any) -> np.ndarray:
    found, _ = areas_of(places.grid, places.shown_cells, collection(*features))
    return np.asarray(found.weights.toarray())


def test_parts_of_cells_by_hand(places: Places) -> None:
    """One cell and a half, half a cell along its diagonal, and a hole of a quarter."""
    order = {cell: index for index, cell in enumerate(places.shown_cells)}
    corner = {(row, column): order[f"0-{row}-{column}"] for row in range(4) for column in range(4)}
    wide = weights(places, feature("wide", square(0, 0, 3, 2)))[0]
    assert sorted(np.flatnonzero(wide)) == sorted([corner[0, 0], corner[0, 1]])
    assert wide[corner[0, 0]] == 1
    assert wide[corner[0, 1]] == pytest.approx(0.5)
    triangle = weights(places, feature("half", [(4, 4), (6, 4), (4, 6), (4, 4)]))[0]
    assert triangle[corner[2, 2]] == pytest.approx(0.5, rel=2e-3)  # the upper half is narrower
    hole = [(1.5, 0.5), (0.5, 0.5), (0.5, 1.5), (1.5, 1.5), (1.5, 0.5)]
    ring = weights(places, feature("ring", square(0, 0, 2, 2), hole))[0]
    assert ring[corner[0, 0]] == pytest.approx(0.75, rel=1e-4)
    two = {"type": "MultiPolygon", "coordinates": [[square(0, 0, 2, 2)], [square(6, 6, 8, 7)]]}
    both = weights(places, feature("two") | {"geometry": two})[0]
    assert both[corner[0, 0]] == 1
    assert both[corner[3, 3]] == pytest.approx(0.5, rel=2e-3)
    clockwise = weights(places, feature("turned", square(0, 0, 3, 2)[::-1]))[0]
    assert clockwise.tolist() == wide.tolist()


def test_areas_across_180_degrees_are_one() -> None:
    grid = Grid("square", Box(0, 178, 2, -178), (0,), rows=1, columns=2)
    cells = grid.cells(0)
    shape = {"type": "MultiPolygon",
             "coordinates": [[square(179, 0, 180, 2)], [square(-180, 0, -179, 2)]]}  # fmt: skip
    found, _ = areas_of(grid, cells, collection(feature("both") | {"geometry": shape}))
    assert found.weights.toarray()[0] == pytest.approx([0.5, 0.5])
    with pytest.raises(ParameterError, match="crosses the antimeridian"):
        areas_of(grid, cells, collection(feature("not cut", square(179, 0, -179, 2))))


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        ([feature("", square(0, 0, 2, 2))], "has no 'name' of 1 to 60 characters"),
        ([feature("a", square(0, 0, 2, 2))] * 2, "'a' is repeated"),
        ([feature("bow", [(0, 0), (4, 2), (4, 0), (0, 4), (0, 0)])], "crosses itself"),
        ([feature("out", square(0, 0, 1, 1), square(4, 4, 6, 6))], "hole is not inside"),
        ([feature("away", square(40, 40, 42, 42))], "no area has a part in the box"),
        ([feature("p") | {"geometry": {"type": "Point", "coordinates": [1, 1]}}], "'Point'"),
        ([], "0 features"),
    ],
)
def test_a_bad_file_is_refused_with_its_reason(places, tmp_path, features, reason) -> None:
    path = tmp_path / "districts.geojson"
    path.write_text(json.dumps(collection(*features)))
    with pytest.raises(DecodeError, match=f"districts.geojson.*{reason}"):
        read_areas(path, places)


def test_what_a_reader_has_to_know_is_said(places: Places) -> None:
    given = collection(
        feature("A", square(0, 0, 4, 4)),
        feature("B", square(2, 2, 6, 6)),
        feature("C", square(6, 0, 10, 4)),
        feature("D", square(40, 40, 42, 42)),
    )
    areas, notes = areas_of(places.grid, places.shown_cells, given)
    assert areas.names == ("A", "B", "C")
    assert areas.overlapping == (("A", "B"),)
    assert areas.covered == pytest.approx([1, 1, 0.5])
    assert "overlap: 1 (as A and B)" in notes[1]


@pytest.fixture(scope="module")
def night() -> tuple[Aggregate, Density]:
    metric = parts(BOTH + ONE_HOT, "0")[0]
    aggregate = drawn(metric, 20_000, np.random.default_rng(4))
    return aggregate, estimate_density([aggregate], DensityOptions("simplex", repeats=1.0))


def halves(density: Density) -> AreaShares | Areas:
    given = collection(feature("south", square(0, 0, 8, 4)), feature("all", square(0, 0, 8, 8)))
    return areas_of(density.places.grid, density.places.shown_cells, given)[0]


def test_an_area_of_own_bits_by_hand(night: tuple[Aggregate, Density]) -> None:
    """Noise of the bits adds up; of the sampling, all who are in the area count as one share."""
    aggregate, density = night
    areas = halves(density)
    found = area_shares([aggregate], density, areas)
    south = areas.weights.toarray()[0]
    assert sorted(np.unique(south)) == [0, 1]
    assert found.estimate[0] == pytest.approx(south @ density.estimate[:16])
    inside = float(south @ density.shares[:16])
    noise = BitNoise.of(aggregate.params.mechanism)
    bits = noise.mechanism_variance(density.shares[:16], 1.0) @ south
    by_hand = np.sqrt((bits + inside * (1 - inside)) / aggregate.num_reports)
    assert found.std_error[0] == pytest.approx(by_hand)
    assert found.std_error[0] < density.std_error[:16] @ south / 2  # no sum of intervals
    assert found.detected.all()


def test_maps_too_large_for_areas_are_refused_early() -> None:
    metric = square_metric(100, BITS.replace("num_cohorts = 64", "num_cohorts = 128"))
    empty = Aggregate(metric.name, metric.params, (0,) * 128, ((0,) * 32,) * 128)
    with pytest.raises(DecodeError, match="read from 4,096 numbers are too many"):
        check_size([empty], places_of([metric.location]))


def test_files_and_page_hold_the_areas(night: tuple[Aggregate, Density], tmp_path: Path) -> None:
    aggregate, density = night
    areas = halves(density)
    found = area_shares([aggregate], density, areas)
    made = {path.name for path in write_maps([density], tmp_path, [found])}
    assert {"areas.csv", "areas.parquet", "areas.geojson"} <= made
    lines = (tmp_path / "areas.csv").read_text().splitlines()
    assert lines[1].startswith('"south","places","night",2026-11-02,2026-11-02,8,1,')
    features = json.loads((tmp_path / "areas.geojson").read_text())["features"]
    assert [one["properties"]["name"] for one in features] == ["south", "all"]
    odd = replace(found, areas=replace(areas, names=("=HYPERLINK(0)", "all")))
    write_maps([density], tmp_path / "odd", [odd])
    assert (tmp_path / "odd" / "areas.csv").read_text().splitlines()[1].startswith("\"'=HYPER")
    assert features[0]["geometry"]["coordinates"] == [list(map(list, square(0, 0, 8, 4)))]
    assert features[0]["properties"]["low"] < features[0]["properties"]["estimate"]
    data = map_data([density], areas=[found])
    assert data["areas"][0] == [list(map(list, square(0, 0, 8, 4)))]
    assert [row["name"] for row in data["maps"][0]["areas"]] == ["south", "all"]  # for the script
    assert '<tbody id="areas"></tbody>' in render_maps([density], areas=[found])


def strips(side: int) -> np.ndarray:
    """Quarters of a square, a block, a corner, a diagonal, and parts of many cells."""
    row, column = np.arange(side**2) // side, np.arange(side**2) % side
    south, west = row < side / 2, column < side / 2
    rng = np.random.default_rng(0)
    parts = rng.uniform(size=side**2) * (rng.uniform(size=side**2) < 0.2)
    quarters = [south & west, ~south & west, south & ~west, ~south & ~west]
    shapes = [*quarters, (row < 4) & (column < 4), (row < 2) & (column >= side - 2), row == column]
    return np.vstack([np.array(shapes, dtype=float), parts])


def deviates(keys: str, maps: int) -> np.ndarray:
    """(maps, areas) errors over standard errors; where the crowd is differs from map to map."""
    metric, shapes = square_metric(SIDE, keys), strips(SIDE)
    places = places_of([metric.location])
    names = tuple(map(str, range(len(shapes))))
    areas = Areas(names, sparse.csr_array(shapes), np.ones(len(shapes)), (), ())
    found = []
    for seed in range(maps):
        rng = np.random.default_rng(seed)
        crowd = rng.pareto(1.2, size=len(places.finest)) + 0.05
        truth = np.minimum(crowd / crowd.sum(), 0.03)
        truth /= truth.sum()
        counts, _ = draw_aggregate(list(places.finest), truth, 30_000, metric.params, rng)
        counts = declared_aggregate(counts, metric, DAY, DAY)
        options = DensityOptions("simplex", repeats=1.0)
        shares = area_shares([counts], estimate_density([counts], options, places), areas)
        found.append((shares.estimate - shapes @ truth[: SIDE**2]) / shares.std_error)
    return np.array(found)


@pytest.mark.statistical
def test_intervals_of_areas_are_neither_short_nor_long() -> None:
    """64 deviates: their mean square is outside of .6 to 1.5 once in 500 runs."""
    assert 0.6 < (deviates(SYMBOLS, 8) ** 2).mean() < 1.5


@pytest.mark.long
@pytest.mark.statistical
@pytest.mark.parametrize("keys", [BITS, MEMO + ONE_HOT, FEW_SYMBOLS])
def test_areas_are_covered(keys: str) -> None:
    """800 intervals of 95 %: the mean is outside of .93 to .97 about once in 100 runs."""
    held = np.abs(deviates(keys, MAPS)) < 1.96
    assert COVERED_LEAST < held.mean() < COVERED_MOST
