"""Maps and their changes between windows in one offline page: the data that map.js draws."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from decoder.comparison.differences import Differences
from decoder.density.areas import AreaShares
from decoder.density.maps import Density
from decoder.grid_cells import cell_center, unrolled
from decoder.output.basemap import (
    PLACES,
    UNIT,
    BaseLayer,
    area_outlines,
    bundled_source,
    counted,
    map_ground,
    place_name,
)
from decoder.output.density_csv import (
    cell_size,
    grouped_warnings,
    held_text,
    visible_text,
    window_text,
)
from decoder.output.jinja import DETECTED_FROM, UNDETECTED_STEPS, UNDETECTED_TO
from decoder.tables.format import number_text
from decoder.typing import Flags, Floats
from rappor_core.grid.box import RESERVED, Point

BUSIEST = 10  # the number of named cells on a map, as in the page's table
MAX_NUMBERS = 1_000_000  # cells times window pairs (20 MB); with more, the first is the only base
_DOUBTFUL = 1e-3  # one map in a thousand has a lower p-value by chance
_SOURCES = {
    "field": "",
    "series": "pooled over the windows",
    "whole": "the map of all windows",
    "alone": "decoded alone",
    "projection": "from the plain estimates only",
    "simplex": "method simplex",
}
_MIN_TOP = 1e-9  # minimum share of the darkest color, in case every cell is empty

Pair = tuple[Density, Density, Differences]


def map_data(
    maps: Sequence[Density],
    points: Sequence[Point] = (),
    notes: Sequence[str] = (),
    base: BaseLayer | None = None,
    areas: Sequence[AreaShares] = (),
) -> dict[str, Any]:
    """Return the data that map.js draws, as plain values.

    Args:
        maps: Maps of one metric and level, in any slots and windows.
        points: Points to mark.
        notes: Additional sentences for the reader.
        base: The user's streets, districts or stations.
        areas: The shares of named areas in each of the maps, or empty.
    """
    sample, base = maps[0], base or BaseLayer()
    moved = partial(unrolled, sample.places.grid)
    # start with the latest window that has at least half of the maximum number of answers in the
    # box: for the last window, most devices have often not answered yet
    inside = [each.num_reports * each.in_box for each in maps]
    latest = max(i for i, number in enumerate(inside) if 2 * number >= max(inside))
    first = window_text(maps[latest])
    top = _largest(drawn_shares(each) for each in maps)
    drawn = [_map(each, top) for each in maps]
    has_slots = len({each.slot_text for each in maps}) > 1
    visible_notes = [f"{each.slot_text}: " * has_slots + visible_text(each)
                     for each in maps if window_text(each) == first]  # fmt: skip
    for each, table in zip(drawn, areas, strict=False):
        columns = (table.areas.names, table.estimate, table.low, table.high, table.detected)
        each["areas"] = [
            {"name": name, "estimate": round(float(estimate), 6), "low": round(float(low), 6),
             "high": round(float(high), 6), "detected": bool(detected)}
            for name, estimate, low, high, detected in zip(*columns, strict=True)
        ]  # fmt: skip
    return {
        **map_ground(sample.places.outlines(), base, moved),
        "names": list(sample.places.shown_cells),
        "points": [[round(moved(lon), PLACES), round(lat, PLACES)] for lat, lon in points],
        "maps": drawn,
        "areas": area_outlines(areas[0].areas, moved) if areas else [],
        "called": _called(maps, base),
        "first": first,
        "level": sample.options.level,
        "unit": UNIT,
        "top": top,
        "scale": {
            "detected_from": DETECTED_FROM,
            "undetected_to": UNDETECTED_TO,
            "undetected_steps": UNDETECTED_STEPS,
        },
        "texts": {
            "grid": grid_text(sample),
            "level": f"{100 * sample.options.level:g} %",
            "alpha": f"{100 * sample.options.alpha:g} %",
            "notes": [
                *notes,
                *grouped_warnings(maps),
                *visible_notes,
                *filter(None, [held_text(sample)]),
            ],
            "source": bundled_source(),
        },
    }


def _map(density: Density, top: float) -> dict[str, Any]:
    """Return map.js's data of a map; `changed` are cells that differ from the other windows."""
    size, changed = density.num_cells, dict[int, list[float]]()
    if density.changes is not None:
        changes = density.changes
        edges = np.stack([changes.difference, changes.low, changes.high], axis=1).round(6)
        changed = {int(i): edges[i].tolist() for i in np.flatnonzero(changes.detected[:size])}
    return {
        "slot": density.slot_text,
        "window": window_text(density),
        "reports": density.num_reports,
        "detectable_share": density.detectable_share,
        **density.reserved_shares,
        "unlisted": density.unlisted,
        "share": counted(density.shares[:size]),
        "low": counted(density.low[:size]),
        "high": counted(density.high[:size]),
        "estimate": counted(density.estimate[:size]),
        "shade": _shades(positions(density, top)),
        "detected": np.flatnonzero(density.detected[:size]).tolist(),
        "source": source_text(density),
        "changed": changed,
    }


def _shades(places: Floats) -> list[int]:
    shades: list[int] = np.rint(255 * places).astype(int).tolist()
    return shades


