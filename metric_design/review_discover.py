"""What a reviewer should know of a metric that finds strings. Not needed on a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric

_ASCII = 128
_OF_TWO_BYTES = "\u00e9\u0645".encode()  # a Latin and an Arabic letter


def findings(metric: Metric, population: int | None) -> Iterator[tuple[str, str]]:  # noqa: ARG001
    """Levels and messages: what text outside ASCII costs, in a code that has no words for it."""
    groups = metric.details
    code, most = groups.code, groups.code_bits
    if max(code.symbols) >= _ASCII:
        return
    each = (code.size(_OF_TWO_BYTES) - code.size(b"")) / len(_OF_TWO_BYTES)
    yield (
        "note",
        f"code = '{code.name}' has no words for characters outside ASCII: each of their 2 to 4 "
        f"bytes takes about {each:.0f} of the {most} bits that are hashed, so that a string with "
        f"{max(1, int(most / (2 * each))) + 1} of them or more is found by its beginning alone; if "
        "devices hold such strings, declare code_table, trained on a public list of them: rappor "
        "metrics train-code LIST",
    )
