"""The design of `location` metrics: their review and plans."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from decoder.grid_cells import num_cells
from metric_design.cohorts import powers_of_cohorts
from metric_design.kind_design import KindDesign, Level, Question
from rappor_core.metrics.location import reserved_values
from rappor_core.metrics.metric import Metric
from rappor_core.sequence_risk import sequence_risk
from rappor_core.text import counted

if TYPE_CHECKING:
    from metric_design.map_forecast import MapError


def _of_sequence(metric: Metric) -> Iterator[tuple[Level, str]]:
    """Warn of mode `memo`, which reveals when answers change, or explain `hold`."""
    location = metric.location
    assert location is not None  # noqa: S101 (of this kind)
    span = counted(location.hold, metric.period)
    if location.rules.memoizes:
        yield "warning", _unbounded(metric)
    elif location.hold:
        yield (
            "note",
            (
                f"maps show where devices were last seen, up to {span} before the answer (hold), "
                "so changes appear that much later"
            ),
        )


def _unbounded(metric: Metric) -> str:
    """Explain why mode `memo` has no bound for a sequence, and what `hold` changes."""
    assert metric.location is not None  # noqa: S101 (of this kind)
    effect = (
        "hold makes periods without data rarer, but guarantees nothing for a sequence"
        if metric.location.hold
        else "without hold, the answers also show in which periods a device had data"
    )
    return (
        "mode = 'memo' hides the cell, but not when it changes: epsilon of the whole sequence is "
        f"unbounded, {sequence_risk(metric).epsilon:.0f} nats or more after a year; {effect}; "
        "use mode = 'window' with turn = 'fresh' and hold, under a new name"
    )


def _meaning(metric: Metric) -> str:
    """Explain the values `other` and `no_data`."""
    assert metric.location is not None  # noqa: S101 (of this kind)
    outside = (
        "a trip that begins or ends outside the box"
        if metric.location.pairs
        else ("a place outside the box")
    )
    nothing = "without a trip" if metric.location.pairs else "without a fix"
    past = " or that the cap is used up" if _binds(metric) else ""
    return (
        f"two reserved values follow the cells: {metric.fallback!r} means {outside}{past}, "
        f"{metric.no_data!r} a slot and period {nothing}"
    )


def _cost(metric: Metric) -> str:
    """Describe how much of a device's cap and budget (in nats) the reserved values use."""
    params, cap = metric.params, metric.max_memoized_values
    total = f"{metric.lifetime_epsilon:.2f} for life"
    if not params.mechanism.has_permanent_round:
        return (
            f"a report costs epsilon {metric.epsilon_one:.2f} whatever its value, at most {total}, "
            "with or without no_data"
        )
    each = f"epsilon {params.epsilon_infinity:.2f}"
    if not _binds(metric):
        return (
            f"each is sent as one of the {params.num_bits} symbols, like a cell: a symbol costs "
            f"{each}, all of them {total}, with or without no_data"
        )
    reserved = len(reserved_values(metric.no_data))
    return (
        f"they take {reserved} of max_memoized_values = {cap}, before any cell, and leave "
        f"{cap - reserved}; once sent, each costs {each} like a cell, at most {total}"
    )


def _binds(metric: Metric) -> bool:
    """Return whether a device can reach its cap, after which it answers `other` for a cell."""
    params, cap = metric.params, metric.max_memoized_values
    all_fit = bool(params.scheme.symbols) and cap >= params.num_bits
    return params.mechanism.has_permanent_round and not all_fit


class LocationDesign(KindDesign):
    """The design of location metrics."""

    asks = "error"
    options = ("periods",)
    usual = {"grid": "quadkey"}  # noqa: RUF012 (never changed)

    def designs(self, question: Question) -> Iterator[Mapping[str, Any]]:
        """Yield every mode that the review compares, with several numbers of cohorts."""
        # Needs numpy, which the review does not need
        modes = import_module("metric_design.map_forecast").modes
        no_data = "no_data" in question.given
        for cohorts in powers_of_cohorts(question.people, question.length_of("levels")):
            for mode in modes(question.life, question.together, cohorts, no_data):
                yield tomllib.loads(mode.keys)

    def precision(self, metric: Metric, devices: float) -> float:
        """Return the total variation of the finest level's map for one slot and period."""
        return map_error(metric, devices).total_variation

    def finding(self, metric: Metric, precision: float, question: Question) -> str:  # noqa: ARG002
        """Describe the map and its error."""
        location = metric.location
        assert location is not None  # noqa: S101 (of this kind)
        cells = num_cells(location.grid, location.grid.finest)
        what = f"slot and {metric.period}" if len(location.slots) > 1 else metric.period
        return (
            f"estimate a map of one {what} with {cells:,} cells and a total variation error of "
            f"{precision:.2f}"
        )

    def supposed(self, metric: Metric, question: Question) -> str:  # noqa: ARG002
        """Describe the reference map."""
        return (
            "the population is as uneven as the reference map of docs/method.md, where a map "
            f"without reports has an error of {map_error(metric, 1).even:.2f}; this is rough, "
            "errors for maps of cities are up to twice as large"
        )

    def findings(
        self,
        metric: Metric,
        population: int | None,  # noqa: ARG002
    ) -> Iterator[tuple[Level, str]]:
        """Yield findings on how the mode protects sequences, and on `other` and `no_data`."""
        yield from _of_sequence(metric)
        if metric.no_data is not None:
            yield "note", f"{_meaning(metric)}; {_cost(metric)}"


def map_error(metric: Metric, population: float) -> MapError:
    """Predict the error of the finest level's map for one slot and period; loads numpy.

    Args:
        metric: A location metric.
        population: The number of reporting devices. Each reports at one level, for its scheduled
            slot and period.
    """
    location = metric.location
    assert location is not None  # noqa: S101 (of this kind)
    devices = max(1, population // len(location.grid.levels))
    cells = num_cells(location.grid, location.grid.finest)
    predicted_error = import_module("metric_design.map_forecast").predicted_error
    error: MapError = predicted_error(metric.params, devices / location.num_turns, cells)
    return error


LOCATION = LocationDesign()
