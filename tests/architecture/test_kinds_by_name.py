"""Only the tables of kinds name a kind of metric or an encoding; everything else asks the kind."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from decoder.workflows.kinds import decoder_kind_names
from decoder_service.jobs.kinds import job_kinds
from rappor_core.encodings import encoding_named
from rappor_core.metrics.kinds import KINDS, kind_named

ROOT = Path(__file__).parents[2]
ENCODINGS = {name for kind in map(kind_named, KINDS) for name in kind.encodings}
CORE = ["rappor_core", "client_sdk", "collector", "decoder", "metric_design", "simulations"]
JOBS = [f"decoder_service/{part}" for part in ("jobs", "worker", "results", "releases")]


def nodes(folder: str) -> list[tuple[str, ast.AST]]:
    """Every node of a folder's modules, with its place."""
    return [
        (f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", node)
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize("folder", [*CORE, "rappor_cli"])
def test_no_module_compares_a_kind_or_an_encoding_with_a_name(folder: str) -> None:
    words = ENCODINGS | set(KINDS)
    assert {encoding_named(name).name for name in ENCODINGS} == ENCODINGS
    found = []
    for place, node in nodes(folder):
        if isinstance(node, ast.Compare):
            parts = list(ast.walk(node))
            texts = {part.value for part in parts if isinstance(part, ast.Constant)}
            names = {part.attr for part in parts if isinstance(part, ast.Attribute)}
            names |= {part.id for part in parts if isinstance(part, ast.Name)} | texts
            if texts & words and names & {"encoding", "kind"}:
                found.append(place)
    assert not found


@pytest.mark.parametrize(
    ("folder", "names"),
    [("decoder_service", decoder_kind_names()), ("rappor_cli", decoder_kind_names())]
    + [(folder, [kind.name for kind in job_kinds()]) for folder in JOBS],
)
def test_no_module_looks_up_a_kind_by_name(folder: str, names: list[str]) -> None:
    found = [
        place
        for place, node in nodes(folder)
        for one in _compared(node)
        if isinstance(one, ast.Constant)
        and one.value in set(names)
        and "jobs/kinds.py" not in place
    ]
    assert [place for place in found if "jobs/kinds.py" not in place] == []


def _compared(node: ast.AST) -> list[ast.expr]:
    """The expressions of a node that a value may be compared with, looked up or listed by."""
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Dict():
            return [key for key in node.keys if key is not None]
        case ast.Set():
            return node.elts
        case ast.Assign() | ast.MatchValue():
            return [node.value]
    return []
