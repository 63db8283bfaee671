"""The study of associations runs, and shows what it must at a small size."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from decoder.association.em import likelihoods
from decoder.numerics.simplex import contrasts
from simulations.association.bound import by_moments, efficient
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
    quantities = {"limit", "total_variation", "coverage", "level", "power"}
    assert {row["quantity"] for row in rows} == quantities


def test_the_bound_is_that_of_counts_where_bits_tell_all_and_below_the_moments() -> None:
    """Nearly noiseless bits: the covariance of shares that are counted. Noisier: a part of it more.

    The score of drawn reports has the information as its covariance.
    """
    truth = coupled_table(3, 0.4)
    counted = (np.diag(truth.ravel()) - np.outer(truth, truth)) / 1_000
    plain = one_hot_side("a", 3, 0.0, 1e-4, 1 - 1e-4), one_hot_side("b", 3, 0.0, 1e-4, 1 - 1e-4)
    assert efficient(truth, 1_000, *plain).covariance == pytest.approx(counted, abs=2e-6)
    sides = one_hot_side("a", 3, 0.0, 0.25, 0.75), one_hot_side("b", 3, 0.0, 0.25, 0.75)
    best, ours = (made(truth, 1_000, *sides) for made in (efficient, by_moments))
    assert np.linalg.eigvalsh(ours.covariance - best.covariance).min() > -1e-12
    assert best.unbiased_distance() < ours.unbiased_distance() < 1.3 * best.unbiased_distance()
    reports = drawn_reports(truth, 40_000, *sides, np.random.default_rng(2))
    rows, columns = (
        likelihoods(bits, reports.cohorts, side).astype(np.float64)
        for bits, side in zip((reports.first, reports.second), sides, strict=True)
    )
    scores = np.einsum("na,nb->nab", rows, columns).reshape(40_000, 9)
    scores /= (scores @ truth.ravel())[:, None]
    basis = contrasts(9)
    expected = basis.T @ best.weights @ basis / 1_000
    found = np.cov(scores @ basis, rowvar=False)
    assert found == pytest.approx(expected, abs=0.06 * np.abs(expected).max())