def _called(maps: Sequence[Density], base: BaseLayer) -> dict[int, str]:
    """Return names of the busiest cells in any map, with more precise names if they repeat."""
    one = maps[0]
    busiest = {int(i) for each in maps for i in np.argsort(-each.shares[: one.num_cells])[:BUSIEST]}
    wide = max(cell_size(one))
    centers = {i: cell_center(one.places.grid, one.cells[i]) for i in sorted(busiest)}
    named = {i: place_name(center, base, wide) for i, center in centers.items()}
    times = Counter(named.values())
    named |= {i: place_name(centers[i], base, wide, finely=True)
              for i, name in named.items() if times[name] > 1}  # fmt: skip
    return {i: name for i, name in named.items() if name}


def map_changes(maps: Sequence[Density]) -> dict[str, Any] | None:
    """Return the data of changes that map.js draws, one map per slot and pair of windows.

    With too much data, only changes since the first window. None if no slot has two windows."""
    pairs = list(_pairs(maps))
    if not pairs:
        return None
    if len(pairs) * maps[0].num_cells > MAX_NUMBERS:
        pairs = [pair for pair in pairs if pair[2] is pair[1].since_first]
    top = _largest(change.difference[: later.num_cells] for _, later, change in pairs)
    bases = list(dict.fromkeys(window_text(old) for old, _, _ in pairs))
    first = [new for old, new, _ in pairs if window_text(old) == bases[0]]
    return {
        "difference": True,
        "reference": bases[0],
        "bases": bases,
        "first": window_text(first[-1]),
        "top": top,
        "maps": [_change_map(*pair, top) for pair in pairs],
    }


def _pairs(maps: Sequence[Density]) -> Iterator[Pair]:
    slots: dict[str, list[Density]] = defaultdict(list)
    for density in maps:
        slots[density.slot_text].append(density)
    most = max(len(windows) for windows in slots.values())
    for (base, number), windows in product(combinations(range(most), 2), slots.values()):
        if number < len(windows) and base < len(windows[number].since):
            yield windows[base], windows[number], windows[number].since[base]


def _largest(parts: Iterable[Floats]) -> float:
    most = max((float(np.abs(part).max()) for part in parts if part.size), default=0.0)
    return max(most, _MIN_TOP)


def _change_map(old: Density, new: Density, changes: Differences, top: float) -> dict[str, Any]:
    """Return map.js's data of the change between two windows."""
    size = new.num_cells
    change, detected = changes.difference[:size], changes.detected[:size]
    return {
        "slot": new.slot_text,
        "window": window_text(new),
        "base": window_text(old),
        "reports": new.num_reports,
        "before": old.num_reports,
        "detectable_share": 0.0,
        **dict(zip(RESERVED, changes.difference[size:].tolist(), strict=False)),
        "share": counted(change),
        "low": counted(changes.low[:size]),
        "high": counted(changes.high[:size]),
        "estimate": counted(change),
        "shade": _shades(change_positions(change, detected, top)),
        "detected": np.flatnonzero(detected).tolist(),
        "source": "",
        "changed": {},
    }


def changes_view(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of `changes_view.html.j2` from map.json and its `map_changes`."""
    counts = [
        {"slot": part["slot"], "window": part["window"], "changed": len(part["detected"])}
        for part in data["maps"]
        if part.get("base") in (None, data["reference"])
    ]
    return {
        "counts": counts,
        "num_cells": len(data["cells"]),
        "reference": data["reference"],
        "bases": data.get("bases", []),  # an older result has only the first window
        "texts": data["texts"],
    }


def source_text(map_: Density) -> str:
    """Return how the map was made, and any disagreement with its reports; "" for a plain field."""
    text = _SOURCES[map_.source]
    if map_.check is not None and map_.check.p_value < _DOUBTFUL:
        text += f"{', ' if text else ''}in conflict with its reports (p = {map_.check.p_value:.2g})"
    return text


def grid_text(density: Density) -> str:
    """Return a sentence on the kind and size of the map's cells."""
    grid, level = density.places.grid, density.places.levels[-1]
    wide, high = cell_size(density)
    return (
        f"{density.num_cells:,} cells of grid {grid.kind!r}, level {level}, "
        f"each about {number_text(wide)} by {number_text(high)} km."
    )


def drawn_shares(density: Density) -> Floats:
    """Return the share that each cell's color represents, (n,).

    It is the map's share, moved into the interval if the cell is detected, so that a detected cell
    is never drawn as empty."""
    size = density.num_cells
    shares, low, high = density.shares[:size], density.low[:size], density.high[:size]
    inside = np.clip(shares, low, np.maximum(low, high))
    return np.maximum(np.where(density.detected[:size], inside, shares), 0.0)


def positions(density: Density, top: float) -> Floats:
    """Return the position of each cell on the color scale, 0 to 1; `top` is the largest share."""
    shares = drawn_shares(density)
    dark = DETECTED_FROM + (1 - DETECTED_FROM) * np.sqrt(np.minimum(shares / top, 1))
    part = np.sqrt(np.minimum(shares / max(density.detectable_share, 1e-12), 1))
    pale = UNDETECTED_TO * np.floor(part * UNDETECTED_STEPS) / UNDETECTED_STEPS
    return np.where(density.detected[: density.num_cells], dark, pale)


def change_positions(change: Floats, detected: Flags, top: float) -> Floats:
    """Return the position of each cell on the color scale of changes.

    0 is the largest decrease, 0.5 no change, 1 the largest increase; `top` is the largest change.
    """
    size = np.sqrt(np.minimum(np.abs(change) / top, 1))
    part = np.where(detected, DETECTED_FROM + (1 - DETECTED_FROM) * size, UNDETECTED_TO * size)
    return 0.5 + 0.5 * np.sign(change) * part
