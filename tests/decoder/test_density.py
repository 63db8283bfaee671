"""Maps of drawn reports: every encoding, levels, windows, change, and the files written."""

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from decoder.density.cells import places_of
from decoder.density.maps import Density, DensityOptions, estimate_density, estimate_density_series
from decoder.errors import DecodeError
from decoder.grid_cells import location_of
from decoder.inference.multiple_testing import decide
from decoder.model.counts import location_repetition
from decoder.output.density_csv import NOT_APART, visible_text
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from simulations.populations.draws import declared_aggregate, draw_aggregate
from tests.map_draws import draw_memo
from tests.map_pages import data_of, markup, render_maps, write_maps
from tests.metric_texts import declaration

BLOOM = 'num_bits = 16\nnum_cohorts = 16\nmechanism = "l-osue"\nmax_memoized_values = 3\n'
SYMBOL = 'encoding = "symbol"\nnum_symbols = 4\nnum_cohorts = 32\n'
ONE_HOT = 'encoding = "one_hot"\nmechanism = "l-osue"\nmax_memoized_values = 3\n'
ENCODINGS = {"bloom": BLOOM, "symbol": SYMBOL, "one_hot": ONE_HOT}
ONE_SHORT = [  # one seam for all encodings; the intervals of two symbols are sampled
    pytest.param(name, marks=() if name == "one_hot" else pytest.mark.long) for name in ENCODINGS
]
BOTH = 'mode = "memo"\nepsilon_infinity = 3.0\nepsilon_one = 2.0\n'
DAY = date(2026, 11, 2)


def parts(keys: str, levels: str = "1") -> tuple[Metric, ...]:
    text = declaration(
        "places", "location", grid="square", box=[0, 0, 8, 8], rows=4, columns=4,
        levels=[int(level) for level in levels.split(",")], slots=["night 22-6", "day 6-22"],
    )  # fmt: skip
    return parse_metrics(text + keys).parts("places")


def hill(values: Sequence[str]) -> np.ndarray:
    """Most are near one corner of the box; a tenth is outside."""
    weights = []
    for value in values[:-1]:
        _, row, column = map(int, value.split("-"))
        weights.append(np.exp(-(row**2 + column**2) / len(values) * 1.5))
    return np.append(0.9 * np.array(weights) / sum(weights), 0.1)


