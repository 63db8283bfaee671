"""`estimate_density`: a map with error bars from the aggregates of one time slot.

The *estimates* of the finest level are unbiased, each with its standard error, interval and test:
use them for single cells. The *map* is one joint estimate of all shares, which are positive and sum
to 1. As a whole, it is closer to the truth, but it guarantees nothing about any single cell."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import repeat
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from decoder.candidates.lists import Candidates
from decoder.comparison.differences import Differences, decided, differences, independent
from decoder.density.cell_changes import bases_of
from decoder.density.cells import Places, in_order, missing_levels, slot_places, slot_readings
from decoder.density.field_prior import Belief
from decoder.density.linear_system import MapCheck, check_map
from decoder.density.map_series import Source, WindowMap, window_maps
from decoder.estimation.leave_one_out import WarmStarts
from decoder.files import to_frame
from decoder.grid_cells import location_of
from decoder.model.counts import location_repetition, observe
from decoder.numerics.bit_tensor import one_thread
from decoder.numerics.optimization import project_simplex
from decoder.options import (
    DEFAULT_MAP_METHOD,
    DecodeOptions,
    Levels,
    MapMethod,
    check_map_method,
)
from decoder.pipeline import decode
from decoder.results.selective_intervals import MIN_LOW
from decoder.results.tables import Decoding
from decoder.typing import Flags, Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.location import Location
from rappor_core.metrics.metric import Metric

_COLUMNS = ("shares", "estimate", "std_error", "low", "high", "detected")
MIN_IN_BOX = 1e-9  # the share in the box is a divisor, so it is never 0
HEAVY = 3  # the number of heavy cells that the cohorts must be able to distinguish from all others
MAX_NUMBERS = 192  # with more observed numbers, one fit explains them well enough (docs/method.md)
MAX_WORK = 1e9  # multiplications per step in a fit of all cells (a few tenths of a second)


@dataclass(frozen=True)
class DensityOptions(Levels):
    """The options for a map. Raises DecodeError if a value is invalid.

    alpha is the false discovery rate among cells reported as detected, or as changed since an
    earlier window. For changes from the other windows in a series, it is the probability that any
    cell is wrongly reported as changed."""

    method: MapMethod = DEFAULT_MAP_METHOD

    def __post_init__(self) -> None:
        super().__post_init__()
        check_map_method(self.method)


@dataclass(frozen=True)
class Density:
    """A map of one slot and window.

    Arrays are (n,), with one entry per cell shown; the reserved values (`other`, and `no_data` if
    declared) are last. `estimate` to `detected` are as in `CellEstimates`."""

    metric: Metric
    first_day: date | None
    last_day: date | None
    num_reports: int
    places: Places
    shares: Floats  # The positive map; its sum with `unlisted` (cells not shown) is 1
    estimate: Floats
    std_error: Floats
    low: Floats
    high: Floats
    detected: Flags
    detectable_share: float  # The smallest share that is detected 8 times in 10
    repetition: float  # rho of the finest level's reports
    options: DensityOptions
    belief: Belief | None  # The prior of the map; None for a projection
    warnings: tuple[str, ...]
    unlisted: float = 0.0
    source: Source = "field"  # `whole`: the map of all windows; `projection`: from `estimate`
    check: MapCheck | None = None  # The test of the map against its own reports
    changes: Differences | None = None  # From the mean of the other windows; NaN if reserved
    # Changes from each window in `bases_of`, in order, with Benjamini-Hochberg over the cells
    since: tuple[Differences, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The names of the rows: shown cells, then the reserved values."""
        return self.places.shown

    def showing(self, cells: Collection[str]) -> Self:
        """Return the map with only some cells and the reserved values; others are `unlisted`."""
        places = self.places.showing(cells)
        listed = np.arange(len(self.cells)) if places.listed is None else places.listed
        rows: dict[str, Any] = {name: getattr(self, name)[listed] for name in _COLUMNS}
        unlisted = float(self.shares.sum() - rows["shares"].sum())
        rows["changes"] = self.changes and self.changes.of(listed)
        rows["since"] = tuple(change.of(listed) for change in self.since)
        return replace(self, places=places, unlisted=unlisted, **rows)

    @property
    def since_first(self) -> Differences | None:
        """The change from the first window of the series; None for the first window itself."""
        return self.since[0] if self.since else None

    def to_frame(self) -> Any:
        """Return a pandas.DataFrame with one row per cell. Raises OutputError without pandas."""
        columns = {"cell": self.cells}
        columns |= {name: getattr(self, name).tolist() for name in _COLUMNS}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return to_frame(rows, list(columns))

    @property
    def num_cells(self) -> int:
        """The number of rows that are cells; the reserved values follow them."""
        return len(self.cells) - len(self.places.reserved)

    @property
    def reserved_shares(self) -> dict[str, float]:
        """The map's share of each reserved value."""
        return dict(zip(self.places.reserved, self.shares[self.num_cells :].tolist(), strict=True))

    @property
    def in_box(self) -> float:
        """The share of the answers that the map puts in cells, shown or not; at least 1e-9."""
        return max(float(1 - self.shares[self.num_cells :].sum()), MIN_IN_BOX)

    @property
    def slot_text(self) -> str:
        """The name and hours of the map's slot, such as "night 22-6"."""
        return next(str(slot) for slot in self.location.slots if slot.name == self.location.slot)

    @property
    def location(self) -> Location:
        """The metric's `Location`, with the slot of this map."""
        assert self.metric.location is not None  # noqa: S101 (`location_of` has checked it)
        return self.metric.location


