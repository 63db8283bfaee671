"""The findings of `rappor metrics check` about maps: their expected errors and the best mode."""

import math
from collections.abc import Iterator, Sequence
from datetime import date

from decoder.grid_cells import num_cells
from metric_design.kind_design import rounded_down
from metric_design.location_kind import map_error
from metric_design.map_forecast import MapError, Predicted, modes, predict
from metric_design.review import Finding
from rappor_core.calendar import MEAN_DAYS
from rappor_core.grid.grid import MAX_CELLS
from rappor_core.metrics.location import reserved_values
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.risk import CROWD, cohorts_affordable
from rappor_core.text import counted

USUAL_PLACES = 3  # Per device lifetime, by default
AS_GOOD = 1.1  # A ratio of errors that counts as equal


def map_findings(
    file: MetricsFile,
    population: int,
    today: date,
    periods: int | None = None,
    places: int | None = None,
) -> Iterator[Finding]:
    """Predict the maps of each location metric, and name the mode with the best maps.

    Args:
        population: The expected number of reporting devices.
        periods: The number of periods to map with the budget; None for all until the metric
            expires.
        places: The number of distinct cells of a device in its lifetime; None for the metric's cap,
            or 3 if there is no cap.
    """
    for metric in file.declared:
        if metric.location is None or metric.location.pairs:
            continue
        cells = num_cells(metric.location.grid, metric.location.grid.finest)
        if 2 <= cells <= MAX_CELLS and math.isfinite(metric.lifetime_epsilon):
            until_end = (metric.expires - today).days / MEAN_DAYS[metric.period]
            number = periods or max(1, round(until_end))
            yield Finding("note", metric.base_name,
                          _text(metric, cells, population, number, places))  # fmt: skip


def _text(metric: Metric, cells: int, population: int, periods: int, places: int | None) -> str:
    location = metric.location
    assert location is not None  # noqa: S101 (of location metrics alone)
    slots, levels = len(location.slots), len(location.grid.levels)
    devices, cap = max(1, population // levels), _places_of(metric)
    if location.every == 0:  # One answer per lifetime
        periods = 1
    error = map_error(metric, population)
    needed = places or cap or USUAL_PLACES
    cohorts = cohorts_affordable(CROWD * levels, population)
    budget = rounded_down(metric.lifetime_epsilon)
    choices = modes(budget, periods, cohorts, metric.no_data is not None)
    order = predict(choices, devices, cells, needed, slots)
    what = f"slot and {metric.period}" if slots > 1 else metric.period
    each = f"{devices:,} devices" + (f" at each of {levels} levels" if levels > 1 else "")
    lead = (
        f"a map of one {what} from {each}, {cells:,} cells, is expected to be "
        f"{error.total_variation:.2f} off in total variation (a map of equal shares: "
        f"{error.even:.2f}), if the population is as uneven as the reference map of "
        "docs/method.md"
    )
    if cap is not None and cap < needed:
        lead += f"; its cap of {cap} is below {needed} places, and the others become `other`"
    memoizes = metric.params.mechanism.has_permanent_round
    about = f"for maps of {counted(periods, metric.period)}" if periods > 1 else "for one map"
    about += f" with epsilon {budget:.2f} for life"
    about += f" and {counted(needed, 'place')} a device"
    return f"{lead}; {about}, {_best(error, memoizes, order, cohorts)}"


def _best(error: MapError, memoizes: bool, order: Sequence[Predicted], cohorts: int) -> str:
    """Name the best mode, and all modes with their errors."""
    if not order:
        return "no mode fits that budget"
    named = [mode for mode in order if not mode.mode.memoizes]
    if not named:
        return "no mode that also hides the times fits that budget"
    best = named[0]
    text = ", ".join(f"{mode.mode.name} {mode.error.total_variation:.2f}" for mode in order)
    listed = f"with {counted(cohorts, 'cohort')}: {text}"
    if not memoizes and error.total_variation <= AS_GOOD * best.error.total_variation:
        return f"no mode that also hides the times is better by more than a tenth ({listed})"
    keys = ", ".join(best.mode.keys.strip().split("\n"))
    return f"the best mode that also hides the times is {best.mode.name} ({listed}): {keys}"


def _places_of(metric: Metric) -> int | None:
    if not metric.params.mechanism.has_permanent_round or metric.params.scheme.symbols:
        return None
    return max(0, metric.max_memoized_values - len(reserved_values(metric.no_data)))
