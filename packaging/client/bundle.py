"""Many modules as one file: loader.py, and after it the body of each module."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from short_names import ShortNames

BUNDLE = "_rappor_client.py"
_LOADER = Path(__file__).resolve().parent / "loader.py"
_OWN_FILE = "__init__.py"  # of a top package: Python looks for it in a file
# Until what finds submodules is there, threads that want one wait for the package's own lock.
_ENTRY = f"""import sys as _sys
_here=_sys.modules.pop(__name__)
import {BUNDLE[:-3]}
_sys.modules[__name__]=_here
"""
_FUTURE = "from __future__ import annotations"
STANDARD = sys.stdlib_module_names


def bundled(sources: Mapping[str, str]) -> dict[str, str]:
    """Files of a wheel by name, for sources by name: the bundle, and what must be a file.

    Left out are docstrings, comments, annotations that nothing reads at run time, and imports for
    type checkers alone; local variables have short names. Raises ValueError for a module that
    cannot stand in a class's body.
    """
    files: dict[str, str] = {}
    bodies: list[str] = []
    for name, source in sorted(sources.items(), key=_core_first):
        whole = ast.parse(source)
        _check(name, whole)
        tree = ShortNames().visit(_Lighter().visit(whole))
        file = name.partition("/")[2]
        if file == _OWN_FILE:
            files[name] = f"{_ENTRY}{narrow(ast.unparse(tree))}\n"
        else:
            bodies.append(_as_function(name, tree))
    loader = narrow(ast.unparse(_Lighter().visit(ast.parse(_LOADER.read_text(encoding="utf-8")))))
    files[BUNDLE] = "\n".join([_FUTURE, loader, *bodies, "_enter({**globals()})", ""])
    compile(files[BUNDLE], BUNDLE, "exec")
    return files


def _core_first(item: tuple[str, str]) -> tuple[bool, str]:
    """By name, the core before the client: like that the whole takes 200 bytes less, packed."""
    return not item[0].startswith("rappor_core"), item[0]


def _check(name: str, tree: ast.Module) -> None:
    """Raise ValueError for what means something else in the body of a class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "__":
            raise ValueError(f"{name} uses the name of the class that would hold it")
        if isinstance(node, ast.ImportFrom) and (node.level or node.names[0].name == "*"):
            raise ValueError(f"{name} has a relative import, or one of all names")


def _as_function(name: str, tree: ast.Module) -> str:
    """A function that holds a class, whose body is the module; its name is the module's."""
    function = name.removesuffix(".py").removesuffix("/__init__").replace("/", "__")
    text = narrow(ast.unparse(tree)) or "pass"
    body = "\n".join(f"  {line}" for line in text.splitlines())
    return f"def {function}():\n class __:\n{body}"


def narrow(text: str) -> str:
    """Indent what `ast.unparse` wrote by one blank for four, and leave out needless blanks.

    Raises ValueError where that would be another program.
    """
    rows = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line]
    result = "\n".join(" " * (blanks // 4) + _tight(line) for blanks, line in rows)
    if ast.dump(ast.parse(result)) != ast.dump(ast.parse(text)):
        raise ValueError("without blanks it is another program")
    return result


def _tight(line: str) -> str:
    """A whole line, with a blank only where two words, or a word and a string, would meet."""
    result, end = "", 0
    for token in tokenize.generate_tokens(io.StringIO(line).readline):
        if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER):
            continue
        gap, text = line[end : token.start[1]], line[token.start[1] : token.end[1]]
        if gap.isspace() and not (_is_word(result[-1:]) and _is_word(text[:1], "\"'")):
            gap = ""
        result += gap + text
        end = token.end[1]
    return result


def _is_word(mark: str, others: str = "") -> bool:
    return mark.isalnum() or mark == "_" or (mark != "" and mark in others)


class _Lighter(ast.NodeTransformer):
    """Takes out of a tree what a device does not need."""

    def visit_Module(self, node: ast.Module) -> Any:
        """Without the docstring, and without `__future__`, which is the bundle's."""
        node.body = [part for part in node.body if not _is_future(part)]
        return _without_unused_imports(self._visit_body(node))

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """Annotated names are kept, since they are the fields of records, but for their types."""
        fields = [part for part in node.body if isinstance(part, ast.AnnAssign)]
        for field in fields:
            field.annotation = ast.Constant(0)
        return self._visit_body(node, {id(field) for field in fields})

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """Without annotations of arguments and result."""
        node.returns = None
        every = node.args
        for argument in [
            *every.posonlyargs,
            *every.args,
            *every.kwonlyargs,
            every.vararg,
            every.kwarg,
        ]:
            if argument is not None:
                argument.annotation = None
        return self._visit_body(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | None:
        """As a plain assignment, outside classes."""
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], self.visit(node.value)), node)

    def visit_If(self, node: ast.If) -> Any:
        """Imports for type checkers alone."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node.orelse or None
        return self.generic_visit(node)

    def _visit_body(self, node: Any, kept: Collection[int] = ()) -> Any:
        body = node.body[1:] if _is_docstring(node.body[:1]) else node.body
        node.body = []
        for part in body:
            lighter = part if id(part) in kept else self.visit(part)
            node.body += lighter if isinstance(lighter, list) else [lighter] if lighter else []
        if not node.body and not isinstance(node, ast.Module):
            node.body = [ast.Pass()]
        return node


def _without_unused_imports(tree: ast.Module) -> ast.Module:
    """Without imported names that only annotations used. A name that is exported stays."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | _exported(tree)
    for part in tree.body:
        if isinstance(part, ast.ImportFrom):
            part.names = [
                one
                for one in part.names
                if one.asname == one.name or (one.asname or one.name) in used
            ]
    tree.body = [part for part in tree.body if not isinstance(part, ast.ImportFrom) or part.names]
    return tree


def _exported(tree: ast.Module) -> set[str]:
    """What `__all__` lists."""
    listed = [
        part.value
        for part in tree.body
        if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "__all__"
    ]
    return {name for value in listed for name in ast.literal_eval(value)}


def _is_future(part: ast.stmt) -> bool:
    return isinstance(part, ast.ImportFrom) and part.module == "__future__"


def _is_docstring(first: list[ast.stmt]) -> bool:
    constant = first[0].value if first and isinstance(first[0], ast.Expr) else None
    return isinstance(constant, ast.Constant) and isinstance(constant.value, str)
