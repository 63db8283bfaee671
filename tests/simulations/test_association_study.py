"""The study of associations runs, and shows what it must at a small size."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import chi2

from decoder.association.associations import MOST_STEPS
from decoder.association.em import likeliest_table, likelihoods
from decoder.numerics.simplex import contrasts
from simulations.association.bound import by_moments, efficient
from simulations.association.draws import coupled_table, drawn_reports, hashed_side, one_hot_side
from simulations.association.published_em import PublishedEm, PublishedInference
from simulations.association.shapes import SHAPES, Shape
from simulations.association.study import StudySize, association_study


def test_populations_have_zipf_margins() -> None:
    table = coupled_table(10, 10, 0.5)
    assert table.sum() == pytest.approx(1)
    assert table.sum(axis=1)[1] == pytest.approx(table.sum(axis=1)[0] / 2)


def test_quantiles_pair_in_oblong_tables() -> None:
    table = coupled_table(3, 2, 1.0)  # margins 6, 3, 2 of 11 and 2, 1 of 3
    assert table == pytest.approx(np.array([[18, 0], [4, 5], [0, 6]]) / 33)
    assert SHAPES["500x2"].truth(0.5).sum(axis=0) == pytest.approx([2 / 3, 1 / 3])
    assert SHAPES["100x20"].epsilon(0.0, 0.25) == pytest.approx(6.59, abs=0.01)


RIVAL_SIDES = (
    hashed_side("a", 5, 16, 3, 1),
    one_hot_side("b", 2, 0.0, 0.25, 0.75, cohorts=3),
)


def test_the_rival_climbs_to_our_ems_summit() -> None:
    """The rival far beyond its stop, ours at its own: one likelihood has one highest table."""
    truth = coupled_table(5, 2, 0.5)
    reports = drawn_reports(truth, 4_000, *RIVAL_SIDES, np.random.default_rng(1))
    summit = PublishedEm(reports, *RIVAL_SIDES).fit(most=50_000, least_change=1e-9)
    assert summit.change < 1e-9
    ours = likeliest_table(reports, *RIVAL_SIDES, MOST_STEPS)
    assert ours.gap < 1
    assert np.abs(summit.shares - ours.table).max() < 1e-3
    sides = RIVAL_SIDES[::-1]
    turned = type(reports)(reports.cohorts, reports.second, reports.first)
    assert PublishedEm(turned, *sides).fit(most=50_000, least_change=1e-9).shares == pytest.approx(
        summit.shares.T, abs=1e-6
    )


def test_the_rival_stops_where_it_is_published_to() -> None:
    """At a change below 1e-6, or after 1,000 steps; its first step is Bayes' rule, by hand."""
    truth = coupled_table(5, 2, 0.5)
    reports = drawn_reports(truth, 2_000, *RIVAL_SIDES, np.random.default_rng(2))
    em = PublishedEm(reports, *RIVAL_SIDES)
    found = em.fit()
    assert (found.change < 1e-6) != (found.steps == 1_000)
    assert em.fit(most=found.steps - 1).change >= 1e-6
    posterior = np.zeros((5, 2))
    for cohort, first, second in zip(reports.cohorts, reports.first, reports.second, strict=True):
        given = []
        for side, bits in zip(RIVAL_SIDES, (first, second), strict=True):
            ones = side.noise.p_star + side.noise.gap * side.designs[cohort]
            given.append(np.where(bits[:, None] == 1, ones, 1 - ones).prod(axis=0))
        joint = np.outer(*given)
        posterior += joint / joint.sum() / len(reports)
    assert em.fit(most=1).shares == pytest.approx(posterior)


def test_the_rival_infers_as_the_paper_does() -> None:
    """The information is minus the second derivative of the log-likelihood, by differences."""
    truth = coupled_table(3, 2, 0.5)
    sides = one_hot_side("a", 3, 0.0, 0.25, 0.75), one_hot_side("b", 2, 0.0, 0.25, 0.75)
    reports = drawn_reports(truth, 5_000, *sides, np.random.default_rng(3))
    em = PublishedEm(reports, *sides)
    shares = em.fit().shares

    def level(table: np.ndarray) -> float:
        return float(np.log(np.einsum("na,ab,nb->n", em.rows, table, em.columns)).sum())

    step, found = 1e-4, em.information(shares)
    for cell, other in ((0, 0), (1, 4), (5, 2)):
        moved = [np.zeros(6), np.zeros(6)]
        moved[0][cell], moved[1][other] = step, step
        a, b = (one.reshape(3, 2) for one in moved)
        curve = level(shares + a + b) - level(shares + a - b)
        curve += level(shares - a - b) - level(shares - a + b)
        assert found[cell, other] == pytest.approx(-curve / 4 / step**2, rel=1e-3)
    said = PublishedInference(shares, found)
    assert said.std_errors.ravel() ** 2 == pytest.approx(np.diag(np.linalg.inv(found)))
    assert 0 <= said.covered(truth) <= 1
    product = np.outer(shares.sum(axis=1), shares.sum(axis=0)).ravel() - shares.ravel()
    assert said.p_value() == pytest.approx(float(chi2.sf(product @ found @ product, 2)))
    singular = PublishedInference(shares, np.zeros((6, 6)))
    assert singular.covered(truth) == 0  # no interval is no cover


def test_a_study_of_hashed_values_has_every_method() -> None:
    small = Shape(6, 3, bits=16, cohorts=4)
    rows = list(association_study(2_000, StudySize(2, 1, 2), np.random.default_rng(4), 0.5, small))
    found = {(row.method, row.quantity): row.runs for row in rows if row.setting.startswith("f=0")}
    assert found == {
        ("pair", "total_variation"): 2, ("pair", "coverage"): 2, ("pair", "seconds"): 2,
        ("moments", "total_variation"): 2, ("moments", "coverage"): 2, ("moments", "seconds"): 2,
        ("moments, shrunk", "total_variation"): 2,
        ("EM (SQUAREM)", "total_variation"): 1, ("EM (SQUAREM)", "seconds"): 1,
        ("google's EM", "total_variation"): 1, ("google's EM", "coverage"): 1,
        ("google's EM", "seconds"): 1,
        ("pair", "level"): 2, ("moments", "level"): 2, ("google's EM", "level"): 1,
    }  # fmt: skip


@pytest.mark.long
def test_the_command_prints_every_method() -> None:
    command = [sys.executable, "-m", "rappor_cli", "simulate", "association", "--reports", "2000"]
    command += ["--runs", "2", "--tests", "2", "--seed", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout)
    methods = {row["method"] for row in rows if row["quantity"] == "total_variation"}
    assert methods == {"pair", "moments", "moments, shrunk", "EM (SQUAREM)", "google's EM"}
    quantities = {"limit", "total_variation", "coverage", "level", "power", "seconds"}
    assert {row["quantity"] for row in rows} == quantities


def test_the_bound_is_between_counts_and_moments() -> None:
    """Nearly noiseless bits: the covariance of shares that are counted. Noisier: a part of it more.

    The score of drawn reports has the information as its covariance.
    """
    truth = coupled_table(3, 3, 0.4)
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
