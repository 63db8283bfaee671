"""What a long decode tells of its progress: a function that is called as each stage moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]  # name of the stage, parts done, parts in all


def silent(stage: str, done: int, total: int) -> None:
    """Tell nobody."""
