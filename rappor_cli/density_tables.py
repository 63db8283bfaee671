"""Print tables of maps and their changes, for people, and rows for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from decoder.comparison.differences import Differences
from decoder.density.areas import AreaShares
from decoder.density.maps import Density
from decoder.grid_cells import cell_centre
from decoder.output.base_layer import BaseLayer, place_name
from decoder.output.density_text import (
    NOT_APART,
    cell_km,
    grouped_warnings,
    promise_text,
    visible_text,
    window_text,
)
from decoder.output.number_text import points_interval
from decoder.results.warnings import percent, points
from rappor_core.grid.box import RESERVED

_SHOWN = 10
_DETECTED = "≠ 0"  # eight columns less
NO_CHANGE = "not distinguishable from no change"


def print_json(maps: Sequence[Density]) -> None:
    """Print one row a map and cell."""
    from decoder.output.density_csv import density_table  # pyarrow takes a while

    print(json.dumps(density_table(maps).to_pylist(), default=str))


def print_maps(
    maps: Sequence[Density],
    tracked: str,
    base: BaseLayer | None = None,
) -> None:
    """Print the last map of each slot, changes, and what can be tracked."""
    console = Console()
    last = {one.location.slot: one for one in maps}
    for one in last.values():
        console.print(_table(one, base or BaseLayer()))
        console.print(Text(visible_text(one)))
    for warning in grouped_warnings(maps):
        console.print(Text.assemble(("note ", "yellow"), warning))
    if len(maps) > len(last):
        earlier = len(maps) - len(last)
        console.print(f"Maps of earlier windows, {earlier:,}, are in the files (-o) and in --json.")
    for one in last.values():
        if one.since_first is not None:
            console.print(_change_table(one, one.since_first))
    console.print(Text(promise_text(maps[0])))
    console.print(Text(tracked))


def print_areas(
    maps: Sequence[Density], shares: Sequence[AreaShares], notes: Sequence[str]
) -> None:
    """Print the shares of areas in the last map of each slot, and what has to be known of them."""
    console = Console()
    last = {one.location.slot: (one, found) for one, found in zip(maps, shares, strict=True)}
    for one, found in last.values():
        title = f"{one.location.slot}, {window_text(one)}: areas, of all answers"
        told = f"{NOT_APART} as one of {len(found.areas)}"
        table = _columns(title, ("area", "map", "estimate", "interval", _DETECTED), told)
        for i, name in enumerate(found.areas.names):
            low, high = (percent(float(edge[i])) for edge in (found.low, found.high))
            table.add_row(
                Text(name),
                percent(float(found.map_share[i])),
                percent(float(found.estimate[i])),
                f"{low.removesuffix(' %')} to {high}",
                "yes" if found.detected[i] else "no",
            )
        console.print(table)
    for note in notes:
        console.print(Text(note))


def _table(one: Density, base: BaseLayer) -> Table:
    """The largest of a map, in 80 columns."""
    which = ", ".join(filter(None, (one.location.slot, window_text(one))))
    title = f"{which}: {one.num_reports:,} reports"
    columns = ("cell", "place", "map", "in box", "estimate", "interval", _DETECTED)
    table = _columns(title, columns, f"{NOT_APART} as one of {one.num_cells:,}")
    order = sorted(range(len(one.cells)), key=lambda i: -float(one.shares[i]))
    for i in order[:_SHOWN]:
        low, high = (percent(float(edge[i])) for edge in (one.low, one.high))
        table.add_row(
            one.cells[i],
            Text(_place_text(one, one.cells[i], base)),
            percent(float(one.shares[i])),
            "" if one.cells[i] in RESERVED else percent(float(one.shares[i] / one.in_box)),
            percent(float(one.estimate[i])),
            f"{low.removesuffix(' %')} to {high}",
            "yes" if one.detected[i] else "no",
        )
    return table


def _columns(title: str, names: Sequence[str], what_no_means: str) -> Table:
    table = Table(title=Text(title), caption=Text(f"{_DETECTED} no: {what_no_means}"))
    for name in names:
        table.add_column(name, justify="left" if name == "cell" else "right", overflow="fold")
    return table


def _place_text(one: Density, cell: str, base: BaseLayer) -> str:
    """What a cell is called, or where its centre is."""
    if cell in RESERVED or one.places.pairs:
        return ""
    centre = cell_centre(one.places.grid, cell)
    return place_name(centre, base, cell_km(one)) or f"{centre[0]:.3f} {centre[1]:.3f}"


def _change_table(one: Density, found: Differences) -> Table:
    title = f"{one.location.slot}: change from the first window to the last, in points"
    table = _columns(title, ("cell", "change", "interval", _DETECTED), NO_CHANGE)
    for i in np.argsort(found.p_value, kind="stable")[:_SHOWN]:
        interval = points_interval(found.low[i], found.high[i])
        told = "yes" if found.detected[i] else "no"
        table.add_row(one.cells[i], points(found.difference[i]), interval, told)
    return table
