"""The walks of docs/architecture.md: an aggregate to results.csv, and a fix to the map."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = "## From an aggregate to results.csv"
MAP = "## From a fix to the map"
NO_STEPS = re.compile(r"decoder\.(errors|numerics|options|progress|typing)\b")


def section(title: str) -> str:
    """The text below a heading of the page."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return page.split(title)[1].split("\n## ")[0]


def modules_of_walk(title: str) -> list[str]:
    """The modules of the numbered list, in its order."""
    return re.findall(r"^\d+\. `([\w.]+)`", section(title), re.MULTILINE)


def imported_by(module: str) -> set[str]:
    """Modules from which a module takes names."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_the_pipeline_imports_the_steps_and_the_files_are_of_its_result() -> None:
    first, *steps, last = modules_of_walk(TABLE)
    assert len(steps) + 2 <= 7
    assert set(steps) <= imported_by(first)
    assert "decoder.results.tables" in imported_by(first) & imported_by(last)


def test_the_page_names_every_module_that_decode_asks() -> None:
    asked = {name for name in imported_by("decoder.pipeline") if name.startswith("decoder.")}
    named = set(re.findall(r"`(decoder\.[\w.]+)`", section(TABLE)))
    assert {name for name in asked if not NO_STEPS.match(name)} - named <= {
        "decoder.results.tables"
    }
    assert named - asked == {"decoder.pipeline", "decoder.output.decoding_files"}


def test_each_module_from_a_fix_to_the_map_is_imported_by_one_before_it() -> None:
    walk = modules_of_walk(MAP)
    assert len(walk) <= 11
    start, last = walk.index("decoder.density.maps"), walk[-1]
    for half in (walk[:start], walk[start:-1]):
        for place, name in enumerate(half[1:], 1):
            assert name in set().union(*map(imported_by, half[:place])), name
    assert walk[start] in imported_by(last)
