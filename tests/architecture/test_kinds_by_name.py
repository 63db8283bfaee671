"""Only the tables of kinds name a kind of metric or an encoding; everything else asks the kind."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rappor_core.encodings.interface import encoding_named
from rappor_core.metrics.kinds import kind_named, kind_names

ROOT = Path(__file__).parents[2]
ENCODINGS = {name for kind in map(kind_named, kind_names()) for name in kind.encodings}
CORE = ["rappor_core", "client_sdk", "collector", "decoder", "metric_design", "simulations"]


def nodes(folder: str) -> list[tuple[str, ast.AST]]:
    """Every node of a folder's modules, with its place."""
    return [
        (f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", node)
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize("folder", [*CORE, "decoder_service", "rappor_cli"])
def test_no_module_compares_a_kind_or_an_encoding_with_a_name(folder: str) -> None:
    words = ENCODINGS | set(kind_names())
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
