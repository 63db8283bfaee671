"""Tables of maps and their changes, for people, and rows for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from decoder.advice import percent
from decoder.change import Change
from decoder.density import Density
from decoder.density_words import NOT_APART, visible_text
from rappor_core.grid import OTHER

_SHOWN = 10


def print_json(maps: Sequence[Density]) -> None:
    """Print one row a map and cell."""
    from decoder.density_files import density_table  # pyarrow takes a while

    print(json.dumps(density_table(maps).to_pylist(), default=str))


def print_maps(maps: Sequence[Density], changes: dict[str, Change], tracked: str) -> None:
    """Print the last map of each slot, changes, and what can be tracked."""
    console = Console()
    last = {one.location.slot: one for one in maps}
    for one in last.values():
        console.print(_table(one))
        console.print(Text(visible_text(one)))
        for warning in one.warnings:
            console.print(Text.assemble(("note ", "yellow"), warning))
    if len(maps) > len(last):
        earlier = len(maps) - len(last)
        console.print(f"{earlier:,} maps of earlier windows are in the files (-o) and in --json.")
    for slot, found in changes.items():
        console.print(_change_table(slot, found))
    console.print(Text(tracked))


def _table(one: Density) -> Table:
    slot = one.location.slot
    days = "" if one.first_day is None else f", {one.first_day} to {one.last_day}"
    table = Table(title=Text(f"{slot}{days}: {one.num_reports:,} reports"))
    for name in ("cell", "centre", "map", "estimate", "interval", ""):
        table.add_column(name, justify="left" if name in ("cell", "") else "right", overflow="fold")
    order = sorted(range(len(one.cells)), key=lambda i: -float(one.shares[i]))
    for i in order[:_SHOWN]:
        interval = f"{percent(float(one.low[i]))} to {percent(float(one.high[i]))}"
        table.add_row(
            one.cells[i],
            _centre_text(one, one.cells[i]),
            percent(float(one.shares[i])),
            percent(float(one.estimate[i])),
            interval,
            "" if one.visible[i] else NOT_APART,
        )
    return table


def _centre_text(one: Density, cell: str) -> str:
    if cell == OTHER or one.places.pairs:
        return ""
    latitude, longitude = one.places.grid.centre(cell)
    return f"{latitude:.3f} {longitude:.3f}"


def _change_table(slot: str, found: Change) -> Table:
    table = Table(title=Text(
        f"{slot}: change from the first window to the last, at most {percent(found.movers)} of "
        "devices with new answers"
    ))  # fmt: skip
    for name in ("cell", "change", "interval", ""):
        table.add_column(name, justify="left" if name in ("cell", "") else "right", overflow="fold")
    order = sorted(range(len(found.cells)), key=lambda i: float(found.p_value[i]))
    for i in order[:_SHOWN]:
        interval = f"{found.low[i]:+.2%} to {found.high[i]:+.2%}"
        told = "" if found.detected[i] else "not distinguishable from no change"
        table.add_row(found.cells[i], f"{found.difference[i]:+.2%}", interval, told)
    return table
