"""The walks of docs/architecture.md: an aggregate to results.csv, and a fix to the map."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from decoder import Candidates, decode
from decoder.output.decoding_files import write_outputs
from decoder.pipeline import BESIDES
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate

ROOT = Path(__file__).parents[2]
TABLE = "## From an aggregate to results.csv"
MAP = "## From a fix to the map"
BESIDE = "decoder.steps"
NO_STEPS = re.compile(r"decoder\.(errors|numerics|options|progress|typing)\b")

Call = tuple[str, str]


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


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    """Calls into the decoder, as (caller's module, callee's), of one decoding and its files."""
    params = RapporParams.rappor(
        num_bits=32, num_hashes=2, num_cohorts=16, prob_f=0.25, prob_p=0.25, prob_q=0.75
    )
    values = [f"value-{i}" for i in range(30)]
    shares = np.repeat([0.2, 0.0], [5, 25])
    counts, _ = draw_aggregate(values, shares, 100_000, params, np.random.default_rng(3))
    folder, candidates = tmp_path_factory.mktemp("walk"), Candidates.from_strings(values)

    def both() -> None:
        decoding = decode(counts, candidates)
        assert len(decoding.detected) >= 5
        write_outputs(decoding, folder)

    both()  # modules are loaded, and compiled
    seen: list[Call] = []

    def called(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (module := _module(frame)).startswith("decoder."):
            seen.append((_module(frame.f_back), module))

    sys.setprofile(called)
    try:
        both()
    finally:
        sys.setprofile(None)
    return seen


def _module(frame: FrameType | None) -> str:
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))


def _walked(calls: list[Call]) -> Iterator[str]:
    """The modules that the pipeline itself calls, then the one that writes; each stay is one."""
    first, *_, last = modules_of_walk(TABLE)
    by_pipeline = [
        callee
        for caller, callee in calls
        if (caller == first and callee not in (first, BESIDE) and not NO_STEPS.match(callee))
        or (callee == last and not caller.startswith("decoder."))
    ]
    yield from (module for module, _ in groupby(by_pipeline))


def test_a_decoding_walks_the_pages_modules_once(calls: list[Call]) -> None:
    first, *rest = modules_of_walk(TABLE)
    assert [*_walked(calls)] == rest
    assert len({first, *rest}) == len(rest) + 1 <= 9


def test_the_page_names_the_steps_besides(calls: list[Call]) -> None:
    assert ("decoder.pipeline", BESIDE) in calls
    assert re.findall(r"^\| `(\w+)` \|", section(TABLE), re.MULTILINE) == [
        type(step).__name__ for step in BESIDES
    ]


def test_the_page_counts_a_decodings_modules(calls: list[Call]) -> None:
    stated = re.search(r"enters at most (\d+) modules", section(TABLE))
    assert stated is not None
    called = [i for i, (_, callee) in enumerate(calls) if callee.startswith("decoder.output")]
    assert len({callee for _, callee in calls[: called[0]]}) <= int(stated[1])


def test_each_map_module_is_imported_before() -> None:
    walk = modules_of_walk(MAP)
    assert len(walk) <= 11
    start, last = walk.index("decoder.density.maps"), walk[-1]
    for half in (walk[:start], walk[start:-1]):
        for place, name in enumerate(half[1:], 1):
            assert name in set().union(*map(imported_by, half[:place])), name
    assert walk[start] in imported_by(last)
