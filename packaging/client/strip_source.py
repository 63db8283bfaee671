"""Python source without docstrings, comments and wide indents; tracebacks name the same lines."""

from __future__ import annotations

import ast
import io
import tokenize

_PARTS_OF_STRINGS = {
    getattr(tokenize, name)
    for name in ("FSTRING_START", "FSTRING_MIDDLE")
    if hasattr(tokenize, name)
}
Documented = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def stripped(source: str) -> str:
    """What remains compiles to the same program, but for `__doc__`, which is None.

    Raises ValueError where it would not.
    """
    lines = _without_docstrings(source)
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    text = "\n".join(_narrow(lines)).rstrip("\n") + "\n"
    if _program(text) != _program(source):
        raise ValueError("the source without docstrings and comments is another program")
    return text


def _narrow(lines: list[str]) -> list[str]:
    """One blank for each four that a line begins with, but inside a string of several lines."""
    inside: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
        if token.type == tokenize.STRING or token.type in _PARTS_OF_STRINGS:
            inside.update(range(token.start[0], token.end[0]))
    return [line if i in inside else _narrowed(line) for i, line in enumerate(lines)]


def _narrowed(line: str) -> str:
    blanks = len(line) - len(line.lstrip(" "))
    return " " * (blanks // 4 + blanks % 4) + line.lstrip(" ")


def _without_docstrings(source: str) -> list[str]:
    """The lines, those of a docstring empty; `pass` where the syntax needs it."""
    rows = [row.encode() for row in source.split("\n")]  # ast counts columns in bytes of UTF-8
    for docstring, needs_pass in _docstrings(ast.parse(source)):
        first, last = docstring.lineno - 1, (docstring.end_lineno or 0) - 1
        rest = rows[last][docstring.end_col_offset :]
        kept = b"pass" if needs_pass or rest.lstrip().startswith(b";") else b""
        before = rows[first][: docstring.col_offset] + kept
        rows[first : last + 1] = [before, *[b""] * (last - first)]
        rows[last] += rest
    return [row.decode() if row.strip() else "" for row in rows]


def _docstrings(tree: ast.AST) -> list[tuple[ast.stmt, bool]]:
    """Each docstring, and whether `pass` must stand there: for a body, or before a string."""
    return [
        (node.body[0], _is_string(node.body[1:]) or not (node.body[1:] or _is_module(node)))
        for node in ast.walk(tree)
        if isinstance(node, Documented) and _is_string(node.body)
    ]


def _is_module(node: ast.AST) -> bool:
    return isinstance(node, ast.Module)


def _is_string(body: list[ast.stmt]) -> bool:
    """Whether a body begins with a string, which would be its docstring."""
    first = body[0].value if body and isinstance(body[0], ast.Expr) else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str)


def _program(source: str) -> tuple[str, list[int]]:
    """The syntax tree and the line of each statement, without docstrings and `pass`."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, Documented):
            body = node.body[_is_string(node.body) :]
            node.body = [part for part in body if not isinstance(part, ast.Pass)]
    statements = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return ast.dump(tree), statements
