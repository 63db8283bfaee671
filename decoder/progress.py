"""How a long job reports progress and remarks; what either function raises ends the job."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]  # name of the stage, parts done, parts in all
Note: TypeAlias = Callable[[str], None]  # what was left out, taken or replaced, as text


def silent(stage: str, done: int, total: int) -> None:
    """A `Progress` that does nothing."""


def quiet(text: str) -> None:
    """A `Note` that does nothing."""
