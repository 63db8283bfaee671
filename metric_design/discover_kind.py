"""The kind `discover` before it ships: what a reviewer should know, and its types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from metric_design.kinds import KindDesign, Level
from rappor_core.metrics.metric import Metric

_ASCII = 128
_OF_TWO_BYTES = "\u00e9\u0645".encode()  # a Latin and an Arabic letter


class DiscoverDesign(KindDesign):
    """A metric that finds strings."""

    name, part = "discover", "discover"

    def findings(
        self,
        metric: Metric,
        population: int | None,  # noqa: ARG002
    ) -> Iterator[tuple[Level, str]]:
        """Levels and messages: what text outside ASCII costs, in a code that has no words for "
        "it."""
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
        """The code table that comes with the package, where a metric needs it."""
        return ("domains",) if any(metric.details.packaged for metric in metrics) else ()


KIND = DiscoverDesign()
