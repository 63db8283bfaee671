"""`rappor simulate numbers`: one run's table, ours beside the rivals; and what the rivals are."""

import json
import math

import numpy as np
import pytest

from rappor_cli.main import main
from simulations.numbers.rivals import square_wave_chances


@pytest.mark.long
@pytest.mark.statistical
def test_tables_have_every_design(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Seed and sizes are fixed, so that the order of one answer for life is, too."""
    command = ["simulate", "numbers", "--runs", "1", "--devices", "100000", "--life", "2"]
    assert main([*command, "--seed", "1", "--json"]) == 0
    rows = {row["design"]: row for row in json.loads(capsys.readouterr().out)}
    assert len(rows) == 6
    ours, once = rows["thresholds"], rows["once: thresholds"]
    assert 0.9 < ours["coverage"] < 0.99
    for name in ("once: square wave, our fit", "once: HaarHRR, our fit"):
        assert rows[name]["w1"] > 1.2 * once["w1"]
        assert rows[name]["coverage"] is None


def test_the_square_wave_keeps_its_promise() -> None:
    """The ratio of the densities of any two cells is e^epsilon at most; they sum to 1."""
    for epsilon in (math.log(3), 4.0):
        chances = square_wave_chances(epsilon, 33)
        assert chances.sum(axis=0) == pytest.approx(np.ones(33))
        assert (chances.max(axis=1) / chances.min(axis=1)).max() <= math.exp(epsilon) * 1.02


def test_one_design_alone_and_no_other_name(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", "numbers", "--runs", "1", "--devices", "1000", "--life", "2", "--json"]
    assert main([*words, "--design", "once: HaarHRR, our fit", "--seed", "1"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1
    assert main([*words, "--design", "none"]) == 2
