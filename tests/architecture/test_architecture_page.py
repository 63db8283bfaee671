"""docs/architecture.md names files and modules that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = tuple(sorted(path.parent.name for path in ROOT.glob("*/py.typed")))


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
