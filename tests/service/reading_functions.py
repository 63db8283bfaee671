"""What a reader of uploads is told to do; a module that loads nothing."""

from __future__ import annotations

import os


def many_lists(content: bytes) -> int:
    """Takes much more memory than it is long."""
    return len([[] for _ in range(1000 * len(content))])


def endless(content: bytes) -> None:
    while content:
        pass


def process_of(content: bytes) -> int:
    return os.getpid() if content else 0
