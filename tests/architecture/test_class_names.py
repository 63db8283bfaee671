"""A public class name stands in one package alone: one word, one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.architecture.test_imports import PACKAGES, ROOT


def shared_names(root: Path) -> dict[str, set[str]]:
    """Names of public classes that more than one package has, with those packages."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        for path in (root / package).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
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
