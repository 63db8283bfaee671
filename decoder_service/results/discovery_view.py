"""A discovery as its page shows it, from discovered.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from decoder.discovery.discovery import FoundString
from decoder.files import row_of
from decoder.output.discovery_files import string_id
from decoder.output.discovery_text import role, shown_string
from decoder.output.tables import TablePage, TableQuery, page_of


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
    rows = [row_of(FoundString, one) for one in found["found"]]
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
    rows = [row_of(FoundString, one) for one in json.loads(content)["found"]]
    return [
        row.string
        for row in rows
        if string_id(row) in wanted and row.whole and row.string.splitlines() == [row.string]
    ]
