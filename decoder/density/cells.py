"""The cells and levels in a slot's aggregates, the values at each level, and their equations."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from decoder.candidates.lists import Candidates
from decoder.density.linear_system import LevelEquations, design_of, read_aggregate
from decoder.errors import DecodeError
from decoder.grid_cells import cell_outline, location_of, parent_cell
from decoder.model.counts import location_repetition
from decoder.typing import Indices
from rappor_core.aggregate import Aggregate
from rappor_core.grid.box import OTHER, RESERVED, Point
from rappor_core.grid.grid import MAX_PAIRS, PAIR_SEPARATOR, Grid
from rappor_core.hashing import normalize
from rappor_core.metrics.location import Location, reserved_values
from rappor_core.params import RapporParams

_PER_DEGREE = 1e6  # corners within a millionth of a degree (0.1 m) are the same


def cell_laplacian(grid: Grid, cells: Sequence[str]) -> Any:
    """Return the sparse graph Laplacian (n, n) in which cells with a common edge are neighbors.

    Two common corners count as a common edge. Reserved values have no neighbors."""
    owners: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, cell in enumerate(cells):
        if cell not in RESERVED:
            for latitude, longitude in cell_outline(grid, cell):
                corner = round(latitude * _PER_DEGREE), round(longitude % 360 * _PER_DEGREE)
                owners[corner].append(index)
    shared = Counter(pair for group in owners.values() for pair in combinations(group, 2))
    edges = np.array([pair for pair, corners in shared.items() if corners >= 2], dtype=np.intp)
    edges = edges.reshape(-1, 2)
    size, ones = len(cells), np.ones(2 * len(edges))
    both = np.concatenate([edges, edges[:, ::-1]]).T
    adjacency = sparse.coo_array((ones, (both[0], both[1])), (size, size)).tocsr()
    laplacian: Any = csgraph.laplacian(adjacency)
    return laplacian.tocsr()


@dataclass(frozen=True)
class Places:
    """The values of one slot at each level, coarse to fine; reserved values last at each level."""

    grid: Grid
    levels: tuple[int, ...]
    values: tuple[tuple[str, ...], ...]  # One tuple of values for each level
    parents: tuple[Indices, ...]  # Index of each value's parent, for each level but the first
    laplacian: Any | None  # The neighbor graph at the finest level; None for pairs of cells
    listed: Indices | None = None  # Indices of the finest values to show, ascending; None for all
    _known: dict[tuple[int, RapporParams], tuple[Candidates, Any]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def finest(self) -> tuple[str, ...]:
        """The values of the finest level."""
        return self.values[-1]

    @property
    def pairs(self) -> bool:
        """Whether the values are trips from cell to cell."""
        return self.laplacian is None

    @property
    def reserved(self) -> tuple[str, ...]:
        """The values that are not places: `other`, and `no_data` if the metric declares it."""
        return tuple(value for value in self.finest[-len(RESERVED) :] if value in RESERVED)

    @property
    def shown(self) -> tuple[str, ...]:
        """The finest values to show, reserved values last."""
        if self.listed is None:
            return self.finest
        return tuple(self.finest[index] for index in self.listed)

    @property
    def shown_cells(self) -> tuple[str, ...]:
        """The finest cells to show, without the reserved values."""
        return self.shown[: len(self.shown) - len(self.reserved)]

    def showing(self, cells: Collection[str]) -> Self:
        """Return the same places, showing only the given finest cells and the reserved values."""
        names = {*cells, *self.reserved}
        listed = [index for index, value in enumerate(self.finest) if value in names]
        return replace(self, listed=np.array(listed, dtype=np.intp))

    def outlines(self) -> list[list[Point]]:
        """Return the corners of each shown cell, in the form of `cell_outline`."""
        return [list(cell_outline(self.grid, cell)) for cell in self.shown_cells]

    def ancestors(self, index: int) -> Indices:
        """Return, for each finest value, the index of its containing value at level `index`."""
        indices = np.arange(len(self.finest), dtype=np.intp)
        for parent in reversed(self.parents[index:]):
            indices = parent[indices]
        return indices

    def candidates(self, index: int, params: RapporParams) -> Candidates:
        """Return the values of level `index` as candidates, hashed once for all windows."""
        if (index, params) not in self._known:
            names = [normalize(value) for value in self.values[index]]
            listed = Candidates(names, complete=True, reserved=len(self.reserved))
            bits = listed.positions(params)
            design = design_of(bits, params, self.ancestors(index))
            self._known[index, params] = replace(listed, tensor=bits), design
        return self._known[index, params][0]

    def design(self, index: int, params: RapporParams) -> Any:
        """Return the design matrix for reports of level `index`, in shares of the finest cells."""
        self.candidates(index, params)
        return self._known[index, params][1]


def places_of(locations: Sequence[Location], reserved: Sequence[str] = (OTHER,)) -> Places:
    """List the values of each level of a slot.

    Args:
        locations: One location for each level, coarse to fine.
        reserved: The values that follow the cells (`reserved_values`).

    Raises:
        DecodeError: There are too many pairs to list.
    """
    grid, pairs = locations[0].grid, locations[0].pairs
    levels, values = tuple(location.level for location in locations), []
    for level in levels:
        cells = grid.cells(level)
        if pairs and len(cells) ** 2 > MAX_PAIRS:
            raise DecodeError(
                f"{len(cells):,} cells make {len(cells) ** 2:,} pairs; at most {MAX_PAIRS:,} can "
                "be listed: declare pairs over a coarser level or a smaller box"
            )
        trips = map(PAIR_SEPARATOR.join, product(cells, repeat=2))
        values.append((*(trips if pairs else cells), *reserved))
    parents = []
    for above, below, level in zip(values, values[1:], levels, strict=False):
        index = {value: position for position, value in enumerate(above)}

        def parent(value: str, level: int = level) -> str:  # a reserved value is its own parent
            ends = [] if value in RESERVED else value.split(PAIR_SEPARATOR)
            return PAIR_SEPARATOR.join(parent_cell(grid, end, level) for end in ends) or value

        parents.append(np.array([index[parent(value)] for value in below], dtype=np.intp))
    laplacian = None if pairs else cell_laplacian(grid, values[-1])
    return Places(grid, levels, tuple(values), tuple(parents), laplacian)


def in_order(aggregates: Sequence[Aggregate]) -> list[Aggregate]:
    """Sort one slot's aggregates from coarse to fine.

    Raises DecodeError if there are no aggregates, two of one level, or several metrics or slots."""
    if not aggregates:
        raise DecodeError("no aggregates: give the aggregates of one slot, one for each level")
    by_level = {location_of(a)[1].level: a for a in aggregates}
    slots = {(m.base_name, place.slot) for m, place in map(location_of, aggregates)}
    names = ", ".join(a.metric for a in aggregates)
    if len(slots) > 1:
        raise DecodeError(f"{names}: a map shows one slot of one metric; make a map for each")
    if len(by_level) < len(aggregates):
        raise DecodeError(
            f"{names}: two aggregates of one level and window; give each once, or merge them"
        )
    return [by_level[level] for level in sorted(by_level)]


def slot_places(aggregates: Sequence[Aggregate]) -> Places:
    """List the values in a slot's aggregates."""
    metrics, locations = zip(*map(location_of, in_order(aggregates)), strict=True)
    return places_of(locations, reserved_values(metrics[0].no_data))


