"""How long functions are, and that each module says what it is for."""

import ast
from pathlib import Path
from statistics import median

import pytest

from tests.architecture.test_imports import PACKAGES, ROOT
from tests.architecture.trees import nodes_of

LONGEST_FUNCTION = 80  # lines
MEDIAN_FUNCTION = 12


def modules(package: str) -> list[Path]:
    """Source files of a package."""
    return sorted((ROOT / package).rglob("*.py"))


def function_lengths(path: Path) -> dict[str, int]:
    """Lines of each function, by name and first line."""
    return {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_are_short(package: str) -> None:
    lengths = {k: v for path in modules(package) for k, v in function_lengths(path).items()}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FUNCTION} == {}
    assert median(lengths.values()) <= MEDIAN_FUNCTION


@pytest.mark.parametrize("package", PACKAGES)
def test_each_module_says_what_it_is_for(package: str) -> None:
    for path in modules(package):
        module = nodes_of(path)[0]
        assert isinstance(module, ast.Module)
        assert ast.get_docstring(module), f"{path.relative_to(ROOT)} has no docstring"
