"""The instructions of a reader of uploads; a module that loads nothing."""

import os
from pathlib import Path

from tests.waiting import until


def many_lists(content: bytes) -> int:
    """Takes much more memory than it is long."""
    return len([[] for _ in range(1000 * len(content))])


def endless(content: bytes) -> None:
    while content:
        pass


def process_of(content: bytes) -> int:
    return os.getpid() if content else 0


def await_go(content: bytes, folder: str, number: int) -> int:
    """Write how nice it is, and wait for a file `go`."""
    Path(folder, f"nice-{number}").write_text(str(os.nice(0)))
    until(lambda: not content or Path(folder, "go").exists())
    return number
