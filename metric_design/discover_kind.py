"""The kind `discover` before it ships: what a reviewer should know, and its types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from metric_design.kinds import KindDesign, Level
from rappor_core.metrics.metric import Metric

if TYPE_CHECKING:
    from metric_design.kind_planner import KindPlanner

_ASCII = 128
_OF_TWO_BYTES = "\u00e9\u0645".encode()  # a Latin and an Arabic letter


class DiscoverDesign(KindDesign):
    """A metric that finds strings."""

    name, part = "discover", "discover"

    def planner(self) -> KindPlanner:
        """Return the planner of unlisted strings: the share of which nearly all are named."""
        planner: KindPlanner = import_module("metric_design.discover_planner").PLANNER
        return planner

    def findings(
        self,
        metric: Metric,
        population: int | None,
    ) -> Iterator[tuple[Level, str]]:
        """Levels and messages: how frequent a string must be, what text outside ASCII costs."""
        if population:
            with suppress(ModuleNotFoundError):  # the check names what is missing
                planner = self.planner()
                share = planner.precision(metric, population)
                yield "note", f"with {population:,} devices you {planner.finding(metric, share)}"
        groups = metric.details
        code, most = groups.code, groups.code_bits
        if max(code.symbols) >= _ASCII:
            return
        each = (code.size(_OF_TWO_BYTES) - code.size(b"")) / len(_OF_TWO_BYTES)
        yield (
            "note",
            f"code = '{code.name}' has no words for characters outside ASCII: each of their 2 to 4 "
            f"bytes takes about {each:.0f} of the {most} bits that are hashed, so that a string "
            f"with {max(1, int(most / (2 * each))) + 1} of them or more is found by its beginning "
            "alone; if devices hold such strings, declare code_table, trained on a public list of "
            "them: rappor metrics train-code LIST",
        )

    def value_type(self, metric: Metric) -> str:  # noqa: ARG002
        """Any string."""
        return "string"

    def python_type(self, metric: Metric) -> str:  # noqa: ARG002
        """Any string."""
        return "str"

    def part_options(self, metrics: Iterable[Metric]) -> Sequence[str]:
        """`domains`, the packaged code table of domain names, where a metric is encoded by it."""
        return ("domains",) if any(metric.details.packaged for metric in metrics) else ()


KIND = DiscoverDesign()
