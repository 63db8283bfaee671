"""docs/architecture.md draws the imports that there are, and names files that exist."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = tuple(sorted(path.parent.name for path in ROOT.glob("*/py.typed")))
DRAWN = ("client_sdk", "collector", "decoder", "rappor_core")  # with their sub-packages
ARROW = re.compile(r"^ *([\w.]+) --> ([\w.]+)$", re.M)
MERMAID = re.compile(r"^```mermaid\n(.*?)^```", re.M | re.S)

Arrows = set[tuple[str, str]]


@pytest.fixture(scope="module")
def imports() -> Arrows:
    """Every import of one module of ours by another."""
    graph = grimp.build_graph(*PACKAGES)
    return {
        (module, other)
        for module in graph.modules
        for other in graph.find_modules_directly_imported_by(module)
    }


def arrows_of(text: str) -> Arrows:
    return {arrow for block in MERMAID.findall(text) for arrow in ARROW.findall(block)}


def between_packages(imports: Iterable[tuple[str, str]]) -> Arrows:
    pairs = {(a.split(".")[0], b.split(".")[0]) for a, b in imports}
    return {(a, b) for a, b in pairs if a != b}


def between_sub_packages(imports: Iterable[tuple[str, str]]) -> Arrows:
    """Of the packages that are drawn; modules directly in a package are not drawn."""
    deep = (pair for pair in imports if all(name.count(".") > 1 for name in pair))
    pairs = {(".".join(a.split(".")[:2]), ".".join(b.split(".")[:2])) for a, b in deep}
    same = {(a, b) for a, b in pairs if a.split(".")[0] == b.split(".")[0]}
    return {(a, b) for a, b in same if a != b and a.split(".")[0] in DRAWN}


def differences(drawn: Arrows, real: Arrows) -> list[str]:
    """What to change on the page."""
    missing = [f"add    {a} --> {b}" for a, b in sorted(real - drawn)]
    return missing + [f"remove {a} --> {b}" for a, b in sorted(drawn - real)]


def test_every_import_has_its_arrow_and_every_arrow_its_import(imports: Arrows) -> None:
    real = between_packages(imports) | between_sub_packages(imports)
    assert differences(arrows_of(PAGE), real) == []


def test_a_missing_and_a_false_arrow_are_found() -> None:
    real = {("decoder", "rappor_core")}
    false = "```mermaid\ngraph TD\n  decoder --> collector\n```\n"
    assert differences(arrows_of(false), real) == [
        "add    decoder --> rappor_core",
        "remove decoder --> collector",
    ]


def test_every_package_is_in_the_picture() -> None:
    drawn = {name for arrow in arrows_of(PAGE) for name in arrow}
    assert set(PACKAGES) <= drawn


def named_paths() -> list[str]:
    """Files and folders in backquotes, but not where a name stands for any."""
    paths = re.findall(r"`([a-z_]+/[\w./]*)`", PAGE)
    return sorted({path for path in paths if "NAME" not in path})


@pytest.mark.parametrize("path", named_paths())
def test_every_file_that_is_named_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_module_that_is_named_exists() -> None:
    """`package.module` or `package.module.Name`."""
    for name in re.findall(r"`((?:" + "|".join(PACKAGES) + r")\.[\w.]+)`", PAGE):
        parts = name.split(".")
        module = next(
            (
                path
                for size in range(len(parts), 1, -1)
                for path in (ROOT.joinpath(*parts[:size]),)
                if path.is_dir() or path.with_suffix(".py").exists()
            ),
            None,
        )
        assert module is not None, name
        rest = parts[len(module.relative_to(ROOT).parts) :]
        text = "" if module.is_dir() else module.with_suffix(".py").read_text(encoding="utf-8")
        for part in rest:
            assert re.search(rf"(?:class|def) {part}\b|^{part}\b", text, re.M), name


def test_the_questions_of_a_newcomer_have_a_row() -> None:
    table = PAGE.partition("## Where is what")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*?) \| .*`[\w/.]+`.* \|$", table, re.M)
    for question in (
        "a new encoding",
        "a new warning of the decoder",
        "a new route",
        "a new page",
        "the cap of the ledger",
        "the epsilon of a symbol",
    ):
        assert question in rows
