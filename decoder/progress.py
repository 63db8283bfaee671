"""Callbacks for a long job's progress and remarks; an exception in a callback ends the job."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]  # stage, parts done, total parts
Note: TypeAlias = Callable[[str], None]  # a sentence about omitted, used or replaced input


def silent(stage: str, done: int, total: int) -> None:
    """Ignore progress."""


def quiet(text: str) -> None:
    """Ignore a note."""
