"""`rappor simulate location-large`: every way of a map, and the one that is shown."""

import json
from dataclasses import replace

import numpy as np
import pytest

from decoder.density import map_series
from rappor_cli.main import main
from simulations.location.large_maps import (
    WORLDS,
    Setting,
    World,
    draw_people,
    one_world,
    world_shares,
)

COMMAND = ["simulate", "location-large", "--side", "6", "--devices", "3000", "--cohorts", "16",
           "--seed", "1"]  # fmt: skip


@pytest.mark.parametrize("world", WORLDS)
def test_people_are_where_the_world_says(world: World) -> None:
    setting, rng = Setting(world, 20, 20_000), np.random.default_rng(1)
    shares = world_shares(setting, rng)
    assert shares.sum() == pytest.approx(1)
    assert shares.min() > 0
    values = draw_people(setting, rng)
    weeks = np.stack([np.bincount(week, minlength=401)[:400] for week in values.T])
    weeks = weeks / weeks.sum(axis=1, keepdims=True)
    moved = np.abs(weeks[3] - weeks[0]).sum() / 2
    least = {"moving": 0.3, "tenth": 0.07, "festival": 0.08}.get(world, 0.0)
    assert least < moved < max(2 * least, 0.15)


def test_the_shown_map_is_among_those_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_series, "MOST_CELLS_POOLED", 20)
    found = one_world(Setting("tenth", 8, 20_000, cohorts=16), np.random.default_rng(2))
    assert found.source == "series"
    assert found.shown == found.off["pooled"]
    assert found.over_best is not None
    assert 0 <= found.over_best < 0.1
    assert set(found.off) == {"pooled", "whole", "alone", "projected", "even"}
    assert replace(found, rejected=dict.fromkeys(found.off, True)).over_best is None


@pytest.mark.long
def test_the_command_prints_a_row_a_world(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--world", "city", "--world", "sparse", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["world"] for row in rows] == ["city", "sparse"]
    assert all(0 <= row["shown"] <= 1 for row in rows)
    assert main([*COMMAND, "--world", "uniform", "--markdown"]) == 0
    assert capsys.readouterr().out.count("\n") == 3
    assert main([*COMMAND, "--world", "uniform"]) == 0
    assert "over the best" in capsys.readouterr().out
