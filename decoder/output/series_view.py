"""The view of a series, from the content of results.json: for files and the service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from decoder.output.numbers_svg import edge_text
from decoder.output.svg import TimePlot, count_plot, share_plot
from decoder.tables.format import days, known, short
from decoder.tables.paging import TableQuery

MOST_PANELS = 24  # series.csv has all values
LONGEST = 120  # letters of a value on the page


@dataclass(frozen=True)
class ValuePanel:
    """A value over windows: share, low and high of each window, None where it was not found.

    smallest_p: corrected, of its changes; None where none was tested.
    """

    value: str
    plot: TimePlot
    windows: tuple[tuple[float, float, float] | None, ...]
    smallest_p: float | None


def series_view(content: Mapping[str, Any], query: TableQuery) -> dict[str, Any]:
    """The variables of `result_series.html.j2`.

    Args:
        content: of results.json: `windows`, `level`, `alpha`, `rows` and `changes`; of a metric of
            numbers `means` with their `unit`, too.
        query: text within the values to show.
    """
    windows = content["windows"]
    wanted = query.q.casefold()
    names = dict.fromkeys(row["string"] for row in content["rows"])
    matching = [name for name in names if wanted in name.casefold()]
    return {
        "panels": value_panels(content, matching[:MOST_PANELS]),
        "matching": len(matching),
        "names": window_names(content),
        "ends": (windows[0]["first_day"], windows[-1]["last_day"]),
        "reports": window_reports(content),
        "volume": count_plot(window_reports(content)),
        "level": f"{100 * content['level']:g} %",
        "alpha": content["alpha"],
        "warnings": content["warnings"],
        "reason": content["reason"],
        "means": content["means"],
        "unit": content["unit"],
        "known": known,
        "edge": edge_text,
    }


def latest(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """The value with the largest share in the last window, and its last change, for a list.

    Returns:
        string, level, its shares (None where it has none), and of its change from the window
        before difference, low, high and p_adjusted, if that was tested; None without values.
    """
    found, last = _shares(content), len(content["windows"]) - 1
    ranked = sorted(found, key=lambda value: -(found[value][last] or (-1.0,))[0])
    if not ranked:
        return None
    value = ranked[0]
    shares = [None if one is None else one[0] for one in found[value]]
    wanted = (value, last - 1, last)
    change: Mapping[str, Any] = next(
        (one for one in content["changes"]
         if (one["string"], one.get("first"), one.get("second")) == wanted), {}
    )  # fmt: skip
    names = ("difference", "low", "high", "p_adjusted")
    return {
        "string": value,
        "level": content["level"],
        "alpha": content["alpha"],
        "shares": shares,
        "change": {name: change[name] for name in names if name in change},
    }


def window_names(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The days of each window, oldest first."""
    return tuple(days(one["first_day"], one["last_day"]) for one in content["windows"])


def window_reports(content: Mapping[str, Any]) -> tuple[int, ...]:
    """The number of reports of each window, oldest first."""
    return tuple(int(one["reports"]) for one in content["windows"])


def value_panels(content: Mapping[str, Any], values: Sequence[str]) -> tuple[ValuePanel, ...]:
    """A panel for each of some values."""
    found = _shares(content)
    smallest: dict[str, float] = {}
    for change in content["changes"]:
        value = change["string"]
        smallest[value] = min(smallest.get(value, 1.0), change["p_adjusted"])
    return tuple(value_panel(value, found[value], smallest.get(value)) for value in values)


def value_panel(
    value: str,
    windows: Sequence[tuple[float, float, float] | None],
    smallest_p: float | None = None,
) -> ValuePanel:
    """A panel of shares and intervals. Arguments as in `ValuePanel`."""
    return ValuePanel(short(value, LONGEST), share_plot(windows), tuple(windows), smallest_p)


def _shares(content: Mapping[str, Any]) -> dict[str, list[tuple[float, float, float] | None]]:
    """Share, low and high of each value in each window."""
    number = {_days(one): i for i, one in enumerate(content["windows"])}
    found: dict[str, list[tuple[float, float, float] | None]] = {}
    for row in content["rows"]:
        shares = found.setdefault(row["string"], [None] * len(number))
        if row["proportion"] is not None:
            shares[number[_days(row)]] = (row["proportion"], row["low"], row["high"])
    return found


def _days(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["first_day"], one["last_day"]
