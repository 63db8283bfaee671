"""Two linked metrics: moments, their covariance and test, and EM, each checked a second way."""

from __future__ import annotations

import numpy as np
import pytest

from decoder.association.associations import decode_association
from decoder.association.em import em_step, likeliest_table, likelihoods
from decoder.association.linked import UNLISTED, LinkedReports, co_occurrences
from decoder.association.moments import Moments, fit_moments, moments_independence
from decoder.errors import DecodeError, ImproperError
from decoder.model.noise import RandomString
from decoder.numerics.simplex import project_simplex
from tests.linked_draws import drawn_reports, hashed_side, one_hot_side

SHARES = np.array([[0.30, 0.10], [0.05, 0.25], [0.10, 0.20]])
FIRST, SECOND = hashed_side("a", 3, 8, 2, 1), one_hot_side("b", 2, 0.25, 0.25, 0.75, cohorts=2)


def test_co_occurrences_are_counted_one_by_one() -> None:
    reports = drawn_reports(SHARES, 50, FIRST, SECOND, np.random.default_rng(1))
    counts = co_occurrences(reports, 2)
    for cohort, first, second in [(0, 3, 1), (1, 8, 2), (1, 1, 1)]:
        mine = reports.cohorts == cohort
        both = reports.first[mine, first - 1] & reports.second[mine, second - 1]
        assert counts[cohort, first, second] == both.sum()
        assert counts[cohort, 0, 0] == mine.sum()
        assert counts[cohort, first, 0] == reports.first[mine, first - 1].sum()


def test_the_covariance_is_that_of_many_draws() -> None:
    """800 draws: variances within 5 sd (25 %), no bias beyond 5 standard errors."""
    rng, estimates, stated = np.random.default_rng(2), [], []
    for _ in range(800):
        reports = drawn_reports(SHARES, 1_000, FIRST, SECOND, rng)
        fit = fit_moments(Moments.of(co_occurrences(reports, 2), FIRST, SECOND))
        estimates.append(fit.estimate.ravel())
        if len(stated) < 20:
            stated.append(fit.covariance())
    expected, observed = np.mean(stated, axis=0), np.cov(np.array(estimates).T)
    assert np.abs(np.diag(observed) / np.diag(expected) - 1).max() < 5 * np.sqrt(2 / 800)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs((observed - expected) / scale).max() < 0.25
    errors = np.sqrt(np.diag(expected) / 800)
    assert (np.abs(np.mean(estimates, axis=0) - SHARES.ravel()) < 5 * errors).all()


def test_unlisted_values_have_their_own_place() -> None:
    """A fifth of the mass is in 200 strings of which none is listed, and goes with column 0."""
    rng = np.random.default_rng(3)
    listed = hashed_side("a", 3, 32, 8, 4)
    every = hashed_side("a", 203, 32, 8, 4)
    listed = type(listed)("a", every.values[:3], every.designs[:, :, :3], every.noise)
    second = one_hot_side("b", 2, 0.0, 0.25, 0.75, cohorts=8)
    truth = np.vstack([0.8 * SHARES, np.tile([0.15 / 200, 0.05 / 200], (200, 1))])
    reports = drawn_reports(truth, 60_000, every, second, rng)
    side = listed.with_unlisted(RandomString(32, 2).mean)
    assert side.values[-1] == UNLISTED
    table = decode_association(reports, side, second, likelihood=False)
    wanted = np.vstack([0.8 * SHARES, [[0.15, 0.05]]])
    assert (np.abs(table.estimate - wanted) < 5 * np.sqrt(table.variances)).all()
    without = decode_association(reports, listed, second, likelihood=False)
    assert without.estimate.sum() == pytest.approx(1, abs=0.01)
    assert np.abs(without.estimate[:3] - wanted[:3]).sum() > 0.05


def test_two_values_with_the_same_bits_are_refused() -> None:
    twin = hashed_side("a", 3, 8, 2, 1)
    twin.designs[:, :, 2] = twin.designs[:, :, 1]
    reports = drawn_reports(SHARES, 500, twin, SECOND, np.random.default_rng(5))
    with pytest.raises(ImproperError, match=r"same bits|told apart"):
        decode_association(reports, twin, SECOND)


def test_empty_cohorts_are_skipped_and_foreign_refused() -> None:
    reports = drawn_reports(SHARES, 20_000, FIRST, SECOND, np.random.default_rng(6))
    mine = reports.cohorts == 0
    some = LinkedReports(reports.cohorts[mine], reports.first[mine], reports.second[mine])
    table = decode_association(some, FIRST, SECOND, likelihood=False)
    assert (np.abs(table.estimate - SHARES) < 5 * np.sqrt(table.variances)).all()
    with pytest.raises(DecodeError, match="cohorts"):
        decode_association(
            LinkedReports(reports.cohorts + 7, reports.first, reports.second), FIRST, SECOND
        )


def test_em_climbs_and_its_bound_holds() -> None:
    reports = drawn_reports(SHARES, 3_000, FIRST, SECOND, np.random.default_rng(7))
    best = likeliest_table(reports, FIRST, SECOND)
    assert best.gap < 1
    rows = likelihoods(reports.first, reports.cohorts, FIRST)
    columns = likelihoods(reports.second, reports.cohorts, SECOND)
    _, reached, _ = em_step(best.table, rows, columns)
    table = np.full((3, 2), 1 / 6)
    before = -np.inf
    for _ in range(2_000):
        table, level, gap = em_step(table, rows, columns)
        assert level >= before - 0.05  # float32
        before = level
    _, most, _ = em_step(table, rows, columns)
    assert most - reached < best.gap + 0.05
    _, begun, far = em_step(np.full((3, 2), 1 / 6), rows, columns)
    assert most - begun < far
    assert gap < 1


def test_em_and_moments_agree_at_little_noise() -> None:
    first = one_hot_side("a", 3, 0.0, 0.05, 0.95)
    second = one_hot_side("b", 2, 0.0, 0.05, 0.95)
    reports = drawn_reports(SHARES, 20_000, first, second, np.random.default_rng(8))
    table = decode_association(reports, first, second)
    assert table.likelihood is not None
    assert np.abs(table.likelihood - SHARES).max() < 0.02
    assert (
        np.abs(table.likelihood - project_simplex(table.estimate.ravel()).reshape(3, 2)).max()
        < 0.02
    )


def test_the_level_and_power_of_the_test() -> None:
    """150 independent tables: more than 18 of 150 at .05 happens by chance in 1 of 4,000 runs."""
    rng = np.random.default_rng(9)
    first, second = (one_hot_side(name, 4, 0.25, 0.25, 0.75) for name in "ab")
    margin = np.array([0.4, 0.3, 0.2, 0.1])
    product = np.outer(margin, margin)
    coupled = 0.6 * product + 0.4 * np.diag(margin)
    refused = {"null": 0, "coupled": 0}
    for name, shares, runs in (("null", product, 150), ("coupled", coupled, 20)):
        for _ in range(runs):
            reports = drawn_reports(shares, 5_000, first, second, rng)
            moments = Moments.of(co_occurrences(reports, 1), first, second)
            estimate = fit_moments(moments).estimate
            refused[name] += moments_independence(moments, estimate, 0.05).rejected
    assert 1 <= refused["null"] <= 18
    assert refused["coupled"] >= 18
