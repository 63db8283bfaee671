"""`rappor simulate flow-coverage`: a made-up city or a declared metric, drawn and counted."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoder.flows.decoding import decode_flows
from decoder.flows.tables import FlowDecoding
from decoder.inference.intervals import ShareTable
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from simulations import flows as coverage
from simulations.flows import FlowWorld, city_matrix, city_metric, in_world
from tests.flow_support import flow_text

COMMAND = ["simulate", "flow-coverage", "--devices", "2000", "--draws", "1", "--seed", "1"]
pytestmark = pytest.mark.usefixtures("elsewhere")
METRIC = city_metric(4.0, 2_000, rows=2, columns=2, num_cohorts=10)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory of its own, where `simulation-output` is made."""
    monkeypatch.chdir(tmp_path)


def figures(capsys: pytest.CaptureFixture[str], *more: str) -> list[dict[str, Any]]:
    assert main([*COMMAND, *more, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
    return found


def test_a_matrix_of_ones_own_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics.toml").write_text(flow_text(epsilon="4.0", num_symbols="56"))
    (tmp_path / "census.csv").write_text("origin,destination,count\n1-0-0,1-0-0,3\n1-0-0,1-1-1,1\n")
    mine = ["--metrics", str(tmp_path / "metrics.toml"), "--flows", str(tmp_path / "census.csv")]
    (row,) = figures(capsys, *mine)
    assert row["epsilon"] == pytest.approx(4.0, abs=1e-3)
    assert (row["detected"], row["wrong"]) == (2, 0)
    assert main([*COMMAND, *mine, "--epsilon", "2"]) == 2
    assert main([*COMMAND, *mine, "--metric", "walks"]) == 1
    assert "0 metrics of kind 'flow' named 'walks'" in capsys.readouterr().err


@pytest.mark.parametrize(("half", "part"), [(0.0, 0.0), (1.0, 1.0)])
def test_what_holds_is_counted(half: float, part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals without a width hold nothing, those of all shares everything."""

    def found(counts: Aggregate) -> FlowDecoding:
        one = decode_flows(counts)
        names = ("flows", "zones", "origins", "bands", "own_cell", "moved")
        tables = {name: getattr(one, name) for name in names}
        changed = {
            name: ShareTable(table.estimate, table.std_error, table.estimate - 2 * half,
                             table.estimate + 2 * half)
            for name, table in tables.items()
        }  # fmt: skip
        return replace(one, **changed)

    monkeypatch.setattr(coverage, "decode_flows", found)
    matrix = city_matrix(METRIC.details, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    made = coverage.flow_coverage(METRIC, matrix, 2_000, 1, rng, lambda _: None)
    assert {one[0] for one in made.held.values() if one} == {part}


@pytest.mark.parametrize("world", list(FlowWorld))
def test_a_world_keeps_its_people(world: Any) -> None:
    flow = METRIC.details
    matrix = city_matrix(flow, np.random.default_rng(1))
    made = in_world(matrix, flow, world, np.random.default_rng(2)).reshape(flow.num_sides, -1)
    before, cells = matrix.reshape(flow.num_sides, -1), len(flow.cells)
    inside, was = made[:cells, :cells], before[:cells, :cells]
    assert made.sum() == pytest.approx(1)
    assert made.min() >= 0
    np.testing.assert_array_equal(made[cells:], before[cells:])
    if world in ("as is", "shuffled", "one cell"):
        np.testing.assert_allclose(inside.sum(axis=1), was.sum(axis=1))
    largest = np.sort(inside.ravel() / was.sum())[::-1]
    if world == "spikes":
        assert largest[19] > 0.03 > largest[20]
    if world == "one cell":
        assert inside.sum(axis=0).max() > 0.7 * was.sum()
    if world == "even":
        assert largest[0] == pytest.approx(largest[-1])
    assert (world == "as is") == np.array_equal(made, before)
