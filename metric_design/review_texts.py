"""Findings of `rappor metrics check` about the texts of a metric. Not needed on a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from rappor_core.errors import shown

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric


def findings(metric: Metric) -> Iterator[tuple[Literal["error", "warning"], str]]:
    """Yield (level, message): texts with characters that no page shows as they are, an empty
    fallback."""
    for key in ("description", "owner"):
        text = getattr(metric, key)
        if not all(character.isprintable() or character in "\n\t" for character in text):
            yield "error", f"{key} = {shown(text)} holds a control character: write plain text"
    if metric.fallback is not None and not metric.fallback.strip():
        message = (
            f"fallback = {shown(metric.fallback)} is a value without a name: no list of candidates "
            "can hold it, so it cannot be decoded; use a word such as 'other'"
        )
        yield ("warning" if metric.fallback else "error"), message
