"""Text of strangers on a terminal."""

from __future__ import annotations

from rich.text import Text

from rappor_core.text import visible


def plain(value: str) -> Text:
    """Text without markup; what could steer a terminal or turn its writing is shown escaped."""
    return Text(visible(value))
