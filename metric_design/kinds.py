"""Kinds of metric before they ship: what a reviewer should know, how they are planned, and what
typed accessors take.

A new kind that the TypeScript client has, that `rappor plan` plans, or of which `rappor metrics
check` has something to say, is a subclass of `KindDesign`, its instance `KIND`, and a line in
`_HOMES` (its module). None of it is needed on a device. A kind without an entry has nothing of its
own to say, is not planned, and is in no TypeScript client.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from rappor_core.errors import ParameterError
from rappor_core.metrics.metric import Metric

if TYPE_CHECKING:
    from metric_design.kind_planner import KindPlanner

Level = Literal["error", "warning", "note"]

_HOMES = {
    "string": "metric_design.list_kinds",
    "category": "metric_design.list_kinds",
    "boolean": "metric_design.list_kinds",
    "location": "metric_design.location_kind",
    "number": "metric_design.number_kind",
    "pair": "metric_design.pair_kind",
    "discover": "metric_design.discover_kind",
    "flow": "metric_design.flow_kind",
}
_LOADED: dict[str, KindDesign] = {}


class KindDesign:
    """The review and the typed accessors of the metrics of one kind, before they ship.

    name: as in `metrics.toml`.  part: the module of the TypeScript client with the kind, which
    exports a function of the same name; "" where its core has the kind.
    """

    name: str
    part = ""

    def findings(self, metric: Metric, population: int | None) -> Iterator[tuple[Level, str]]:  # noqa: ARG002
        """Levels and messages for `rappor metrics check`.

        population: devices that report in a period, where it is known.
        """
        return iter(())

    def turns(self, metric: Metric) -> int:  # noqa: ARG002
        """Over how many groups and periods the reports of devices are spread: a series has so many
        times fewer in a period."""
        return 1

    def planner(self) -> KindPlanner | None:
        """How `rappor plan` plans metrics of the kind; None where it does not.

        It may need numerical libraries, which are loaded here.
        """
        return None

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


def kind_designs() -> tuple[str, ...]:
    """The names of the kinds that have an entry."""
    return tuple(dict.fromkeys((*_HOMES, *_LOADED)))


def register_kind_design(kind: KindDesign) -> None:
    """Add a kind. Raises ParameterError for a name that has one."""
    if kind.name in kind_designs():
        raise ParameterError(f"kind {kind.name!r} is registered already")
    _LOADED[kind.name] = kind


def kind_design(name: str) -> KindDesign:
    """The entry of a kind; of one without, what all kinds share."""
    home = _HOMES.get(name, "")
    if home and name not in _LOADED:
        _LOADED[name] = import_module(home).KIND
    return _LOADED.get(name, KindDesign())
