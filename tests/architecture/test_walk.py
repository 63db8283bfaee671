"""The walk from an aggregate to results.csv, as docs/architecture.md tells it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TITLE = "## From an aggregate to results.csv"


def modules_of_walk() -> list[str]:
    """The modules of the numbered list, in its order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split(TITLE)[1].split("\n## ")[0]
    return re.findall(r"^\d\. `([\w.]+)`", section, re.MULTILINE)


def imported_by(module: str) -> set[str]:
    """Modules from which a module takes names."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_the_pipeline_imports_the_steps_and_the_files_are_of_its_result() -> None:
    first, *steps, last = modules_of_walk()
    assert len(steps) + 2 <= 7
    assert set(steps) <= imported_by(first)
    assert "decoder.results.tables" in imported_by(first) & imported_by(last)
