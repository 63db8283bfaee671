"""Maps of a year by mode: what is drawn, and that a held map is nearer than an even one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from privacy_audit.lives import NONE
from rappor_cli.main import main
from simulations.location.held_maps import (
    MODES,
    MONTHS,
    WORLDS,
    Setting,
    draw_year,
    one_year,
    settings_of,
)


@pytest.mark.parametrize(("world", "mean"), [("moves", 1.0), ("months", 0.775), ("weeks", 0.25)])
def test_people_are_seen_as_often_as_it_says(world: str, mean: float) -> None:
    """False alarms: under one in a million each (five standard errors of 4,000 people)."""
    year = draw_year(Setting(world, "window", 6, 4_000, 2.0), np.random.default_rng(0))  # type: ignore[arg-type]
    assert year.values.shape == (4_000, 1, MONTHS * (4 if world == "weeks" else 1))
    assert year.present.mean() == pytest.approx(mean, abs=5 * 0.25 / np.sqrt(4_000))
    if world == "moves":
        moved = (year.values[:, 0, 0] != year.values[:, 0, -1]).mean()
        assert 0.15 < moved < 0.2  # some move to where they were
    else:
        assert (year.values == NONE).any()


@pytest.mark.long
def test_a_year_is_mapped_in_every_mode() -> None:
    for setting in settings_of(WORLDS, MODES, (6,), (4.0,), 20_000):
        found = one_year(setting, np.random.default_rng(1))
        assert 0 <= found.held < found.off < found.even, setting
        assert (found.held == 0) == (setting.hold == 0 or setting.world == "moves")


def test_the_template_is_as_near_as_promised() -> None:
    """At 169 cells, where 20 % move once: .15 at most, with 100,000 devices at epsilon 2."""
    setting = Setting("moves", "window", 13, 100_000, 2.0)
    assert one_year(setting, np.random.default_rng(1)).off < 0.15


def test_maps_of_a_year_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["simulate", "location-maps", "--world", "weeks", "--mode", "window", "--side", "5",
              "--devices", "5000", "--draws", "1", "--seed", "1"]  # fmt: skip
    assert main([*wanted, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["world"], row["cells"], row["draws"]) == ("weeks", 25, 1)
    assert main([*wanted, "--markdown"]) == 0
    assert "| weeks | window | 25 | 5,000 | 2.00 |" in capsys.readouterr().out
    assert main([*wanted, "--mode", "daily"]) == 2
