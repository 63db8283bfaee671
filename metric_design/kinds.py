"""Kinds of metric before they ship: what a reviewer should know, how they are planned, and what
typed accessors take.

A new kind that the TypeScript client has, that `rappor plan` plans, or of which `rappor metrics
check` has something to say, is a subclass of `KindDesign`, its instance `KIND`, and a line in
`_HOMES` (its module). None of it is needed on a device. A kind without an entry has no findings, is
not planned, and is in no TypeScript client.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal

from rappor_core.metrics.metric import Metric
from rappor_core.risk import CROWD, cohorts_affordable

Level = Literal["error", "warning", "note"]
LISTED = "string", "category", "boolean"  # planned from a list of candidates


class KindDesign:
    """The review, the plan and the typed accessors of the metrics of one kind, before they ship.

    name: as in `metrics.toml`.  part: the module of the TypeScript client with the kind, which
    exports a function of the same name; "" where its core has the kind.

    A kind is planned if `asks` is set. Its planning methods may load numerical libraries, which the
    review does without.

    asks: the key by which a question states the precision wanted; None if the kind is not planned.
    asks_periods: whether a plan takes the number of periods that are to be mapped.
    usual: keys of `metrics.toml` where a question does not say.
    """

    name: str
    part = ""
    asks: Literal["error", "share"] | None = None
    asks_periods = False
    usual: Mapping[str, Any] = {}

    def findings(self, metric: Metric, population: int | None) -> Iterator[tuple[Level, str]]:  # noqa: ARG002
        """Levels and messages for `rappor metrics check`.

        population: devices that report in a period, where it is known.
        """
        return iter(())

    def turns(self, metric: Metric) -> int:  # noqa: ARG002
        """Over how many groups and periods the reports of devices are spread: a series has so many
        times fewer in a period."""
        return 1

    def designs(
        self, given: Mapping[str, Any], epsilon: float, devices: int, periods: int
    ) -> Iterator[Mapping[str, Any]]:
        """Yield ways to fill in a table of `metrics.toml`; the first of equally precise ones wins.

        Args:
            given: keys that are decided, the usual ones among them; a design does not change them.
            epsilon: for life, in nats.
            devices: that report.
            periods: of which a map each is wanted.
        """
        raise NotImplementedError

    def precision(self, metric: Metric, devices: float) -> float:
        """Predict the metric's error, in the unit of `asks`; less is better.

        This is the predictor of `rappor metrics check`: a plan has none of its own.
        """
        raise NotImplementedError

    def finding(self, metric: Metric, precision: float) -> str:
        """Say what an analyst finds at a precision, as words that follow "you"."""
        raise NotImplementedError

    def supposed(self, metric: Metric) -> str:
        """Name the shape of the data for which the error is predicted, to follow "Supposed:"."""
        raise NotImplementedError

    def value_type(self, metric: Metric) -> str:
        """The TypeScript type of what a metric takes: its values where they are listed."""
        return union(metric.rules.all_values(metric)) or "string"

    def python_type(self, metric: Metric) -> str:
        """The Python type of what a metric takes: its values where they are listed."""
        return literal(metric.rules.all_values(metric)) or "str"

    def examples(self, metric: Metric) -> Sequence[Hashable]:
        """Values that devices of an invented fleet hold, the most frequent first."""
        listed = [value for value in metric.rules.all_values(metric) if isinstance(value, Hashable)]
        return listed or [f"{metric.base_name}-{number}" for number in range(1, 9)]

    def adds(self, metric: Metric) -> bool:  # noqa: ARG002
        """Whether an app adds to the value of a period."""
        return False

    def part_options(self, metrics: Iterable[Metric]) -> Sequence[str]:  # noqa: ARG002
        """Modules of the TypeScript client that `part` is given for these metrics of the kind."""
        return ()


def union(values: Iterable[object]) -> str:
    """The TypeScript type of one of some values; empty for none."""
    return " | ".join(map(json.dumps, values))


def literal(values: Iterable[object]) -> str:
    """The Python type of one of some values; empty for none."""
    listed = list(values)
    if listed == [False, True]:
        return "bool"
    return f"Literal[{', '.join(map(ascii, listed))}]" if listed else ""


def whole_of(given: Mapping[str, Any], key: str, usual: int) -> int:
    """Return a whole number above 0 that is given, else the usual one.

    The metric's reader refuses an invalid number, and names it.
    """
    value = given.get(key)
    return value if type(value) is int and value > 0 else usual


def length_of(given: Mapping[str, Any], key: str) -> int:
    """Return the length of a list that is given; 1 if the metric's reader will refuse it."""
    value = given.get(key)
    return len(value) if isinstance(value, list | tuple) and value else 1


def numbers_of_cohorts(devices: int, step: int = 1, most: int = 160) -> list[int]:
    """List numbers of cohorts to choose from, largest first: multiples that leave each a crowd.

    Args:
        devices: that report.
        step: of which each number is a multiple.
        most: cohorts worth having.
    """
    found, number = [], min(devices // CROWD, most) // step * step
    while number >= step:
        found.append(number)
        number = number // 4 // step * step
    return found or [step]


def powers_of_cohorts(devices: int, levels: int = 1) -> list[int]:
    """List powers of two as `numbers_of_cohorts` does. levels: between which devices divide."""
    most = cohorts_affordable(CROWD * levels, devices)
    return [most >> shift for shift in range(0, 20, 2) if most >> shift]


_HOMES = {
    "location": "metric_design.location_kind",
    "number": "metric_design.number_kind",
    "pair": "metric_design.pair_kind",
    "discover": "metric_design.discover_kind",
    "flow": "metric_design.flow_kind",
}
_SHARED = KindDesign()  # of listed kinds


def kind_designs() -> tuple[str, ...]:
    """Return the names of the kinds that have an entry."""
    return (*LISTED, *_HOMES)


def kind_design(name: str) -> KindDesign:
    """Return the entry of a kind; of one without, what all kinds share."""
    home = _HOMES.get(name)
    if home is None:
        return _SHARED
    kind: KindDesign = import_module(home).KIND
    return kind
