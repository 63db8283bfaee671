"""The aggregates of one slot and window: their order, their places, and their equations."""

from __future__ import annotations

from collections.abc import Sequence

from decoder.density.cells import Places, places_of
from decoder.density.linear_system import LevelEquations, read_aggregate
from decoder.errors import DecodeError
from decoder.grid_cells import location_of
from decoder.model.repetition import location_repetition
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.location import reserved_values


def in_order(aggregates: Sequence[Aggregate]) -> list[Aggregate]:
    """Sort one slot's aggregates from coarse to fine.

    Raises DecodeError for none, for two of one level, and for two metrics or slots.
    """
    if not aggregates:
        raise DecodeError("no aggregates: give those of one slot, one for each level")
    found = {location_of(a)[1].level: a for a in aggregates}
    slots = {(m.base_name, place.slot) for m, place in map(location_of, aggregates)}
    names = ", ".join(a.metric for a in aggregates)
    if len(slots) > 1:
        raise DecodeError(f"{names}: a map takes one slot of one metric; make a map of each")
    if len(found) < len(aggregates):
        raise DecodeError(
            f"{names}: two aggregates of one level and window; give each once, or merge them"
        )
    return [found[level] for level in sorted(found)]


def slot_places(aggregates: Sequence[Aggregate]) -> Places:
    """List the cells that the aggregates of a slot are about."""
    metrics = [location_of(aggregate)[0] for aggregate in in_order(aggregates)]
    locations = [metric.location for metric in metrics if metric.location is not None]
    return places_of(locations, reserved_values(metrics[0].no_data))


def slot_readings(
    aggregates: Sequence[Aggregate],
    places: Places,
    repeats: float | None,
    *,
    keep_empty: bool = False,
) -> list[LevelEquations]:
    """Write the equations of each level; keep_empty: as in `read_aggregate`."""
    return [
        read_aggregate(
            one,
            places.design(index, one.params),
            location_repetition(one, *location_of(one), repeats),
            keep_empty=keep_empty,
        )
        for index, one in enumerate(aggregates)
    ]


def missing_levels(aggregates: Sequence[Aggregate]) -> tuple[str, ...]:
    """A warning that names the declared levels of the slot that nobody reported of."""
    metric, location = location_of(aggregates[-1])
    given = {location_of(one)[1].level for one in aggregates}
    declared = location.grid.levels
    missing = [str(level) for level in declared if level not in given]
    if not missing:
        return ()
    slot = f"slot {location.slot!r} of {metric.base_name!r}"
    return (
        f"{slot} has no reports of level {', '.join(missing)}, which its definition declares: the "
        f"map is of level {max(given)}, from {len(given)} of {len(declared)} levels, so from "
        "fewer devices. Give the aggregates of all its levels.",
    )