def estimate_density(
    aggregates: Sequence[Aggregate],
    options: DensityOptions | None = None,
    places: Places | None = None,
) -> Density:
    """Estimate the map of one slot in one window.

    Args:
        aggregates: The aggregates of one slot, one for each level that has reports.
        options: The options of the map.
        places: The `slot_places` of the same metric, to list the cells once for many maps.

    Raises:
        DecodeError: The aggregates do not belong together, or contain no reports.
    """
    return next(estimate_density_series([aggregates], options, places))


def estimate_density_series(
    windows: Sequence[Sequence[Aggregate]],
    options: DensityOptions | None = None,
    places: Places | None = None,
) -> Iterator[Density]:
    """Estimate the maps of one slot's windows, in order.

    With method `field`, the windows are pooled (`map_series`): they share one map, and each has its
    own reserved values, small deviations, and tested changes of cells. Estimates and intervals use
    each window alone, but their fits may start from earlier ones (`WarmStarts`).

    Args:
        windows: The windows, oldest first, each as `estimate_density` accepts it.
        options: The options of the maps; None for the defaults.
        places: The values of the slot; None to use the values of the first window.

    Yields:
        The map of each window.
    """
    options = options or DensityOptions()
    ordered = [in_order(aggregates) for aggregates in windows]
    places = places or slot_places(ordered[0])
    fields: Iterator[WindowMap | None] = repeat(None)
    if options.method == "field":
        fields = window_maps(ordered, places, options.repeats)
    warm_starts = WarmStarts()
    earlier: list[Density] = []
    for aggregates in ordered:
        with one_thread():
            field = next(fields)
            finest = aggregates[-1]
            candidates = places.candidates(len(aggregates) - 1, finest.params)
            rows = finest.params.num_cohorts * finest.params.num_bits
            choices = DecodeOptions(
                level=options.level,
                alpha=options.alpha,
                repeats=location_repetition(finest, *location_of(finest), options.repeats),
                full_fit=rows * len(candidates) ** 2 <= MAX_WORK,
            )
            decoding = decode(finest, candidates, choices, warm_starts=warm_starts)
            window_map = _window_map(field, decoding, aggregates, places, options)
        density = _assemble(aggregates, places, options, decoding, window_map)
        bases, size, since = bases_of(len(earlier), len(ordered)), density.num_cells, []
        apart = np.arange(len(density.cells)) >= size
        for base in bases:
            change, error = independent(*((one.estimate, one.std_error)
                                          for one in (earlier[base], density)))  # fmt: skip
            if window_map.changes is not None:
                change[:size], error[:size] = window_map.changes.since[base]
            since.append(differences(change, error, alpha=options.alpha, apart=apart))
        yield replace(density, since=tuple(since))
        earlier.append(density)


def _window_map(
    field: WindowMap | None,
    decoding: Decoding,
    aggregates: Sequence[Aggregate],
    places: Places,
    options: DensityOptions,
) -> WindowMap:
    """Return `field`, or a projection of the estimates if it is None or the reports reject it."""
    if field and field.check.agrees:
        return field
    shares = project_simplex(decoding.candidates.estimate)
    readings = slot_readings(aggregates, places, options.repeats)
    check = check_map(readings, shares, len(places.reserved))
    if not field:
        return WindowMap(shares, "simplex", None, check, ())
    doubt = (
        "No field agrees with this window's own reports (chi-square of coarse sums "
        f"{field.check.chi_square:.0f} for {field.check.freedom}): the map is the projection "
        "of the plain estimates. Check that devices report as often as the definition says."
    )
    return WindowMap(shares, "projection", None, check, (doubt,), field.changes)


