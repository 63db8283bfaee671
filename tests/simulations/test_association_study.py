"""The study of associations runs, and shows what it must at a small size."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from simulations.association.draws import coupled_table, drawn_reports, one_hot_side
from simulations.association.study import rival_table


def test_populations_have_zipf_margins() -> None:
    table = coupled_table(10, 0.5)
    assert table.sum() == pytest.approx(1)
    assert table.sum(axis=1)[1] == pytest.approx(table.sum(axis=1)[0] / 2)


def test_the_rival_finds_a_table_that_is_plain_to_see() -> None:
    sides = (one_hot_side("a", 2, 0.0, 0.05, 0.95), one_hot_side("b", 2, 0.0, 0.05, 0.95))
    truth = np.array([[0.5, 0.1], [0.1, 0.3]])
    reports = drawn_reports(truth, 5_000, *sides, np.random.default_rng(1))
    assert np.abs(rival_table(reports, *sides) - truth).max() < 0.04


def test_the_command_prints_every_method() -> None:
    command = [sys.executable, "-m", "rappor_cli", "simulate", "association", "--reports", "2000"]
    command += ["--runs", "2", "--tests", "2", "--seed", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    methods = {row["method"] for row in rows if row["quantity"] == "total_variation"}
    assert methods == {"pair", "moments", "moments, shrunk", "EM (SQUAREM)", "google's EM"}
    assert {row["quantity"] for row in rows} == {"total_variation", "coverage", "level", "power"}
