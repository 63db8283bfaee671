"""Maps of a series of windows, fitted by method `field` as a field over space and time.

A map that disagrees with its own reports (`check_map`) is replaced with the map of all windows, if
that map agrees, or else with a fit of the window alone, with a weaker prior if needed. If that fit
also disagrees, `estimate_density` shows the projection of the plain estimates and warns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial, reduce
from heapq import heapify, heappop, heappush
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from decoder.density.cell_changes import WindowChanges, series_changes
from decoder.density.cells import Places, slot_readings
from decoder.density.field_prior import Belief, Prior
from decoder.density.gaussian_field import STRENGTHS, Field, fit_field
from decoder.density.linear_system import (
    LevelEquations,
    MapCheck,
    Misfit,
    WindowReadings,
    check_map,
    even_map,
    own_reserved,
)
from decoder.density.space_time_field import SpaceTimeField, fit_space_time, most_repeated_noise
from decoder.grid_cells import location_of
from decoder.typing import Floats, Indices
from rappor_core.aggregate import Aggregate
from rappor_core.errors import AggregateError

Source = Literal["field", "series", "whole", "alone", "projection", "simplex"]

MAX_CELLS_POOLED = 2_500  # cells or blocks, because their deviations need an eigendecomposition
MAX_NUMBERS_POOLED = 2.5e7  # rows times blocks, for two gigabytes of memory
WEAKER = 3  # weaker priors to try if the reports reject the map of the likeliest prior


@dataclass(frozen=True)
class WindowMap:
    """The map (n,) of one window, with its source, its check against the reports, and warnings."""

    shares: Floats
    source: Source
    belief: Belief | None
    check: MapCheck
    doubts: tuple[str, ...]
    changes: WindowChanges | None = None  # None if the windows were not fitted together


def window_maps(
    windows: Sequence[Sequence[Aggregate]], places: Places, repeats: float | None
) -> Iterator[WindowMap]:
    """Yield the map of each window of one slot.

    Args:
        windows: The aggregates of each window, coarse to fine.
        places: The values of the slot.
        repeats: The reports per device in a window; None for the metric's own bound.
    """
    readings = [slot_readings(levels, places, repeats, keep_empty=True) for levels in windows]
    if len(windows) == 1:
        yield _alone(readings[0], places, "field")
        return
    merged, reserved = _merged(windows, places, repeats), len(places.reserved)
    whole = fit_field(merged, places.laplacian, reserved=reserved)
    for window_map, window in zip(_pooled(windows, readings, places, whole), readings, strict=True):
        yield window_map if window_map.check.agrees else _instead(window_map, whole, window, places)


def _merged(
    windows: Sequence[Sequence[Aggregate]], places: Places, repeats: float | None
) -> list[LevelEquations]:
    """Return the equations of all windows together; a device may repeat its answer in all windows.

    For a level whose windows overlap, the window with the most reports is used."""
    merged = []
    for level in zip(*windows, strict=True):
        try:
            ordered = sorted(level, key=lambda part: part.first_day or date.min)
            merged.append(reduce(Aggregate.merge, ordered))
        except AggregateError:
            merged.append(max(level, key=lambda part: part.num_reports))
    return slot_readings(merged, places, None if repeats is None else repeats * len(windows))


def _pooled(
    windows: Sequence[Sequence[Aggregate]],
    readings: WindowReadings,
    places: Places,
    whole: Field,
) -> list[WindowMap]:
    """Fit the windows as deviations from the map of all windows.

    If there are too many cells to pool, the map of all windows is used unless the deviations
    predict better in total (gain in fit, minus the degrees of freedom)."""
    params = location_of(windows[0][-1])[0].params
    memo = params.mechanism.has_permanent_round
    most = most_repeated_noise(readings, whole.shares) if memo else 0.0
    capped = memo and not params.scheme.symbols
    field, maps, changes = _deviating(readings, places, whole, most, independent=capped)
    reserved = len(places.reserved)
    gains = _gains(readings, maps, reserved) - (field.shared_freedom + field.own_freedom)
    results = []
    for index, (shares, window) in enumerate(zip(maps, readings, strict=True)):
        doubts, gain = whole.doubts, float(gains[index])
        if not doubts and gain <= np.log(len(shares)):
            doubts = (
                "The reports of this window alone hardly tell its map from one on which all cells "
                f"are alike ({gain:.1f} nats): what it shows is the average of all windows of the "
                "series. Take more reports, longer windows, coarser cells or a larger epsilon.",
            )
        check, changed = check_map(window, shares, reserved), changes[index] if changes else None
        results.append(WindowMap(shares, "series", whole.belief, check, doubts, changed))
    if changes is not None:
        return results
    plain = [_of_whole(whole, window, reserved) for window in readings]
    expected = _gains(readings, np.array([window_map.shares for window_map in plain]), reserved)
    if (expected - field.shared_freedom).sum() <= gains.sum():
        return results
    return [
        replace(window_map, doubts=other.doubts) if window_map.check.agrees else other
        for window_map, other in zip(plain, results, strict=True)
    ]


def _of_whole(whole: Field, readings: Sequence[LevelEquations], reserved: int) -> WindowMap:
    shares = own_reserved(Misfit(readings, whole.shares), whole.shares, reserved)
    check = check_map(readings, shares, reserved)
    return WindowMap(shares, "whole", whole.belief, check, whole.doubts)


def _deviating(
    readings: WindowReadings, places: Places, whole: Field, most: float, *, independent: bool
) -> tuple[SpaceTimeField, Floats, Sequence[WindowChanges] | None]:
    """Fit the windows' deviations; return the field, its maps (T, n) and the changes of cells.

    If there are too many cells to pool, blocks of cells deviate, and the changes are None."""
    shares, laplacian, reserved = whole.shares, places.laplacian, len(places.reserved)
    rows, cells = sum(len(level.target) for level in readings[0]), len(shares) - reserved
    prior = Prior.of(whole.belief.graph, laplacian, len(shares), reserved)
    precision = prior.precision(whole.belief.strength)
    fit = partial(fit_space_time, most_repeated=most, reserved=reserved, independent=independent)
    few = max(1, min(MAX_CELLS_POOLED, int(MAX_NUMBERS_POOLED / rows) - reserved))
    if cells <= few:
        field = fit(readings, shares, precision, laplacian)
        near = None if laplacian is None else laplacian[:cells, :cells]
        return field, field.shares, series_changes(field.deviations, near, most)
    blocks = Blocks.of(shares, laplacian, few, reserved)
    field = fit(
        blocks.reduced(readings), blocks.summed(shares), blocks.precision(precision),
        blocks.laplacian
    )  # fmt: skip
    return field, field.shares @ blocks.within.T, None


def _gains(windows: WindowReadings, shares: Floats, reserved: int) -> Floats:
    gains = []
    for readings, share in zip(windows, shares, strict=True):
        even = even_map(readings, len(share), reserved)
        misfit = Misfit(readings, even)
        gains.append(misfit.at(even)[0] - misfit.at(share)[0])
    return np.array(gains)


def _instead(
    rejected: WindowMap,
    whole: Field,
    readings: Sequence[LevelEquations],
    places: Places,
) -> WindowMap:
    """Return the map of all windows if the reports agree with it, else fit the window alone."""
    instead = _of_whole(whole, readings, len(places.reserved))
    remark = "the map of all windows is shown"
    if not instead.check.agrees:
        instead, remark = _alone(readings, places, "alone"), "it was fitted alone"
    doubt = (
        "The map of this window in its series disagrees with the window's own reports (chi-square "
        f"of coarse sums {rejected.check.chi_square:.0f} for {rejected.check.freedom}): {remark} "
        "instead."
    )
    return replace(instead, doubts=(doubt, *instead.doubts), changes=rejected.changes)


def _alone(readings: Sequence[LevelEquations], places: Places, source: Source) -> WindowMap:
    """Fit one window alone; if its reports reject the map, try weaker priors.

    A prior that suits a mostly smooth map would blur a sharp edge."""
    reserved = len(places.reserved)
    field = fit_field(readings, places.laplacian, reserved=reserved)
    check = check_map(readings, field.shares, reserved)
    first = WindowMap(field.shares, source, field.belief, check, field.doubts)
    if check.agrees:
        return first
    weaker = [value for value in STRENGTHS if value < field.belief.strength]
    for strength in weaker[:WEAKER]:
        looser = Belief(field.belief.graph, strength)
        other = fit_field(readings, places.laplacian, looser, field.shares, reserved=reserved)
        check = check_map(readings, other.shares, reserved)
        if check.agrees:
            doubt = (
                f"The map by the likeliest prior, of strength {field.belief.strength:g}, disagrees "
                "with the window's own reports (chi-square of coarse sums "
                f"{first.check.chi_square:.0f} for {first.check.freedom}): one of strength "
                f"{strength:g} was taken."
            )
            return WindowMap(other.shares, source, looser, check, (doubt, *field.doubts))
    return first


@dataclass(frozen=True)
class Blocks:
    """A partition of n cells into b blocks, within which all windows have the same relative shares.

    Each reserved value is a separate block; these are last."""

    within: Any  # Sparse (n, b): each cell's fraction of its block's share
    of_cell: Indices  # The block of each cell, (n,)
    laplacian: Any | None  # Graph Laplacian of adjacent blocks (b, b); None for no graph

    @classmethod
    def of(cls, shared: Floats, laplacian: Any | None, most: int, reserved: int) -> Self:
        """Merge the cells of the smallest shares first, each with its smallest neighbor.

        So cells of large shares remain separate, and empty areas become a few blocks.

        Args:
            shared: The positive map (n,).
            laplacian: The graph Laplacian of neighbors (n, n); None for no graph.
            most: The number of blocks of cells to form.
            reserved: The number of reserved values.
        """
        size = len(shared) - reserved
        merged = _blocks_of(shared[:size], laplacian, most)
        of_cell = np.append(merged, merged.max() + 1 + np.arange(reserved))
        parts = shared / np.bincount(of_cell, shared)[of_cell]
        cells = np.arange(len(shared))
        within = sparse.coo_array((parts, (cells, of_cell))).tocsr()
        return cls(within, of_cell, None if laplacian is None else _touching(laplacian, of_cell))

    def reduced(self, windows: Sequence[Sequence[LevelEquations]]) -> list[list[LevelEquations]]:
        """Return the windows' equations with the shares of the blocks as unknowns."""
        designs: dict[int, Any] = {}

        def of(level: LevelEquations) -> LevelEquations:
            if id(level.design) not in designs:
                designs[id(level.design)] = (level.design @ self.within).tocsr()
            return replace(level, design=designs[id(level.design)])

        return [[of(level) for level in window] for window in windows]

    def summed(self, shares: Floats) -> Floats:
        """Return the blocks' shares (b,) in a map (n,)."""
        return np.bincount(self.of_cell, shares).astype(np.float64)

    def precision(self, precision: Any) -> Any:
        """Convert the precision of cells (n, n) to that of blocks (b, b) that change as a whole."""
        size = len(self.of_cell)
        both = sparse.coo_array((np.ones(size), (np.arange(size), self.of_cell))).tocsr()
        return (both.T @ precision @ both).tocsr()


