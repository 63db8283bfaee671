"""Ways to spend one lifetime budget on the places of riders: what is declared for each."""

from __future__ import annotations

from dataclasses import dataclass

from rappor_core.metrics.file import MetricsFile, parse_metrics
from rappor_core.metrics.metric import Metric

NAME = "riders"
SECOND_DIAL = 0.9  # epsilon_one over epsilon_infinity
_FILTER = "num_bits = 32\nnum_cohorts = 64\n"
_DECLARATION = """
[metrics.riders]
kind = "location"
description = "The usual place of a month"
owner = "simulation@example.org"
expires = 2099-12-31
grid = "quadkey"
box = [42.0, -72.8, 42.5, -72.4]
levels = [{level}]
period = "{period}"
"""


@dataclass(frozen=True)
class Way:
    """One way to spend a lifetime budget (nats): what is declared for it."""

    name: str
    keys: str

    def metrics(self, level: int, period: str) -> MetricsFile:
        """The metrics file of this way."""
        return parse_metrics(_DECLARATION.format(level=level, period=period) + self.keys)

    def metric(self, level: int, period: str) -> Metric:
        """The one sub-metric that it declares."""
        (metric,) = self.metrics(level, period).declared
        return metric


def ways(budget: float, num_periods: int) -> list[Way]:
    """Ways to spend a budget (nats) for life, over so many periods. A cap counts `other`."""
    window = max(num_periods, 2)
    return [
        _filters("l-osue", 2, budget),
        _filters("l-osue", 3, budget),
        _filters("l-osue", 4, budget),
        _filters("l-sue", 4, budget),
        Way(
            "memo, LOLOHA, 2 symbols",
            'mode = "memo"\nencoding = "symbol"\nnum_symbols = 2\nnum_cohorts = 64\n'
            + _dials(budget / 2),
        ),
        Way(
            "window",
            f'{_FILTER}mode = "window"\nwindow = {window}\nmax_reports = 1\nepsilon = {budget}\n',
        ),
        Way("once", f'{_FILTER}mode = "once"\nepsilon = {budget}\n'),
    ]


def splitting(budget: float, num_periods: int) -> Way:
    """A fresh report every period, each with its part of the budget: what memoisation replaces.

    Declared as `once`, for its one-shot mechanism; devices report every period all the same.
    """
    return Way("splitting over time", f'{_FILTER}mode = "once"\nepsilon = {budget / num_periods}\n')


def _filters(mechanism: str, cap: int, budget: float) -> Way:
    keys = f'mode = "memo"\nmechanism = "{mechanism}"\nmax_memoized_values = {cap}\n'
    return Way(f"memo, {mechanism.upper()}, cap {cap}", _FILTER + keys + _dials(budget / cap))


def _dials(epsilon: float) -> str:
    return f"epsilon_infinity = {epsilon}\nepsilon_one = {SECOND_DIAL * epsilon}\n"
