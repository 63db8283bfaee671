"""Only the tables of kinds name a kind of metric or an encoding; everything else asks the kind."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from decoder.kinds.interface import DECODERS, decoder_of
from rappor_core.encodings import ENCODINGS
from rappor_core.metrics.kinds import KINDS, kind_named

ROOT = Path(__file__).parents[2]
PRODUCT = [
    "rappor_core", "client_sdk", "collector", "decoder", "decoder_service", "disclosure",
    "metric_design", "privacy_audit", "rappor_cli", "rappor_server", "simulations", "benchmarks",
]  # fmt: skip


def nodes(folder: str) -> list[tuple[str, ast.AST]]:
    """Every node of a folder's modules, with its place."""
    return [
        (f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}", node)
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]


def named_parts(node: ast.AST) -> tuple[set[object], set[object]]:
    """The constants of an expression, and the names and attributes in it."""
    parts = list(ast.walk(node))
    texts = {part.value for part in parts if isinstance(part, ast.Constant)}
    names = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    return texts, names | {part.id for part in parts if isinstance(part, ast.Name)}


def compares_a_kind(node: ast.AST) -> bool:
    """Whether a comparison, a match or a set lists kinds of metric, or tests one.

    A comparison with a text that is a kind's name or an encoding's; `metric.kind` beside a constant
    of the module (`KINDS`, `FLOW.name`); two or more kinds in a set or a tuple.
    """
    if isinstance(node, ast.Compare):
        texts, names = named_parts(node)
        if texts & {*KINDS, *ENCODINGS} and names & {"encoding", "kind"}:
            return True
        left = node.left
        of_metric = isinstance(left, ast.Attribute) and left.attr == "kind"
        constants = {name for name in names if str(name).isupper()}
        return of_metric and bool(constants & TABLES)
    if isinstance(node, ast.MatchValue):
        return bool(named_parts(node)[0] & KINDS.keys())
    if isinstance(node, ast.Set | ast.Tuple):
        return len({part.value for part in node.elts if isinstance(part, ast.Constant)}
                   & KINDS.keys()) > 1  # fmt: skip
    return False


TABLES = {"KINDS", "LISTED", "FLOW", "_COMMANDS"}


@pytest.mark.parametrize("folder", PRODUCT)
def test_no_module_compares_a_kind_or_an_encoding_with_a_name(folder: str) -> None:
    found = [place for place, node in nodes(folder) if compares_a_kind(node)]
    assert found == []


def test_kinds_and_encodings_have_the_names_of_their_tables() -> None:
    assert {name: kind_named(name).name for name in KINDS} == {name: name for name in KINDS}
    assert all(kind_named(name).encodings for name in KINDS)
    assert {one for name in KINDS for one in kind_named(name).encodings} == set(ENCODINGS)


def test_the_tables_of_kinds_have_the_same_kinds() -> None:
    assert list(DECODERS) == list(KINDS)
    assert all(decoder_of(name).operations for name in KINDS)
