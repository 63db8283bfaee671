"""A public class name stands in one package alone: one word, one thing."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from pathlib import Path

from tests.architecture.test_imports import PACKAGES, ROOT
from tests.architecture.trees import nodes_of

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def shared_names(root: Path) -> dict[str, set[str]]:
    """Names of public classes that more than one package has, with those packages."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            module = nodes_of(path)[0]
            assert isinstance(module, ast.Module)
            for node in module.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].add(package)
    return {name: packages for name, packages in found.items() if len(packages) > 1}


def test_no_public_class_name_stands_in_two_packages() -> None:
    assert shared_names(ROOT) == {}


def test_a_name_in_two_packages_is_seen(tmp_path: Path) -> None:
    for package in ("decoder", "collector"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "one.py").write_text("class Row:\n    pass\n", encoding="utf-8")
    assert shared_names(tmp_path) == {"Row": {"decoder", "collector"}}


def unknown_errors(root: Path) -> set[str]:
    """Errors that a docstring names, which neither its package nor one that it imports has."""
    nodes = {
        path: nodes_of(path) for package in PACKAGES for path in (root / package).rglob("*.py")
    }
    names: defaultdict[str, set[str]] = defaultdict(set)
    below: defaultdict[str, set[str]] = defaultdict(set)
    for path, some in nodes.items():
        package = path.relative_to(root).parts[0]
        for node in some:
            if isinstance(node, ast.ClassDef):
                names[package].add(node.name)
            elif isinstance(node, ast.Attribute):  # module.SomeError
                names[package].add(node.attr)
            elif isinstance(node, ast.ImportFrom):
                names[package] |= {alias.name for alias in node.names}
                below[package].add((node.module or "").partition(".")[0])
    unknown = set()
    for path, some in nodes.items():
        package = path.relative_to(root).parts[0]
        known = set(dir(builtins)).union(*(names[one] for one in (package, *below[package])))
        for node in some:
            if isinstance(node, DOCUMENTED):
                said = set(re.findall(r"(?<![.\w])[A-Z]\w+Error\b", ast.get_docstring(node) or ""))
                unknown |= {f"{path.relative_to(root)}: {name}" for name in said - known}
    return unknown


def test_docstrings_name_errors_that_are_there() -> None:
    assert unknown_errors(ROOT) == set()


def test_an_error_of_a_former_name_is_seen(tmp_path: Path) -> None:
    (tmp_path / "decoder").mkdir()
    text = 'def fit():\n    """Fit. Raises FormerError, and ValueError."""\n'
    (tmp_path / "decoder" / "one.py").write_text(text, encoding="utf-8")
    assert unknown_errors(tmp_path) == {"decoder/one.py: FormerError"}
