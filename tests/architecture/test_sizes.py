"""How long functions and modules are, and that each module says what it is for."""

import ast
from pathlib import Path
from statistics import median

import pytest

from tests.architecture.test_imports import PACKAGES, ROOT

LONGEST_FUNCTION = 80  # lines
MEDIAN_FUNCTION = 12
LONGEST_MODULE = 300
LONGER = {  # lines that a module has now, and why; a number here only ever falls
    "decoder/estimation/ep_iterations.py": (305, "one loop and what it keeps between rounds"),
}


def modules(package: str) -> list[Path]:
    """Source files of a package."""
    return sorted((ROOT / package).rglob("*.py"))


def function_lengths(path: Path) -> dict[str, int]:
    """Lines of each function, by name and first line."""
    return {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_are_short(package: str) -> None:
    lengths = {k: v for path in modules(package) for k, v in function_lengths(path).items()}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FUNCTION} == {}
    assert median(lengths.values()) <= MEDIAN_FUNCTION


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_are_short_and_say_what_they_are_for(package: str) -> None:
    for path in modules(package):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        assert ast.get_docstring(ast.parse(text)), f"{name} has no docstring"
        most, _ = LONGER.get(name, (LONGEST_MODULE, ""))
        lines = len(text.splitlines())
        assert lines <= most, f"{name} has {lines} lines, above {most}"
        assert name not in LONGER or lines > LONGEST_MODULE, f"{name} is short: take it off LONGER"


def test_exceptions_are_modules_that_are_there() -> None:
    assert all((ROOT / name).is_file() for name in LONGER)
