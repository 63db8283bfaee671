"""How a long job tells of its progress, says what an analyst should know, and is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from decoder.errors import JobCancelledError

Progress: TypeAlias = Callable[[str, int, int], None]  # name of the stage, parts done, parts in all
Note: TypeAlias = Callable[[str], None]  # what was left out, taken or replaced, in words
Cancelled: TypeAlias = Callable[[], bool]  # whether the job should stop


def silent(stage: str, done: int, total: int) -> None:
    """Tell nobody."""


def quiet(text: str) -> None:
    """Tell nobody."""


def never() -> bool:
    """Run to the end."""
    return False


def check_cancelled(cancelled: Cancelled, before: str) -> None:
    """Raise JobCancelledError if the job should stop.

    Args:
        cancelled: whether it should.
        before: the stage that would follow, for the message.

    Raises:
        JobCancelledError: it should.
    """
    if cancelled():
        raise JobCancelledError(f"the job was cancelled before {before}")


def watched(progress: Progress, cancelled: Cancelled) -> Progress:
    """A progress function that also stops a job whose stages are long.

    Args:
        progress: told as before.
        cancelled: asked each time that a stage moves.

    Returns:
        The function; it raises JobCancelledError if the job should stop.
    """

    def tell(stage: str, done: int, total: int) -> None:
        check_cancelled(cancelled, f"the end of stage {stage!r}")
        progress(stage, done, total)

    return tell
