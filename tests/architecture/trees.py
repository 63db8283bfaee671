"""Source files as syntax trees: each is parsed once, whatever the number of tests that ask."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file's tree, its module first.

    Links are followed: a copy of the tree that is made of them is not parsed again.
    """
    return _nodes_of(path.resolve())


@cache
def _nodes_of(path: Path) -> tuple[ast.AST, ...]:
    gc.disable()  # a tree is no garbage, and looking for some takes as long as parsing
    try:
        return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    finally:
        gc.enable()
