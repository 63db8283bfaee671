"""The present time, passed as an argument, and the forms in which times are stored and shown."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

Clock: TypeAlias = Callable[[], datetime]


def utc_now() -> datetime:
    """The time of this machine, UTC."""
    return datetime.now(UTC)


def text_of(seconds: float) -> str:
    """Format seconds since 1970 as ISO 8601, UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
