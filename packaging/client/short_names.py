"""Short names for what functions alone see: less to compress, and the same program.

Arguments keep their names, since callers use them; so does what is imported, global, or the name
of a function, a class or an error. A function that holds a class is left as it is.
"""

from __future__ import annotations

import ast
from string import ascii_letters
from typing import Any


class ShortNames(ast.NodeTransformer):
    """Renames the local variables of each outermost function, alike in all that it holds."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """In the order in which the names occur, so that functions use the same few."""
        inside = list(ast.walk(node))
        if any(isinstance(part, ast.ClassDef) for part in inside):
            return self.generic_visit(node)
        names = [part for part in inside if isinstance(part, ast.Name)]
        kept = set().union(*map(_kept, inside))
        local = {name.id for name in names if isinstance(name.ctx, ast.Store)} - kept
        taken = kept | {name.id for name in names}
        free = (letter for letter in ascii_letters if letter not in taken)
        longer = dict.fromkeys(name.id for name in names if name.id in local and len(name.id) > 1)
        shorter = dict(zip(longer, free, strict=False))
        for name in names:
            name.id = shorter.get(name.id, name.id)
        return node


def _kept(node: ast.AST) -> set[str]:
    """Names that a node binds or declares, and that are no local variables."""
    if isinstance(node, ast.arg):
        return {node.arg}
    if isinstance(node, ast.Global | ast.Nonlocal):
        return set(node.names)
    if isinstance(node, ast.alias):
        return {(node.asname or node.name).partition(".")[0]}
    if isinstance(node, ast.FunctionDef | ast.ExceptHandler):
        return {node.name} if node.name else set()
    return set()
