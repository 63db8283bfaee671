"""Metrics for experiments with places: ways to spend one lifetime budget, and square grids."""

from __future__ import annotations

from dataclasses import dataclass

from decoder.density.modes import SECOND_DIAL
from rappor_core.metrics.file import MetricsFile, parse_metrics
from rappor_core.metrics.metric import Metric

NAME = "riders"
COHORTS = 64
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
_SQUARE = """
[metrics.places]
kind = "location"
description = "The usual place"
owner = "maps@example.org"
expires = 2099-12-31
grid = "square"
box = [0, 0, 8, 8]
rows = {side}
columns = {side}
levels = [0]
"""


@dataclass(frozen=True)
class Way:
    """A way to spend a lifetime budget (nats), as a declared metric."""

    name: str
    keys: str

    def metrics(self, level: int, period: str) -> MetricsFile:
        """The metrics file of this way."""
        return parse_metrics(self.text(level, period))

    def text(self, level: int, period: str) -> str:
        """The text of that file."""
        return _DECLARATION.format(level=level, period=period) + self.keys

    def metric(self, level: int, period: str) -> Metric:
        """The location metric that this way declares, for one level."""
        (metric,) = self.metrics(level, period).declared
        return metric


def ways(budget: float, num_periods: int) -> list[Way]:
    """All compared ways to spend a lifetime budget (nats) over some periods. A cap counts
    `other`."""
    return [
        _filters("l-osue", 2, budget),
        _filters("l-osue", 3, budget),
        _filters("l-osue", 4, budget),
        _filters("l-sue", 4, budget),
        _symbols(2, budget),
        _window(num_periods, budget),
        Way("once", f'{_bits()}mode = "once"\nepsilon = {budget}\n'),
    ]


def splitting(budget: float, num_periods: int) -> Way:
    """The way that splits the budget over fresh reports in every period, which memoisation
    replaces.

    Declared as `once`, for its one-shot mechanism; devices report every period all the same.
    """
    return Way("splitting over time", f'{_bits()}mode = "once"\nepsilon = {budget / num_periods}\n')


def square_metric(side: int, keys: str) -> Metric:
    """A location metric of side * side cells; `keys`: further keys of its declaration."""
    (metric,) = parse_metrics(_SQUARE.format(side=side) + keys).parts("places")
    return metric


def _filters(mechanism: str, cap: int, budget: float) -> Way:
    keys = f'mode = "memo"\nmechanism = "{mechanism}"\nmax_memoized_values = {cap}\n'
    return Way(f"memo, {mechanism.upper()}, cap {cap}", _bits() + keys + _dials(budget / cap))


def _symbols(number: int, budget: float) -> Way:
    keys = f'mode = "memo"\nencoding = "symbol"\nnum_symbols = {number}\n'
    keys += f"num_cohorts = {COHORTS}\n"
    return Way(f"memo, LOLOHA, {number} symbols", keys + _dials(budget / number))


def _window(num_periods: int, budget: float) -> Way:
    keys = f'mode = "window"\nwindow = {max(num_periods, 2)}\nmax_reports = 1\n'
    return Way("window", f"{_bits()}{keys}epsilon = {budget}\n")


def _bits() -> str:
    return f"num_bits = 32\nnum_cohorts = {COHORTS}\n"


def _dials(epsilon: float) -> str:
    return f"epsilon_infinity = {epsilon}\nepsilon_one = {SECOND_DIAL * epsilon}\n"