def _blocks_of(shares: Floats, laplacian: Any | None, most: int) -> Indices:
    """Return each cell's block number, (n,). Cells without neighbors join the smallest block."""
    size = len(shares)
    into, near = list(range(size)), [set[int]() for _ in range(size)]
    if laplacian is not None:
        edges = laplacian[:size, :size].tocoo()
        for first, second in zip(edges.row.tolist(), edges.col.tolist(), strict=True):
            near[first] |= {second} - {first}
    entries = list(zip(shares.tolist(), range(size), strict=True))
    queue = entries.copy()
    heapify(queue)

    def lightest() -> int:
        while True:
            entry = heappop(queue)
            if entry is entries[entry[1]]:  # skip entries from before a merge
                return entry[1]

    for _ in range(size - most):
        cell = lightest()
        other = min((entries[peer] for peer in near[cell]), default=(0.0, -1))[1]
        other = lightest() if other < 0 else other
        into[cell] = other
        for peer in near[cell] - {other}:
            near[peer].add(other)
            near[other].add(peer)
        for peer in near[cell]:
            near[peer].discard(cell)
        entries[other], entries[cell] = (entries[other][0] + entries[cell][0], other), (0.0, -1)
        heappush(queue, entries[other])
    roots = np.array(into)
    while (roots[roots] != roots).any():
        roots = roots[roots]
    return np.asarray(np.unique(roots, return_inverse=True)[1], dtype=np.intp)


def _touching(laplacian: Any, of_cell: Indices) -> Any:
    edges, size = laplacian.tocoo(), int(of_cell.max()) + 1
    a, b = of_cell[edges.row], of_cell[edges.col]
    apart = a != b
    adjacency = sparse.coo_array((apart[apart], (a[apart], b[apart])), (size, size)).tocsr()
    graph: Any = csgraph.laplacian(adjacency.astype(bool).astype(float))
    return graph.tocsr()
