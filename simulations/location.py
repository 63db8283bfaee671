"""The coverage of single cells' intervals on fresh maps for a declared metric."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from decoder.density.cells import Places, places_of
from decoder.density.maps import CellEstimates, cell_estimates
from decoder.grid_cells import cell_center
from decoder.options import DecodeOptions
from decoder.pipeline import decode
from decoder.typing import Floats
from rappor_core.errors import ParameterError
from rappor_core.metrics.location import reserved_values
from rappor_core.metrics.metric import Metric
from simulations.populations.draws import declared_aggregate, draw_aggregate

OTHER_SHARES = 0.02, 0.3, 0.75
HEAVIEST, TEN = 5, 10
GROUPS = "all", "found", "heaviest_five", "heaviest_ten"
_DAY = date(2026, 11, 2)
_HEAVIEST_TAIL, _TAIL = 0.12, 1.2  # Largest share and exponent of heavy-tailed crowds
_REACH, _ROUGH, _SLOPE = 0.35, 1.5, 1.0  # Of a city; _REACH is in standard deviations of places


@dataclass(frozen=True)
class Coverage:
    """The coverage of intervals over `maps` maps, only for cells, without reserved values.

    Attributes:
        num_found: The number of detected cells.
        found_by_map: The mean over maps of the covered fraction of detected cells, 1 if there are
            none: 1 - the false coverage rate (Benjamini and Yekutieli 2005).
        width: The mean width of the intervals of the five largest true shares.
        parts: The covered parts, in [0, 1], of `all` cells, `found` (detected) cells, and the
            `heaviest_five` and `heaviest_ten` true shares. NAME_error is the Monte-Carlo standard
            error, with one map's cells as a cluster, and NAME_worst the worst map's part; None if
            undefined.
    """

    maps: int
    num_found: int
    found_by_map: float
    found_by_map_error: float | None
    width: float
    parts: Mapping[str, float | None]


def true_shares(places: Places, number: int, rng: np.random.Generator) -> Floats:
    """Draw the shares of the cells and, last, of the values that are not cells, (n,).

    The draws alternate between a heavy tail and a city whose neighboring cells are similar. 2 %, 30
    % or 75 % are outside the cells, in equal parts for each such value."""
    cells, reserved = len(places.shown_cells), len(places.reserved)
    if number % 2:
        where = np.array([cell_center(places.grid, cell) for cell in places.shown_cells])
        where = (where - where.mean(axis=0)) / where.std(axis=0)
        apart = ((where[:, None] - where) ** 2).sum(axis=2)
        alike = np.exp(-apart / (2 * _REACH**2)) + 1e-6 * np.eye(cells)
        field = _ROUGH * np.linalg.cholesky(alike) @ rng.standard_normal(cells)
        weights = np.exp(field - _SLOPE * (where**2).sum(axis=1))
    else:
        weights = rng.pareto(_TAIL, size=cells) + 0.05
        weights = np.minimum(weights / weights.sum(), _HEAVIEST_TAIL)
    other = OTHER_SHARES[number // 2 % len(OTHER_SHARES)]
    elsewhere = np.full(reserved, other / reserved)
    return np.append((1 - other) * weights / weights.sum(), elsewhere)


def has_map(metric: Metric) -> bool:
    """Return whether a metric's values are places that a map can show, not trips."""
    return metric.location is not None and not metric.location.pairs


def map_coverage(
    metric: Metric,
    devices: int,
    maps: int,
    rng: np.random.Generator,
    advance: Callable[[int], None] = lambda _: None,
) -> Coverage:
    """Draw and decode maps of one slot and level, one report per device.

    Args:
        metric: A metric of places.
        devices: The number of devices of each map.
        maps: The number of maps.
        rng: The source of the populations and their noise.
        advance: A callback, called with 1 after each map.

    Returns:
        The coverage of cells' intervals.

    Raises:
        ParameterError: The metric has no places, or has trips.
    """
    if metric.location is None or not has_map(metric):
        raise ParameterError(f"metric {metric.name!r} has no map: use one of places, not trips")
    places = places_of([metric.location], reserved_values(metric.no_data))
    num_cells = len(places.shown_cells)
    hits, counted = np.zeros((maps, len(GROUPS))), np.zeros((maps, len(GROUPS)))
    widths = []
    for number in range(maps):
        truth = true_shares(places, number, rng)
        density = _decoded(metric, places, truth, devices, rng)
        inside = (density.low <= truth) & (truth <= density.high)
        ranked = np.argsort(-truth[:num_cells], kind="stable")
        detected = np.flatnonzero(density.detected[:num_cells])
        groups = (ranked, detected, ranked[:HEAVIEST], ranked[:TEN])
        hits[number] = [inside[cells].sum() for cells in groups]
        counted[number] = [len(cells) for cells in groups]
        widths.append(float((density.high - density.low)[ranked[:HEAVIEST]].mean()))
        advance(1)
    parts: dict[str, float | None] = {}
    for name, inside_of, cells_of in zip(GROUPS, hits.T, counted.T, strict=True):
        part = dict(zip(("", "_error", "_worst"), covered_part(inside_of, cells_of), strict=True))
        parts |= {name + what: number for what, number in part.items()}
    by_map = np.divide(hits[:, 1], counted[:, 1], out=np.ones(maps), where=counted[:, 1] > 0)
    error = float(by_map.std(ddof=1) / np.sqrt(maps)) if maps > 1 else None
    found_by_map = float(by_map.mean())
    return Coverage(
        maps, int(counted[:, 1].sum()), found_by_map, error, float(np.mean(widths)), parts
    )


def covered_part(hits: Floats, counted: Floats) -> tuple[float | None, float | None, float | None]:
    """Return the covered fraction of cells, its Monte-Carlo error, and the worst map's fraction.

    `hits` of `counted` cells of each map are covered, (maps,). The error is for a ratio of two sums
    over maps (Cochran 1977, section 6.3), as cells of one map are not independent. None if unknown.
    """
    total, maps = counted.sum(), len(counted)
    if not total:
        return None, None, None
    part = hits.sum() / total
    spread = float(((hits - part * counted) ** 2).sum())
    error = float(np.sqrt(spread * maps / (maps - 1)) / total) if maps > 1 else None
    some = counted > 0
    return float(part), error, float((hits[some] / counted[some]).min())


def _decoded(
    metric: Metric, places: Places, truth: Floats, devices: int, rng: np.random.Generator
) -> CellEstimates:
    drawn, _ = draw_aggregate(list(places.finest), truth, devices, metric.params, rng)
    drawn = declared_aggregate(drawn, metric, _DAY, _DAY)
    candidates = places.candidates(0, metric.params)
    decoding = decode(drawn, candidates, DecodeOptions(repeats=1.0))
    return cell_estimates(drawn, candidates, decoding)


COVERAGE_HEADINGS = ("metric", "devices", "all", "found", "n", "by map", "top 5", "top 10")


def coverage_line(row: Mapping[str, Any]) -> list[str]:
    """Return the strings of one line of the table, in the order of `COVERAGE_HEADINGS`."""
    every, detected, five, ten = (_part(row, name) for name in GROUPS)
    numbers = str(row["num_found"]), f"{row['found_by_map']:.3f}"
    return [row["metric"], f"{row['devices']:,}", every, detected, *numbers, five, ten]


def _part(row: Mapping[str, Any], name: str) -> str:
    part, error, worst = (row[name + what] for what in ("", "_error", "_worst"))
    text = "-" if part is None else f"{part:.3f}"
    text += f" ± {error:.3f}" if error is not None else ""
    return text + (f" ({worst:.2f})" if worst is not None else "")