def slot_readings(
    aggregates: Sequence[Aggregate],
    places: Places,
    repeats: float | None,
    *,
    keep_empty: bool = False,
) -> list[LevelEquations]:
    """Build the linear equations for each level.

    Args:
        aggregates: The aggregates of one slot, coarse to fine.
        places: The values of the slot.
        repeats: The reports per device in a window; None for the metric's own bound.
        keep_empty: Whether to keep rows without reports (`read_aggregate`).
    """
    return [
        read_aggregate(
            aggregate,
            places.design(index, aggregate.params),
            location_repetition(aggregate, *location_of(aggregate), repeats),
            keep_empty=keep_empty,
        )
        for index, aggregate in enumerate(aggregates)
    ]


def missing_levels(aggregates: Sequence[Aggregate]) -> tuple[str, ...]:
    """Return one warning that names the declared levels without reports, or an empty tuple."""
    metric, location = location_of(aggregates[-1])
    levels = {location_of(aggregate)[1].level for aggregate in aggregates}
    declared = location.grid.levels
    missing = [str(level) for level in declared if level not in levels]
    text = (
        f"slot {location.slot!r} of {metric.base_name!r} has no reports at level "
        f"{', '.join(missing)}, which its definition declares: the map is of level {max(levels)}, "
        f"from {len(levels)} of {len(declared)} levels, so from fewer devices. Give the aggregates "
        "of all its levels."
    )
    return (text,) if missing else ()
