"""`Scenario`: two lives that an attacker must not tell apart better than a claim allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from privacy_audit.black_box.lives import Step, Value
from rappor_core.calendar import day_of, last_day, period_number
from rappor_core.metrics.metric import Metric

Box = Literal["encoder", "device"]
PERIODS = (1, 7, 30)
DEVICE_PERIODS = 7
GAPS = {"day": 61, "week": 9, "month": 2}  # periods from one report of a life to the next
TOGETHER = 5  # reports of a long life between two openings: opening is what costs most


@dataclass(frozen=True)
class Scenario:
    """Two possible lives (worlds) with one metric, and how far an attacker may tell them apart.

    worlds: what is recorded on which day.  by_cohort: the two values of each cohort in place of
        those in `worlds`, for pairs whose bits collide in every cohort.
    watched: the number of reports, the last ones, that are attacked.
    values: of the two worlds, and one that must not show.  claim: nats.  box: how much of the
        client is in it.  noise: whether its reports also serve the tests of the noise.
    together: reports of a device between two openings, at most.
    in_turn: every second watched report is of the other world's value.
    middle: a day from which on a report is of the other world's value; 0: none is.
    num_bits: of a report.
    renewed: the step from which on the app is one that declares other chances; 0: none.
    """

    name: str
    metric: str
    box: Box
    worlds: tuple[tuple[Step, ...], tuple[Step, ...]]
    watched: int
    values: tuple[Value, Value, Value]
    claim: float
    by_cohort: tuple[tuple[Value, Value], ...] = ()
    noise: bool = False
    expected: int = 0
    together: int = 1
    in_turn: bool = False
    middle: int = 0
    num_bits: int = 128
    renewed: int = 0


def start_days(metric: Metric, periods: int) -> list[int]:
    """The last day of each of some periods, all over before the metric expires."""
    last = period_number(metric.period, day_of(metric.expires)) - 1
    return [last_day(metric.period, last - back) for back in reversed(range(periods))]


def spaced_days(metric: Metric, periods: int, box: Box) -> list[int]:
    """Days as of `start_days`, but far apart, so that a response which changes with the month or
    year shows.

    Without gaps where a device sends something for the periods between.
    """
    filled = box != "encoder" and (metric.no_data is not None or metric.rules.collected)
    gap = 1 if filled else GAPS[metric.period]
    return start_days(metric, 1 + (periods - 1) * gap)[::gap]


def memoised(
    metric: Metric, box: Box, pair: tuple[Value, Value], periods: int, *, noise: bool = False
) -> Scenario:
    """Make a scenario in which each of the two lives has one value in all periods."""
    days = spaced_days(metric, periods, box)
    worlds = tuple((day, pair[0]) for day in days), tuple((day, pair[1]) for day in days)
    third = metric.fallback if metric.fallback is not None else pair[0]
    claim = metric.params.epsilon_n(periods)
    name = f"disjoint values, {reports_text(periods)}"
    return Scenario(
        name, metric.name, box, worlds, periods, (*pair, third), claim, noise=noise,
        expected=periods, together=TOGETHER if periods > DEVICE_PERIODS else 1,
        num_bits=metric.params.num_bits,
    )  # fmt: skip


def reports_text(number: int) -> str:
    """A number of reports, in words."""
    return "1 report" if number == 1 else f"{number} reports"
