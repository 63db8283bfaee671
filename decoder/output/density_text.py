"""Sentences about a map, for terminal, files and pages."""

import math
import re
from collections.abc import Sequence

from decoder.density.maps import Density
from decoder.tables.format import percent
from decoder.typing import Flags
from rappor_core.text import counted

KM_A_DEGREE = 111.2
NOT_APART = "not distinguishable from zero"
NONE_DETECTED = "No cell is detected"
MAP_APART = "map_share, drawn towards other cells, lies outside the interval"
_MAX_NAMED = 4  # windows of a warning
_DOUBTFUL = 1e-3  # one map in a thousand says so by chance
_SOURCES = {
    "field": "",
    "series": "pooled over the windows",
    "whole": "that of all windows",
    "alone": "decoded by itself",
    "projection": "made of the plain estimates alone",
    "simplex": "method simplex",
}


def window_text(one: Density) -> str:
    """The first and last day of a map as text; "" where it has none."""
    days = list(dict.fromkeys(str(day) for day in (one.first_day, one.last_day) if day))
    period = one.metric.period
    if period == "day" or not days:
        return " to ".join(days)
    return f"{period} to {days[0]}" if len(days) == 1 else f"{period}s that end {' to '.join(days)}"


def notes_of(detected: Flags, outside: Flags, words: tuple[str, str]) -> list[str]:
    """A note for each row: what is said where it is not detected, and where a guess is outside."""
    return [
        "; ".join(text for text, said in zip(words, (not seen, out), strict=True) if said)
        for seen, out in zip(detected.tolist(), outside.tolist(), strict=True)
    ]


def visible_text(one: Density) -> str:
    """A sentence on how small a share the map can show, and what would help."""
    shares = one.shares[: one.num_cells]
    mass = float(shares[shares >= one.detectable_share].sum())
    text = (
        f"A share of {percent(one.detectable_share)} is detected 8 times in 10, a smaller one less "
        f"often; cells with at least as much hold {percent(mass)} of the map."
    )
    if one.places.listed is not None:
        text += f" Cells that are not shown hold {percent(one.unlisted)} of it."
    if mass < 0.5:
        text += " To see more of it take a coarser level, more reports, or a larger epsilon."
    return text


def visible_notes(maps: Sequence[Density], window: str) -> list[str]:
    """`visible_text` for each slot of a window, with the slot's name if there are several."""
    has_slots = len({one.slot_text for one in maps}) > 1
    return [
        f"{one.slot_text}: {visible_text(one)}" if has_slots else visible_text(one)
        for one in maps
        if window_text(one) == window
    ]


def grouped_warnings(maps: Sequence[Density]) -> list[str]:
    """Each warning once, whatever its figures, with the slots and windows that it concerns."""
    found: dict[str, dict[str, str]] = {}
    for one in maps:
        where = ", ".join(filter(None, (one.slot_text, window_text(one))))
        for warning in one.warnings:
            found.setdefault(re.sub(r"[0-9][0-9.,e-]*", "#", warning), {})[where] = warning
    texts = []
    for said in found.values():
        *names, text = *said, list(said.values())[-1]
        if len(maps) > 1 and len(names) == len(maps):
            text = f"In all {len(maps)} maps: {text}"
        elif len(maps) > 1:
            more = len(names) - _MAX_NAMED
            listed = "; ".join(names[-_MAX_NAMED:]) + (f" and {more} more" if more > 0 else "")
            text = f"{listed}: {text}"
        texts.append(text)
    return texts


def source_text(one: Density) -> str:
    """A sentence on how the map was made and whether it agrees with its reports; "" for a single
    window's field."""
    text = _SOURCES[one.source]
    if one.check is not None and one.check.p_value < _DOUBTFUL:
        text += f"{', ' if text else ''}at odds with its own reports (p = {one.check.p_value:.2g})"
    return text


def grid_text(one: Density) -> str:
    """A sentence on the kind and size of the map's cells."""
    grid, level = one.places.grid, one.places.levels[-1]
    wide, high = cell_size(one)
    return (
        f"{one.num_cells:,} cells of grid {grid.kind!r}, level {level}, "
        f"each about {wide:.2g} by {high:.2g} km."
    )


def cell_size(one: Density) -> tuple[float, float]:
    """Kilometers from west to east and from south to north of a cell in the middle of the box."""
    middle = one.places.outlines()[one.num_cells // 2]
    latitudes, longitudes = zip(*middle, strict=True)
    high = (max(latitudes) - min(latitudes)) * KM_A_DEGREE
    shrunk = math.cos(math.radians(sum(latitudes) / len(latitudes)))
    return (max(longitudes) - min(longitudes)) * KM_A_DEGREE * shrunk, high


def held_text(one: Density) -> str:
    """A sentence on places that devices hold; "" where they hold none."""
    if not one.location.hold:
        return ""
    span = counted(one.location.hold, one.metric.period)
    return (
        f"It shows where devices were last seen, within {span} of their answer, not who was "
        f"there in these days; changes lag by up to {span}."
    )