def drawn(metric: Metric, reports: int, rng: np.random.Generator, **more: object) -> Aggregate:
    values = places_of([metric.location]).finest
    found, _ = draw_aggregate(list(values), hill(values), reports, metric.params, rng, metric.name)
    return replace(declared_aggregate(found, metric, DAY, DAY), **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def night() -> Density:
    return estimate_density([drawn(parts(BOTH + BLOOM)[0], 40_000, np.random.default_rng(1))])


@pytest.mark.parametrize(
    "encoding", ["bloom", pytest.param("symbol", marks=pytest.mark.long), "one_hot"]
)
@pytest.mark.parametrize("method", ["field", "simplex"])
def test_maps_are_near_the_truth_in_every_encoding(encoding: str, method: str) -> None:
    metric = parts(BOTH + ENCODINGS[encoding])[0]
    aggregate = drawn(metric, 40_000, np.random.default_rng(4))
    found = estimate_density([aggregate], DensityOptions(method))  # type: ignore[arg-type]
    truth = hill(found.cells)
    assert found.shares.sum() == pytest.approx(1)
    assert found.shares.min() >= 0
    assert np.abs(found.shares - truth).sum() / 2 < (0.12 if method == "field" else 0.2)
    assert found.num_reports == 40_000
    assert set(np.flatnonzero(found.detected)) <= set(np.flatnonzero(truth > 0.001))


def test_levels_of_one_slot_make_one_map() -> None:
    rng = np.random.default_rng(3)
    coarse, fine = parts(BOTH + ONE_HOT, "0, 1")[:2]
    aggregates = [drawn(fine, 30_000, rng), drawn(coarse, 30_000, rng)]
    found = estimate_density(aggregates)
    assert len(found.cells) == 65
    assert found.num_reports == 60_000
    assert np.abs(found.shares - hill(found.cells)).sum() / 2 < 0.12
    assert not any("declares" in text for text in found.warnings)
    result = estimate_density(aggregates[:1], DensityOptions("simplex")).warnings[0]
    assert "of 'places' has no reports at level 0, which its definition declares" in result


@pytest.mark.statistical
@pytest.mark.parametrize("encoding", ONE_SHORT)
def test_intervals_of_single_cells_hold_the_truth(encoding: str) -> None:
    """False alarms below 1 in 10,000: 30 maps of 65 cells, band of 4 standard deviations at .95."""
    metric = parts(BOTH + ENCODINGS[encoding])[0]
    held = []
    for seed in range(30):
        found = estimate_density(
            [drawn(metric, 30_000, np.random.default_rng(seed))], DensityOptions("simplex")
        )
        truth = hill(found.cells)
        held.append(((found.low <= truth) & (truth <= found.high)).mean())
    assert 0.925 < np.mean(held) < 0.985


@pytest.mark.statistical
@pytest.mark.parametrize("encoding", ONE_SHORT)
def test_memoized_reports_vary_as_the_formula_says(encoding: str) -> None:
    """12 crowds of thirty days. False alarms below 1 in 1,000; a naive variance must fail."""
    metric = parts(BOTH + ENCODINGS[encoding])[0]
    values = places_of([metric.location]).finest
    truth, squares = hill(values), []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        homes = rng.choice(len(values), size=6_000, p=truth)
        counts = draw_memo(np.repeat(homes[:, None], 30, axis=1), values, metric.params, rng)
        aggregate = counts.aggregate(metric, slice(30), DAY, DAY + timedelta(days=29))
        found = estimate_density([aggregate], DensityOptions("simplex"))
        assert found.repetition == 30
        squares.append((((found.estimate - truth) / found.std_error) ** 2).mean())
    assert 0.75 < np.mean(squares) < 1.3


def test_windows_repeat_less_often() -> None:
    keys = 'mode = "window"\nwindow = 10\nmax_reports = 9\nepsilon = 1.0\nencoding = "one_hot"\n'
    metric = parts(keys)[0]
    aggregate = drawn(metric, 1_000, np.random.default_rng(0), last_day=DAY + timedelta(days=29))
    assert location_repetition(aggregate, *location_of(aggregate), None) == 3  # one in ten periods
    metric = metric.replace(max_reports=2)
    aggregate = replace(aggregate, definition=metric.to_dict())
    assert location_repetition(aggregate, *location_of(aggregate), None) == 2  # for life
    assert location_repetition(aggregate, *location_of(aggregate), 2.5) == 2.5


def two_windows(
    movers: float, shift: bool, seed: int, options: DensityOptions | None = None
) -> tuple[Density, Density, np.ndarray]:
    """A crowd of which a share moves, into the far corner or anywhere as before."""
    metric = parts(BOTH + BLOOM)[0]
    values = places_of([metric.location]).finest
    rng, truth = np.random.default_rng(seed), hill(values)
    people = rng.choice(len(values), size=(20_000, 1), p=truth)
    after = people.copy()
    moved = rng.random(len(people)) < movers
    after[moved, 0] = len(values) - 2 if shift else rng.choice(len(values), moved.sum(), p=truth)
    counts = draw_memo(np.hstack([people, after]), values, metric.params, rng)
    days = [DAY + timedelta(days=day) for day in (0, 1)]
    windows = [[counts.aggregate(metric, slice(i, i + 1), at, at)] for i, at in enumerate(days)]
    shares = [np.bincount(v[:, 0], minlength=len(values))[:-1] for v in (people, after)]
    first, second = estimate_density_series(windows, options)
    return first, second, shares[1] / shares[1].sum() - shares[0] / shares[0].sum()


def test_a_real_change_is_found_and_named() -> None:
    before, after, truth = two_windows(0.2, True, 5)
    found = after.since_first
    assert before.since_first is None
    assert found.detected[-2]
    assert found.low[-2] < truth[-1] < found.high[-2]
    own = decide(found.p_value[:-1], found.p_value[:-1], "bh", 0.05).detected
    assert found.detected[:-1].tolist() == own.tolist()  # `other` is tested separately


@pytest.mark.parametrize(
    "alpha", [0.05, *(pytest.param(one, marks=pytest.mark.long) for one in (1e-9, 0.5))]
)
def test_two_windows_have_one_decision(alpha: float) -> None:
    before, after, _ = two_windows(0.1, True, 5, DensityOptions(alpha=alpha))
    assert after.changes.p_adjusted[:-1] == pytest.approx(after.since_first.p_adjusted[:-1])
    for one in (after.changes, after.since_first):
        assert (one.detected == (one.p_adjusted <= alpha)).all()
    assert (after.changes.detected[:-1] == after.since_first.detected[:-1]).all()
    assert not before.changes.detected.any()


def test_what_does_not_belong_together_is_refused() -> None:
    rng = np.random.default_rng(0)
    night_part, day_part = parts(BOTH + ONE_HOT)
    with pytest.raises(DecodeError, match="one slot"):
        estimate_density([drawn(night_part, 100, rng), drawn(day_part, 100, rng)])
    with pytest.raises(DecodeError, match="definition"):
        estimate_density([drawn(night_part, 100, rng, definition={})])
    with pytest.raises(DecodeError, match="method = 'smooth'"):
        DensityOptions("smooth")  # type: ignore[arg-type]
    empty = drawn(night_part, 100, rng)
    zero = replace(empty, reports_per_cohort=(0,), bit_counts=((0,) * 65,))
    with pytest.raises(DecodeError, match="no reports"):
        estimate_density([zero])


def test_files_never_call_a_hidden_cell_zero(night: Density, tmp_path: Path) -> None:
    paths = write_maps([night], tmp_path)
    with paths[0].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(night.cells) == parquet.read_table(paths[1]).num_rows
    for row, visible in zip(rows, night.detected, strict=True):
        assert (NOT_APART in row["note"]) == (not visible)
        assert float(row["map_share"]) > 0
    assert {"", NOT_APART} <= {row["note"] for row in rows}
    assert (night.low[night.detected] > 0).all()
    geojson = json.loads((tmp_path / "density.geojson").read_text())
    assert len(geojson["features"]) == len(night.cells) - 1


def test_the_page_stands_alone_and_escapes(night: Density) -> None:
    metric = night.metric.replace(description="<script>alert(1)</script>")
    page = render_maps([replace(night, metric=metric)], [(1.0, 2.0)], ["a <b> note"])
    assert "<script>alert" not in page
    assert "a &lt;b&gt; note" in page
    assert "http" not in markup(page)
    data = data_of(page)
    assert len(data["cells"]) == len(data["maps"][0]["share"]) == len(night.cells) - 1
    assert data["points"] == [[2.0, 1.0]]
    assert "is detected 8 times in 10, a smaller one less often" in visible_text(night)


def test_pairs_are_listed_up_to_a_bound() -> None:
    metric = parts(BOTH + BLOOM + "pairs = true\n", "0")[0]
    places = places_of([metric.location])
    assert len(places.finest) == 16**2 + 1
    assert places.laplacian is None
    with pytest.raises(DecodeError, match="1,048,576 pairs"):
        places_of([parts(BOTH + BLOOM + "pairs = true\n", "3")[0].location])  # type: ignore[list-item]
