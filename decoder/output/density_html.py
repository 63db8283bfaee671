"""Maps in one page that needs no network: cells drawn on canvas, hover, a slider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from decoder.density.areas import AreaShares
from decoder.density.maps import LEAST_IN_BOX, Density
from decoder.grid_cells import cell_centre, unrolled
from decoder.output.base_layer import BaseLayer, place_name
from decoder.output.basemap import bundled_source
from decoder.output.density_text import (
    cell_km,
    grid_text,
    grouped_warnings,
    promise_text,
    source_text,
    visible_notes,
    window_text,
)
from decoder.output.map_data import PLACES, UNIT, area_outlines, counted, map_ground
from decoder.output.map_picture import first_shown, map_picture
from decoder.output.palette import (
    DETECTED_FROM,
    UNDETECTED_STEPS,
    UNDETECTED_TO,
    drawn_shares,
    positions,
    top_share,
)
from rappor_core.grid.box import Point

BUSIEST = 10  # cells of the page's table


def view_of(data: dict[str, Any]) -> dict[str, Any]:
    """The variables of `map_view.html.j2`: texts, and the table of the first map."""
    one = first_shown(data)
    detected, shares = set(one["detected"]), one["share"]
    inside = max(1 - one["other"] - one.get("no_data", 0.0), LEAST_IN_BOX)
    order = sorted(range(len(shares)), key=lambda i: (i not in detected, -shares[i]))[:BUSIEST]
    rows = [
        {
            "name": data["names"][i],
            "called": data["called"].get(i, data["called"].get(str(i), "")),
            "detected": i in detected,
            "share": shares[i] * data["unit"],
            "in_box": shares[i] * data["unit"] / inside,
            "low": one["low"][i] * data["unit"],
            "high": one["high"][i] * data["unit"],
        }
        for i in order
    ]
    shown = {"slot": one["slot"], "window": one["window"], "rows": rows}
    shown["no_data"] = "no_data" in one
    shown["areas"] = one.get("areas", [])
    return {"shown": shown, "picture": map_picture(data), "texts": data["texts"]}


def first_view(maps: Sequence[Density]) -> int:
    """Index of the map that is shown first: the latest with at least half as many answers in the
    box as the most.

    The last window is often one that most devices have not answered for yet.
    """
    inside = [one.num_reports * one.in_box for one in maps]
    return max(i for i, number in enumerate(inside) if 2 * number >= max(inside))


def map_data(
    maps: Sequence[Density],
    points: Sequence[Point] = (),
    notes: Sequence[str] = (),
    base: BaseLayer | None = None,
    areas: Sequence[AreaShares] = (),
) -> dict[str, Any]:
    """The data that map.js draws, as plain values.

    Args:
        maps: of one metric and level, any slots and windows.
        points: to be marked.
        notes: further sentences for the reader.
        base: streets, districts or stations of the user's.
        areas: shares of named areas in each of the maps, or none.
    """
    one, base = maps[0], base or BaseLayer()
    grid = one.places.grid
    first = window_text(maps[first_view(maps)])
    top = top_share([drawn_shares(each) for each in maps])
    drawn = [_map(each, top) for each in maps]
    for each, found in zip(drawn, areas, strict=False):
        each["areas"] = _area_rows(found)
    return {
        **map_ground(one.places.outlines(), base, partial(unrolled, grid)),
        "names": list(one.places.shown_cells),
        "points": [[round(unrolled(grid, lon), PLACES), round(lat, PLACES)] for lat, lon in points],
        "maps": drawn,
        "areas": area_outlines(areas[0].areas, partial(unrolled, grid)) if areas else [],
        "called": _called(maps, base),
        "first": first,
        "level": one.options.level,
        "unit": UNIT,
        "top": top,
        "scale": {
            "detected_from": DETECTED_FROM,
            "undetected_to": UNDETECTED_TO,
            "undetected_steps": UNDETECTED_STEPS,
        },
        "texts": {
            "promise": promise_text(one),
            "grid": grid_text(one),
            "level": f"{100 * one.options.level:g} %",
            "alpha": f"{100 * one.options.alpha:g} %",
            "notes": [*notes, *grouped_warnings(maps), *visible_notes(maps, first)],
            "source": bundled_source(),
        },
    }


def _map(one: Density, top: float) -> dict[str, Any]:
    """What is drawn of a map; `no_data` only where the metric declares it."""
    size = one.num_cells
    return {
        "slot": one.slot_text,
        "window": window_text(one),
        "reports": one.num_reports,
        "detectable_share": one.detectable_share,
        **one.reserved_shares,
        "unlisted": one.unlisted,
        "share": counted(one.shares[:size]),
        "low": counted(one.low[:size]),
        "high": counted(one.high[:size]),
        "estimate": counted(one.estimate[:size]),
        "shade": np.rint(255 * positions(one, top)).astype(int).tolist(),
        "detected": np.flatnonzero(one.detected[:size]).tolist(),
        "source": source_text(one),
        "changed": _changed(one),
    }


def _area_rows(found: AreaShares) -> list[dict[str, Any]]:
    """Of each area, what the table of the page shows."""
    columns = (found.areas.names, found.estimate, found.low, found.high, found.detected)
    return [
        {"name": name, "estimate": round(float(estimate), 6), "low": round(float(low), 6),
         "high": round(float(high), 6), "detected": bool(detected)}
        for name, estimate, low, high, detected in zip(*columns, strict=True)
    ]  # fmt: skip


def _changed(one: Density) -> dict[int, list[float]]:
    """Cells that differ from the other windows of a series: change, and its interval's ends."""
    if one.changes is None:
        return {}
    found = one.changes
    edges = np.stack([found.difference, found.low, found.high], axis=1).round(6)
    return {
        int(i): edges[i].tolist() for i in np.flatnonzero(one.changes.detected[: one.num_cells])
    }


def _called(maps: Sequence[Density], base: BaseLayer) -> dict[int, str]:
    """What the busiest cells of any map are called, by their index; those that would be called
    alike more finely."""
    one = maps[0]
    busiest = {int(i) for each in maps for i in np.argsort(-each.shares[: one.num_cells])[:BUSIEST]}
    grid, wide = one.places.grid, cell_km(one)
    centres = {i: cell_centre(grid, one.cells[i]) for i in sorted(busiest)}
    named = {i: place_name(centre, base, wide) for i, centre in centres.items()}
    alike = {name for name, times in Counter(named.values()).items() if times > 1}
    named |= {i: place_name(centres[i], base, wide, finely=True)
              for i, name in named.items() if name in alike}  # fmt: skip
    return {i: name for i, name in named.items() if name}
