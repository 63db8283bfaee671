"""Numbers, pairs and discoveries as pages show them, from the files of results."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

from decoder.discovery.discovery import FoundString
from decoder.numbers.tables import Bin, CurvePoint
from decoder.output.discovery_files import string_id
from decoder.output.discovery_text import role, shown_string
from decoder.output.number_text import known
from decoder.output.numbers_html import OF_PERIOD
from decoder.output.numbers_svg import bins_plots, curve_plots, edge_text
from decoder_service.shell.tables import TablePage, TableQuery, page_of

MOST_SIDE = 20  # values of each side of a heat map
Row = TypeVar("Row")


def number(content: bytes) -> dict[str, Any]:
    """What the template of a number is filled with. content: results.json."""
    found = json.loads(content)
    points = [_row(CurvePoint, one) for one in found["curve"]]
    bins = [_row(Bin, one) for one in found["bins"]]
    return {
        "found": found,
        "curve": curve_plots(points) if points else (),
        "bins": bins_plots(bins) if points else (),
        "edge": _edge,
        "known": known,
        "of_period": OF_PERIOD.get(found["of_period"], found["of_period"]),
        "level": f"{100 * found['level']:g} %",
    }


def _edge(value: float | None) -> str:
    return "open" if value is None else edge_text(value)


def _row(kind: type[Row], given: Mapping[str, Any]) -> Row:
    """A row of a file; what JSON has no number for is NaN, but for open edges.

    Columns with a default may be missing: files of earlier versions lack them.
    """
    edges = ("lower", "upper")
    values = {
        one.name: given[one.name]
        for one in fields(kind)  # type: ignore[arg-type]
        if one.default is MISSING or one.name in given
    }
    return kind(**{name: math.nan if value is None and name not in edges else value
                   for name, value in values.items()})  # fmt: skip


@dataclass(frozen=True)
class HeatSquare:
    """A cell of a heat map. strength: 0 to 9, of its share within its row; told: from zero."""

    strength: int
    told: bool
    text: str
    title: str


@dataclass(frozen=True)
class Heat:
    """Shares within rows, as a table that is coloured."""

    rows: tuple[tuple[str, tuple[HeatSquare, ...]], ...]
    columns: tuple[str, ...]
    hidden: bool


def pair(content: bytes, query: TableQuery) -> dict[str, Any]:
    """What the template of a pair is filled with. content: results.json."""
    found = json.loads(content)
    cells = [one | {"pair": f"{one['first']}, {one['second']}"} for one in found["cells"]]
    cells.sort(key=lambda one: -one["fitted"])
    return {
        "found": found,
        "heat": _heat(found["cells"], "fitted" if found["independence"]["refuted"] else "shrunk"),
        "table": page_of(cells, "pair", query),
        "margins": _margins(found),
        "level": f"{100 * found['level']:g} %",
    }


def _heat(cells: Sequence[Mapping[str, Any]], which: str) -> Heat:
    sums: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for one in cells:
        for side, name in enumerate(("first", "second")):
            sums[side][one[name]] = sums[side].get(one[name], 0.0) + one[which]
    rows, columns = (
        [value for value in side if value in sorted(side, key=lambda v: -side[v])[:MOST_SIDE]]
        for side in sums
    )
    at = {(one["first"], one["second"]): one for one in cells}
    shares = {place: one[which] / max(sums[0][place[0]], 1e-12) for place, one in at.items()}
    top = max((shares[r, c] for r in rows for c in columns), default=1.0) or 1.0
    made = tuple(
        (row, tuple(_square(at[row, column], shares[row, column], top) for column in columns))
        for row in rows
    )
    return Heat(made, tuple(columns), max(len(side) for side in sums) > MOST_SIDE)


def _square(one: Mapping[str, Any], share: float, top: float) -> HeatSquare:
    low, high = one["low"], one["high"]
    title = f"{100 * low:.1f} to {100 * high:.1f} % of all reports"
    strength = min(9, int(10 * math.sqrt(max(share, 0.0) / top)))
    return HeatSquare(strength, low > 0, f"{100 * share:.0f}", title)


def _margins(found: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    return [
        (name, sorted((one for one in found["margins"] if one["side"] == name),
                      key=lambda one: -one["estimate"])[:MOST_SIDE])
        for name in found["of"]
    ]  # fmt: skip


@dataclass(frozen=True)
class DiscoveredRow:
    """A string that was found, fit to be shown. id: stands for it in a form.

    role: what else the row says of it, in brackets, or nothing.
    """

    id: str
    text: str
    role: str
    row: FoundString


def discover(content: bytes, query: TableQuery) -> dict[str, Any]:
    """What the template of a discovery is filled with. content: discovered.json."""
    found = json.loads(content)
    rows = [_row(FoundString, one) for one in found["found"]]
    shown = [{"string": shown_string(row), "row": row} for row in rows]
    page = page_of(shown, "string", TableQuery(q=query.q, page=query.page, rows=query.rows))
    listed = [
        DiscoveredRow(string_id(one["row"]), one["string"], role(one["row"]), one["row"])
        for one in page.rows
    ]
    return {
        "found": found,
        "table": TablePage(listed, page.matching, page.total, page.query),
        "level": f"{100 * found['options']['level']:g} %",
        "alpha": f"{100 * found['options']['alpha']:g} %",
    }


def approved(content: bytes, ids: Sequence[str]) -> list[str]:
    """The strings of some ids that fit a list: whole, and on one line."""
    wanted = set(ids)
    rows = [_row(FoundString, one) for one in json.loads(content)["found"]]
    return [
        row.string
        for row in rows
        if string_id(row) in wanted and row.whole and row.string.splitlines() == [row.string]
    ]
