"""Scenarios for metrics of places: an hourly fix at one of two distant places, in all or in some
periods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from decoder.grid_cells import cell_centre
from privacy_audit.black_box.lives import NOTHING, Step, Value
from privacy_audit.black_box.scenario import Scenario, reports_text
from rappor_core.calendar import day_of, last_day, period_number
from rappor_core.grid.box import OTHER
from rappor_core.metrics.metric import Metric


def place_scenarios(metric: Metric) -> Iterator[Scenario]:
    """Yield the scenarios of a metric of places: two distant places, an hourly fix at one of
    them in every period.

    In mode `window` also a place or none at all, and one in either half of a block: whose reports
    these are, for who knows when there was data.
    """
    location = metric.location
    assert location is not None  # noqa: S101 (asked by the caller)
    places = _two_places(metric)
    if metric.max_reports == 1:
        periods, reports = len(location.slots), 1
    elif metric.spaced:  # with fresh turns: of one block
        periods, reports = location.window, 1
    else:
        periods, reports = 3, 3 * len(location.slots)
    days = _all_days(metric, periods)
    two = Scenario(
        f"two places, {reports_text(reports)}", metric.base_name, "device",
        (_at_place(days, places[0]), _at_place(days, places[1])), reports, (*places, places[0]),
        metric.params.epsilon_n(reports), expected=reports,
    )  # fmt: skip
    yield two
    if not metric.spaced:
        return
    values = places[0], metric.no_data or OTHER, places[1]
    here, nowhere = _at_place(days, places[0]), _at_place(days, NOTHING)
    yield replace(two, name="a place, or no fix, 1 report", worlds=(here, nowhere), values=values)
    start = period_number(metric.period, days[0])
    middle = last_day(metric.period, start + periods // 2 - 1) + 1
    half = sum(day < middle for day in days)
    yield replace(
        two, name="data in one half of a block or the other, 1 report", values=values,
        worlds=(here[:half] + nowhere[half:], nowhere[:half] + here[half:]), middle=middle,
    )  # fmt: skip


def a_life(metric: Metric, periods: int) -> tuple[Step, ...]:
    """A life with an hourly fix at one place, over whole blocks of fresh turns."""
    return _at_place(_all_days(metric, periods), _two_places(metric)[0])


def _two_places(metric: Metric) -> tuple[tuple[float, float], tuple[float, float]]:
    """Centres of the first and the last cell of the coarsest level."""
    location = metric.location
    assert location is not None  # noqa: S101 (asked by the caller)
    grid = location.grid
    cells = grid.cells(min(grid.levels))
    if len(cells) < 2:
        cells = grid.cells(grid.finest)
    return cell_centre(grid, cells[0]), cell_centre(grid, cells[-1])


def _all_days(metric: Metric, periods: int) -> list[int]:
    """Every day of so many whole periods, which are a block of fresh turns, and the day after."""
    last = period_number(metric.period, day_of(metric.expires)) - 2
    if metric.location is not None and metric.location.turn == "fresh":
        last -= (last + 1) % metric.location.window
    first = last_day(metric.period, last - periods) + 1
    return list(range(first, last_day(metric.period, last) + 2))


def _at_place(days: list[int], place: Value) -> tuple[Step, ...]:
    return (*((day, place) for day in days[:-1]), (days[-1], NOTHING))
