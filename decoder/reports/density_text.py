"""What is said of a map in words, wherever it is shown."""

from __future__ import annotations

import math

from decoder.density.maps import Density
from decoder.results.warnings import percent

KM_A_DEGREE = 111.2
NOT_APART = "not distinguishable from zero"
MAP_APART = "map_share, drawn towards other cells, lies outside the interval"


def window_text(one: Density) -> str:
    """The days of a map, or nothing; a report of a week or month is dated by its last day."""
    days = list(dict.fromkeys(str(day) for day in (one.first_day, one.last_day) if day))
    period = one.metric.period
    if period == "day" or not days:
        return " to ".join(days)
    return f"{period} to {days[0]}" if len(days) == 1 else f"{period}s that end {' to '.join(days)}"


def row_notes(one: Density) -> list[str]:
    """What is to be known of each row: told from zero or not, and a map beside its interval."""
    outside = (one.shares < one.low) | (one.shares > one.high)
    return [
        "; ".join(text for text, said in ((NOT_APART, not seen), (MAP_APART, out)) if said)
        for seen, out in zip(one.visible.tolist(), outside.tolist(), strict=True)
    ]


def visible_text(one: Density) -> str:
    """How much of a map can be seen, and what to do about it, in a sentence."""
    mass = float(one.shares[:-1][one.shares[:-1] >= one.floor].sum())
    text = (
        f"The smallest share found 8 times in 10 is {percent(one.floor)}; cells above it hold "
        f"{percent(mass)} of the map. A cell below is {NOT_APART} by itself."
    )
    if one.places.listed is not None:
        text += f" Cells that are not shown hold {percent(one.unlisted)} of it."
    if mass < 0.5:
        text += " To see more of it take a coarser level, more reports, or a larger epsilon."
    return text


def grid_text(one: Density) -> str:
    """What the cells are, and how large, in a sentence."""
    grid, level = one.places.grid, one.places.levels[-1]
    cells = len(one.cells) - 1
    middle = one.places.outlines()[cells // 2]
    latitudes, longitudes = zip(*middle, strict=True)
    high = (max(latitudes) - min(latitudes)) * KM_A_DEGREE
    shrunk = math.cos(math.radians(sum(latitudes) / len(latitudes)))
    wide = (max(longitudes) - min(longitudes)) * KM_A_DEGREE * shrunk
    return (
        f"{cells:,} cells of grid {grid.kind!r}, level {level}, each about {wide:.2g} by "
        f"{high:.2g} km."
    )


def promise_text(one: Density) -> str:
    """What each device was promised."""
    metric = one.metric
    life, once = metric.lifetime_epsilon, metric.epsilon_one
    lasting = metric.params.epsilon_infinity
    by_cell = "" if math.isinf(lasting) else f", epsilon {lasting:.2f} for a cell, for life"
    return (
        f"Each device added its own noise before sending: epsilon {once:.2f} for a report{by_cell}"
        f", and at most {life:.2f} for everything that it ever sends about this metric. Whether "
        "and when a device's answers changed is hidden by the noise of single reports only."
    )
