"""Shares over time and differences of windows, from the files of results."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from decoder.output.svg import TimePlot, share_plot
from decoder.results.tables import short


@dataclass(frozen=True)
class ValuePanel:
    """A value over windows: share, low and high of each window, None where it was not found.

    smallest_p: corrected, of its changes; None where none was tested.
    """

    value: str
    plot: TimePlot
    windows: tuple[tuple[float, float, float] | None, ...]
    smallest_p: float | None


@dataclass(frozen=True)
class SeriesFile:
    """The content of series.json: rows of values and windows, and the tests of neighbouring
    windows.

    means: of each window, with their unit; of a metric of numbers alone.
    """

    rows: list[dict[str, Any]]
    changes: list[dict[str, Any]]
    means: list[dict[str, Any]]
    unit: str

    @property
    def windows(self) -> tuple[str, ...]:
        """Names of the windows, in order."""
        return tuple(dict.fromkeys(map(_window, self.rows)))

    @property
    def reports(self) -> tuple[int, ...]:
        """Number of reports of each window."""
        return tuple(int(n) for n in {_window(row): row["reports"] for row in self.rows}.values())


def parsed_series(content: bytes) -> SeriesFile:
    """Read series.json."""
    found = json.loads(content)
    return SeriesFile(
        found["rows"], found["changes"], found.get("means", []), found.get("unit", "")
    )


def panels_of(series: SeriesFile, most: int) -> tuple[tuple[str, ...], tuple[ValuePanel, ...]]:
    """Names of the windows, and a panel for each of the first values."""
    names = series.windows
    number = {name: i for i, name in enumerate(names)}
    by_value: dict[str, list[tuple[float, float, float] | None]] = {}
    for row in series.rows:
        known = by_value.setdefault(row["string"], [None] * len(names))
        known[number[_window(row)]] = (row["proportion"], row["low"], row["high"])
    smallest: dict[str, float] = {}
    for change in series.changes:
        value = change["string"]
        smallest[value] = min(smallest.get(value, 1.0), change["p_adjusted"])
    panels = [
        ValuePanel(short(value, 120), share_plot(known), tuple(known), smallest.get(value))
        for value, known in list(by_value.items())[:most]
    ]
    return names, tuple(panels)


def _window(row: dict[str, Any]) -> str:
    first, last = row["first_day"], row["last_day"]
    return str(first) if first == last else f"{first} to {last}"
