"""Lives at places: an hourly fix at one of two, far apart, in every period."""

from __future__ import annotations

from collections.abc import Iterator

from privacy_audit.black_box.lives import NOTHING, Step, Value
from privacy_audit.black_box.scenario import Scenario, reports_text
from rappor_core.calendar import day_of, last_day, period_number
from rappor_core.metrics.metric import Metric


def place_scenarios(metric: Metric) -> Iterator[Scenario]:
    """Two places far apart, an hourly fix at one of them in every period."""
    location = metric.location
    assert location is not None  # noqa: S101 (asked by the caller)
    places = _two_places(metric)
    if location.mode == "once":
        periods, reports = len(location.slots), 1
    elif location.mode == "window":  # with fresh turns: of one block
        periods, reports = location.window, 1
    else:
        periods, reports = 3, 3 * len(location.slots)
    days = _all_days(metric, periods)
    lives: dict[str, tuple[Value, Value]] = {"two places": places}
    if location.mode == "window":
        lives["a place, or no fix"] = places[0], NOTHING
    for name, (first, second) in lives.items():
        worlds = _at_place(days, first), _at_place(days, second)
        yield Scenario(
            f"{name}, {reports_text(reports)}", metric.base_name, "device", worlds,
            reports, (*places, places[0]), metric.params.epsilon_n(reports), expected=reports,
        )  # fmt: skip


def _two_places(metric: Metric) -> tuple[tuple[float, float], tuple[float, float]]:
    """Centres of the first and the last cell of the coarsest level."""
    location = metric.location
    assert location is not None  # noqa: S101 (asked by the caller)
    grid = location.grid
    cells = grid.cells(min(grid.levels))
    if len(cells) < 2:
        cells = grid.cells(grid.finest)
    return grid.centre(cells[0]), grid.centre(cells[-1])


def _all_days(metric: Metric, periods: int) -> list[int]:
    """Every day of so many whole periods, which are a block of fresh turns, and the day after."""
    last = period_number(metric.period, day_of(metric.expires)) - 2
    if metric.location is not None and metric.location.turn == "fresh":
        last -= (last + 1) % metric.location.window
    first = last_day(metric.period, last - periods) + 1
    return list(range(first, last_day(metric.period, last) + 2))


def _at_place(days: list[int], place: Value) -> tuple[Step, ...]:
    return (*((day, place) for day in days[:-1]), (days[-1], NOTHING))
