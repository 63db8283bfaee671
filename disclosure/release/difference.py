"""The differences between two releases, for the person who approves the new one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from disclosure.release.build import Release
from disclosure.release.tables import ReleasedTable, TableKey, table_name

Change = Literal[
    "new table", "table gone", "new rows", "rows gone",
    "new", "gone", "changed", "shown now", "hidden now",
]  # fmt: skip
IN_ROWS = "synthetic rows"
Row: TypeAlias = tuple[float, float, float, float, str]


@dataclass(frozen=True)
class Difference:
    """A change of one row, or of a whole table or its synthetic rows (`cell` is "").

    before, after: numbers or the symbol, as text.
    """

    change: Change
    table: str
    cell: str
    before: str
    after: str


def compare_releases(old: Release, new: Release) -> list[Difference]:
    """List what the new release adds, changes and drops, in its order; dropped rows come last."""
    before = {table.key: table for table in old.tables}
    after = {table.key: table for table in new.tables}
    found: list[Difference] = []
    for key, table in after.items():
        if key in before:
            found += _rows(before[key], table)
        else:
            found.append(Difference("new table", table.name, "", "", _size(table)))
    gone: list[TableKey] = [key for key in before if key not in after]
    found += [Difference("table gone", table_name(key), "", _size(before[key]), "") for key in gone]
    found += [Difference("new rows", name, "", "", IN_ROWS) for name in _in_rows(new, old)]
    return [
        *found,
        *(Difference("rows gone", name, "", IN_ROWS, "") for name in _in_rows(old, new)),
    ]


def _in_rows(release: Release, other: Release) -> list[str]:
    """What a release has in synthetic rows, and the other one has not."""
    rows = (one for one in release.rows if one not in other.rows)
    return [table_name((one.metric, (), one.first_day, one.last_day)) for one in rows]


def policy_changes(old: Release, new: Release) -> dict[str, tuple[object, object]]:
    """The keys of the policy that differ, with old and new value."""
    first, second = old.policy.to_dict(), new.policy.to_dict()
    return {
        name: (first.get(name), second.get(name))
        for name in second | first
        if first.get(name) != second.get(name)
    }


def _size(table: ReleasedTable) -> str:
    if table.reports is None:
        return f"withheld ({table.withheld})"
    return f"{int(table.is_shown.sum())} shown of {len(table.cells)}, {table.reports} reports"


def _rows(old: ReleasedTable, new: ReleasedTable) -> Iterator[Difference]:
    if (old.reports, old.withheld) != (new.reports, new.withheld):
        yield Difference("changed", new.name, "", _size(old), _size(new))
    before, after = dict(_cells(old)), dict(_cells(new))
    for cell, row in after.items():
        if cell not in before:
            yield Difference("new", new.name, cell, "", _text(row))
        elif _text(before[cell]) != _text(row):
            yield Difference(_kind(before[cell], row), new.name, cell, _text(before[cell]),
                             _text(row))  # fmt: skip
    for cell in sorted(before.keys() - after.keys()):
        yield Difference("gone", new.name, cell, _text(before[cell]), "")


def _cells(table: ReleasedTable) -> Iterator[tuple[str, Row]]:
    arrays = (table.estimate, table.std_error, table.low, table.high)
    columns = (array.tolist() for array in arrays)
    for cell, *numbers, symbol in zip(table.cells, *columns, table.symbols, strict=True):
        estimate, error, low, high = numbers
        yield cell, (estimate, error, low, high, symbol)


def _kind(old: Row, new: Row) -> Change:
    if old[4] and not new[4]:
        return "shown now"
    return "hidden now" if new[4] and not old[4] else "changed"


def _text(row: Row) -> str:
    estimate, error, low, high, symbol = row
    return symbol or f"{estimate:.12g} +- {error:.12g} [{low:.12g}, {high:.12g}]"
