"""Scenarios for metrics of flows: fixes at one of two places or none, in all or some periods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from decoder.grid_cells import cell_centre
from privacy_audit.black_box.lives import NOTHING, Step, Value
from privacy_audit.black_box.scenario import Scenario
from rappor_core.calendar import date_of, day_of, last_day, period_number
from rappor_core.grid.box import NO_DATA, OTHER
from rappor_core.grid.grid import PAIR_SEPARATOR
from rappor_core.metrics.flow import Flow
from rappor_core.metrics.metric import Metric

MOST_PERIODS = 40  # of a life that is watched
WEDNESDAY, SATURDAY = 2, 5


def cycle_of(flow: Flow) -> int:
    """Periods of which a device answers for one."""
    return flow.window or flow.spread


def periods_of(flow: Flow) -> int:
    """Periods that one answer takes, at most."""
    return cycle_of(flow) + flow.lag


def left_out_of_flows(metric: Metric) -> str:
    """The reason why lives of a flow are not tried; "" if they are."""
    periods = periods_of(metric.details)
    if periods > MOST_PERIODS:
        return f"devices were not audited: their one answer takes up to {periods} periods"
    return ""


def flow_scenarios(metric: Metric) -> Iterator[Scenario]:
    """Yield the scenarios of a metric of flows, each over as many periods as one answer takes:
    two places; a place or no fix; and data in one half of the periods or the other, for who
    knows when there was data."""
    if left_out_of_flows(metric):
        return
    flow: Flow = metric.details
    here, there = places_of_flow(flow)
    days, nothing = answer_days(metric, 1), f"{NO_DATA}{PAIR_SEPARATOR}{NO_DATA}"
    values = alone(flow, here), alone(flow, there), nothing
    two = Scenario(
        "two places, 1 report", metric.name, "device", (at(days, here), at(days, there)), 1, values,
        metric.epsilon_one, expected=1, noise=True, num_bits=metric.params.num_bits,
    )  # fmt: skip
    yield two
    silent, shown = at(days, NOTHING), at(days, here)
    told = values[0], nothing, values[1]
    yield replace(two, name="a place, or no fix, 1 report", worlds=(shown, silent), values=told,
                  noise=False)  # fmt: skip
    if cycle_of(flow) < 2:
        return
    first = period_number(metric.period, days[0])
    middle = last_day(metric.period, first + cycle_of(flow) // 2 - 1) + 1
    half = sum(day < middle for day in days)
    yield replace(
        two, name="data in one half of the periods or the other, 1 report", values=told,
        worlds=(shown[:half] + silent[half:], silent[:half] + shown[half:]), noise=False,
        middle=0 if flow.lag else middle,
    )  # fmt: skip


def places_of_flow(flow: Flow) -> tuple[tuple[float, float], tuple[float, float]]:
    """Centres of the first and the last cell."""
    return cell_centre(flow.grid, flow.cells[0]), cell_centre(flow.grid, flow.cells[-1])


def alone(flow: Flow, place: tuple[float, float]) -> str:
    """The answer of a device that is at one place in both slots."""
    cell = flow.grid.place(*place, flow.grid.finest)
    return f"{cell}{PAIR_SEPARATOR}{cell}"


def values_of_flow(flow: Flow) -> tuple[Value, ...]:
    """Some pairs as text, the reserved values among them."""
    first, last = flow.cells[0], flow.cells[-1]
    sides = (first, last, OTHER, NO_DATA)
    return tuple(f"{a}{PAIR_SEPARATOR}{b}" for a in sides for b in sides)


def answer_days(metric: Metric, answers: int) -> list[int]:
    """Days of a life in which a device gives so many answers, and the day after.

    Whole blocks of mode `window`; a Wednesday and a Saturday of each week or month.
    """
    flow: Flow = metric.details
    periods = answers * cycle_of(flow)
    last = period_number(metric.period, day_of(metric.expires)) - 2 - flow.lag
    if flow.window:
        last -= (last + 1) % flow.window
    found = [day for period in range(last - periods + 1, last + flow.lag + 1)
             for day in _days_in(metric.period, period)]  # fmt: skip
    return [*found, last_day(metric.period, last + flow.lag) + 1]


def _days_in(unit: str, period: int) -> list[int]:
    days = range(last_day(unit, period - 1) + 1, last_day(unit, period) + 1)
    if len(days) == 1:
        return list(days)
    wanted = [next(day for day in days if date_of(day).weekday() == weekday)
              for weekday in (WEDNESDAY, SATURDAY)]  # fmt: skip
    return sorted(wanted)


def at(days: list[int], place: Value) -> tuple[Step, ...]:
    """A life with fixes at one place, or none, that ends with a look at the clock."""
    return (*((day, place) for day in days[:-1]), (days[-1], NOTHING))
