"""The view of a discovery, from discovered.json: for discovery.html and the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from decoder.discovery.discovery import FoundString
from decoder.files import row_of
from decoder.output.discovery_text import role, shown_string
from decoder.tables.paging import TablePage, TableQuery, page_of


@dataclass(frozen=True)
class DiscoveredRow:
    """A string that was found, fit to be shown. id: stands for it in a form.

    role: what else the row says of it, in brackets, or nothing.
    """

    id: str
    text: str
    role: str
    row: FoundString


def discovery_view(found: Mapping[str, Any], query: TableQuery) -> dict[str, Any]:
    """The variables of `result_discover.html.j2`.

    Args:
        found: content of discovered.json.
        query: the rows to show; the order is theirs, largest share first.
    """
    rows = [(one["id"], row_of(FoundString, one)) for one in found["found"]]
    shown = [{"string": shown_string(row), "id": name, "row": row} for name, row in rows]
    page = page_of(shown, "string", TableQuery(q=query.q, page=query.page, rows=query.rows))
    listed = [DiscoveredRow(one["id"], one["string"], role(one["row"]), one["row"])
              for one in page.rows]  # fmt: skip
    return {
        "found": found,
        "table": TablePage(listed, page.matching, page.total, page.query),
        "level": f"{100 * found['options']['level']:g} %",
        "alpha": f"{100 * found['options']['alpha']:g} %",
    }
