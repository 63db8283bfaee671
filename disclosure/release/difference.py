"""The differences between two releases, for the person who approves the new release."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from disclosure.release.build import Release
from disclosure.release.tables import ReleasedTable, Row, table_name

Change = Literal[
    "new table", "table gone", "new rows", "rows gone",
    "new", "gone", "changed", "shown now", "hidden now",
]  # fmt: skip
IN_ROWS = "synthetic rows"


@dataclass(frozen=True)
class Difference:
    """A change in one row, or in a whole table or its synthetic rows (`cell` is "")."""

    change: Change
    table: str
    cell: str
    before: str  # Numbers or the symbol, as text
    after: str


def compare_releases(old: Release, new: Release) -> list[Difference]:
    """List the rows that the new release adds, changes and drops, in its order; drops come last."""
    before = {table.key: table for table in old.tables}
    after = {table.key: table for table in new.tables}
    changes: list[Difference] = []
    for key, table in after.items():
        if key in before:
            changes += _changed_rows(before[key], table)
        else:
            changes.append(Difference("new table", table.name, "", "", _size(table)))
    for key, table in before.items():
        if key not in after:
            changes.append(Difference("table gone", table.name, "", _size(table), ""))
    changes += [Difference("new rows", name, "", "", IN_ROWS) for name in _in_rows(new, old)]
    changes += [Difference("rows gone", name, "", IN_ROWS, "") for name in _in_rows(old, new)]
    return changes


def _in_rows(release: Release, other: Release) -> list[str]:
    rows = (row for row in release.rows if row not in other.rows)
    return [table_name((row.metric, (), row.first_day, row.last_day)) for row in rows]


def policy_changes(old: Release, new: Release) -> dict[str, tuple[object, object]]:
    """Return the policy keys that differ, with the old and the new value."""
    first, second = old.policy.to_dict(), new.policy.to_dict()
    return {
        name: (first.get(name), second.get(name))
        for name in second | first
        if first.get(name) != second.get(name)
    }


def _size(table: ReleasedTable) -> str:
    if table.reports is None:
        return f"withheld ({table.withheld})"
    return f"{int(table.is_shown.sum())} shown of {len(table.cells)}, {table.reports:,} reports"


def _changed_rows(old: ReleasedTable, new: ReleasedTable) -> Iterator[Difference]:
    if (old.reports, old.withheld) != (new.reports, new.withheld):
        yield Difference("changed", new.name, "", _size(old), _size(new))
    before, after = old.rows(), new.rows()
    texts = {cell: _text(row) for cell, row in before.items()}
    for cell, row in after.items():
        text, was_hidden = _text(row), cell in before and before[cell].symbol
        if cell not in before:
            yield Difference("new", new.name, cell, "", text)
        elif texts[cell] != text:
            change: Change = "changed"
            if bool(was_hidden) != bool(row.symbol):
                change = "shown now" if was_hidden else "hidden now"
            yield Difference(change, new.name, cell, texts[cell], text)
    for cell in sorted(before.keys() - after.keys()):
        yield Difference("gone", new.name, cell, texts[cell], "")


def _text(row: Row) -> str:
    return row.symbol or (
        f"{row.estimate:.12g} ({row.low:.12g} to {row.high:.12g}, error {row.std_error:.12g})"
    )