def _assemble(
    aggregates: Sequence[Aggregate],
    places: Places,
    options: DensityOptions,
    decoding: Decoding,
    window_map: WindowMap,
) -> Density:
    finest = aggregates[-1]
    listed = places.candidates(len(places.values) - 1, finest.params)
    cells = cell_estimates(finest, listed, decoding)
    warnings = (*missing_levels(aggregates), *window_map.doubts, *cells.warnings)
    changes = None
    if window_map.changes is not None:  # the p-values were corrected over the series
        unknown = np.full(len(places.reserved), np.nan)
        difference, error = (np.append(part, unknown) for part in window_map.changes.from_others)
        p_adjusted = np.append(window_map.changes.p_adjusted, np.ones_like(unknown))
        changes = decided(differences(difference, error), p_adjusted, options.alpha)
    return Density(
        metric=location_of(finest)[0],
        first_day=finest.first_day,
        last_day=finest.last_day,
        num_reports=sum(aggregate.num_reports for aggregate in aggregates),
        places=places,
        shares=window_map.shares,
        **cells._replace(warnings=warnings)._asdict(),
        detectable_share=decoding.summary.detectable_share,
        repetition=decoding.summary.repetition,
        options=options,
        belief=window_map.belief,
        source=window_map.source,
        check=window_map.check,
        changes=changes,
    )


class CellEstimates(NamedTuple):
    """Unbiased estimates for single cells with intervals in [0, 1], (n,) each, and warnings."""

    estimate: Floats
    std_error: Floats
    low: Floats
    high: Floats
    detected: Flags
    warnings: tuple[str, ...]


def cell_estimates(
    aggregate: Aggregate, candidates: Candidates, decoding: Decoding
) -> CellEstimates:
    """Compute estimates and intervals for the cells of one level from its decoding.

    The interval of a detected cell is corrected for selection, excludes 0 and contains the
    estimate. If it begins at MIN_LOW, its lower end says no more than the test. If the bits in all
    cohorts cannot distinguish all possible lists of heavy cells, intervals begin at 0 and end at
    the maximum that the bits allow."""
    table, params, cells = decoding.candidates, aggregate.params, len(candidates)
    low = np.where(table.detected, table.selected_low, table.low)
    high = np.where(table.detected, table.selected_high, table.high)
    warnings = decoding.warnings
    if not candidates.direct(params):
        cohorts = sum(count > 0 for count in aggregate.reports_per_cohort)
        numbers = cohorts * (params.num_bits - bool(params.scheme.symbols))
        digits = params.num_hashes * math.log2(max(params.num_bits, 2))
        needed = HEAVY * math.log2(cells)
        if numbers < cells and numbers <= MAX_NUMBERS:
            warnings += (
                f"{cells:,} cells are read from {numbers:,} numbers: different maps explain them "
                "about equally well. Intervals of 95 % of detected cells hold the truth less often "
                "than 95 times in 100. Use a coarser level, or more cohorts, bits or symbols.",
            )
        if cohorts * digits < needed:
            allowed = _allowed(aggregate, candidates, decoding)
            low, high = np.zeros_like(low), np.maximum(high, allowed)
            warnings += (
                f"{params.num_cohorts} cohorts cannot tell where {HEAVY} heavy cells of {cells:,} "
                "are: the map is one of many that the reports allow, and the interval of each cell "
                f"begins at 0. Declare {math.ceil(needed / digits)} cohorts or more.",
            )
    low = np.where(table.detected, np.maximum(low, MIN_LOW), low)
    return CellEstimates(table.estimate, table.std_error, low.clip(0, 1), high.clip(0, 1),
                         table.detected, warnings)  # fmt: skip


def _allowed(aggregate: Aggregate, candidates: Candidates, decoding: Decoding) -> Floats:
    """Return the maximum share of each cell (M,) that its first bit allows in any cohort.

    These are one-sided limits; the cohorts divide the error level of the intervals."""
    positions = candidates.positions(aggregate.params)
    observed = observe(aggregate, positions, decoding.summary.repetition)
    noise, shares = observed.noise, np.clip(observed.bit_shares, 0.0, 1.0)
    variance = noise.bits.mechanism_variance(shares, noise.repetition)
    variance = variance + noise.repetition * shares * (1 - shares)
    tail = (1 - decoding.options.level) / len(shares)
    limits = observed.bit_shares - ndtri(tail) * np.sqrt(variance / noise.reports[:, None])
    first = observed.positions[:, :, 0].astype(np.intp)
    return np.asarray(limits[np.arange(len(limits)), first].min(axis=1).clip(0, 1))
