"""Report counts by period: conversion between units, and compact storage of past periods.

A limit must hold regardless of clock changes and of the unit in later versions. So counts of past
periods are never dropped. Periods far from the present are marked as used up, in ranges. Counts in
another unit are carried over to every period of the new unit to which they may belong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rappor_core.calendar import last_day, period_number

if TYPE_CHECKING:
    import sqlite3

KEPT_PERIODS = 64  # per metric, with counts; far more than can still be reported
SPARE_PERIODS = 32  # the excess over KEPT_PERIODS before the most distant periods are marked

# The maximum number of periods of the second unit that share days with one period of the first.
MAX_TOUCHED = {
    "day": {"day": 1, "week": 1, "month": 1},
    "week": {"day": 7, "week": 1, "month": 2},
    "month": {"day": 31, "week": 6, "month": 1},
}


class Periods:
    """A compact set of period numbers that are permanently used up, stored as ranges."""

    MAX_RUNS = 256

    __slots__ = ("_runs",)

    def __init__(self, runs: Iterable[Iterable[int]] = ()) -> None:
        self._runs: list[list[int]] = [list(run) for run in runs]

    def __contains__(self, period: int) -> bool:
        """Return whether a period was added, or is in a gap that was filled to save space."""
        return any(first <= period <= last for first, last in self._runs)

    def add(self, first: int, last: int | None = None) -> None:
        """Add a period, or all periods from `first` to `last`.

        Beyond 256 ranges, the narrowest gap between ranges is filled, so that a period may be
        refused but never counted twice.
        """
        last = first if last is None else last
        if any(low <= first and last <= high for low, high in self._runs):
            return
        runs = sorted([*self._runs, [first, last]])
        merged = [runs[0]]
        for low, high in runs[1:]:
            if low <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], high)
            else:
                merged.append([low, high])
        if len(merged) > self.MAX_RUNS:
            at = min(range(len(merged) - 1), key=lambda i: merged[i + 1][0] - merged[i][1])
            merged[at : at + 2] = [[merged[at][0], merged[at + 1][1]]]
        self._runs = merged

    def runs(self) -> list[Any]:
        """Return the ranges, as plain values to store in the state."""
        return self._runs


def touched(unit: str, number: int, new: str) -> range:
    """Return the periods of unit `new` that share a day with period `number` of `unit`."""
    first = max(0, last_day(unit, number - 1) + 1)
    return range(period_number(new, first), period_number(new, last_day(unit, number)) + 1)


def carried(counts: Mapping[int, int], unit: str, new: str) -> dict[int, int]:
    """Convert counts by period of `unit` to upper bounds by period of unit `new`.

    A report counts in every period in which it may have been made, because it is safer to be too
    strict than to allow a report twice.
    """
    result: dict[int, int] = {}
    for number, reports in counts.items():
        for period in touched(unit, number, new):
            result[period] = result.get(period, 0) + reports
    return result


def use_up(database: sqlite3.Connection, name: str, present: int) -> None:
    """Mark periods far from the present one as used up, if there are too many.

    The 64 nearest periods keep their counts. Call this function in a transaction.
    """
    query = "SELECT period FROM periods WHERE metric = ? AND period >= 0"
    numbers = [number for (number,) in database.execute(query, (name,))]
    if len(numbers) <= KEPT_PERIODS + SPARE_PERIODS:
        return
    far = sorted(numbers, key=lambda number: abs(number - present))[KEPT_PERIODS:]
    used = _used_up(database, name)
    for number in far:
        used.add(number)
    _put(database, name, used)
    database.executemany(
        "DELETE FROM periods WHERE metric = ? AND period = ?", [(name, number) for number in far]
    )


def change_unit(database: sqlite3.Connection, name: str, unit: str, new: str) -> None:
    """Convert a metric's stored counts from periods of `unit` to `new`, in a transaction."""
    query = "SELECT period, reports FROM periods WHERE metric = ? AND period >= 0"
    counts = carried(dict(database.execute(query, (name,)).fetchall()), unit, new)
    used = Periods()
    for first, last in _used_up(database, name).runs():
        used.add(touched(unit, first, new)[0], touched(unit, last, new)[-1])
    _put(database, name, used)
    database.execute("DELETE FROM periods WHERE metric = ? AND period >= 0", (name,))
    database.executemany(
        "INSERT INTO periods VALUES (?, ?, ?)", [(name, *pair) for pair in counts.items()]
    )


def _used_up(database: sqlite3.Connection, name: str) -> Periods:
    query = "SELECT first, last FROM used_up WHERE metric = ? ORDER BY first"
    return Periods(database.execute(query, (name,)).fetchall())


def _put(database: sqlite3.Connection, name: str, used: Periods) -> None:
    database.execute("DELETE FROM used_up WHERE metric = ?", (name,))
    database.executemany(
        "INSERT INTO used_up VALUES (?, ?, ?)", [(name, *run) for run in used.runs()]
    )
