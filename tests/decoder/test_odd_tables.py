"""Joint tables at the ends of what is asked: a right answer, or one sentence with the way out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from decoder.association.associations import decode_association
from decoder.association.heavy_unlisted import swapped
from decoder.association.linked import LinkedReports, co_occurrences
from decoder.association.moments import Moments, fit_moments
from decoder.association.table import nearest_table
from decoder.errors import DecodeError, ImproperError
from decoder.model.noise import RandomString
from decoder.numerics.simplex import project_simplex
from decoder.typing import Floats
from simulations.populations.pairs import coupled_table
from tests.linked_draws import drawn_reports, hashed_side, one_hot_side

SHARES = np.array([[0.6, 0.1], [0.1, 0.2]])


@pytest.mark.parametrize("noise", [(0.5, 0.5), (0.5, 0.25), (0.0, 0.25), (0.0, 0.47)])
def test_nearest_tables_are_nearest_at_any_noise(noise: tuple[float, float]) -> None:
    """No change of sum 0 that keeps shares above 0 lowers the distance: its gradient is even.

    At f = .5, p = .5, q = .75 a step as short as the curvature of the sum asks for stopped 300
    steps later a total variation of .13 away.
    """
    sides = tuple(one_hot_side(name, 10, *noise, 0.75) for name in "ab")
    reports = drawn_reports(coupled_table(10, 10, 0.5), 20_000, *sides, np.random.default_rng(1))
    fit = fit_moments(Moments.of(co_occurrences(reports, 1), *sides))
    found = nearest_table(fit.estimate, fit.curvature)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    gradient = (fit.curvature @ (found - fit.estimate).ravel()).reshape(found.shape)
    held = found > 1e-6
    scale = np.abs(gradient - gradient[held].mean()).max()
    assert np.ptp(gradient[held]) < 1e-3 * scale
    assert gradient.min() > gradient[held].mean() - 1e-3 * scale


def test_the_nearest_table_to_one_value_is_whole() -> None:
    assert nearest_table(np.array([[1.2]]), np.array([[3.0]])) == pytest.approx(1)


@pytest.mark.parametrize("prob_p", [0.4999, 0.49999])
def test_noise_that_leaves_nothing_is_named(prob_p: float) -> None:
    """Standard errors are 600,000 and more here; rounding had made them 200."""
    sides = tuple(one_hot_side(name, 2, 0.0, prob_p, 1 - prob_p) for name in "ab")
    reports = drawn_reports(SHARES, 2_000, *sides, np.random.default_rng(2))
    with pytest.raises(ImproperError, match=r"differs by .* larger epsilon"):
        decode_association(reports, *sides)


def test_strong_noise_has_the_errors_of_theory() -> None:
    """Two bits a side: a cell's variance is a quarter of the product of both sides' noise, by N."""
    sides = tuple(one_hot_side(name, 2, 0.0, 0.49, 0.51) for name in "ab")
    reports = drawn_reports(SHARES, 2_000, *sides, np.random.default_rng(3))
    table = decode_association(reports, *sides)
    expected = (sides[0].zeros * sides[1].zeros / 4 / 2_000) ** 0.5
    assert np.sqrt(table.variances) == pytest.approx(np.full((2, 2), expected), rel=0.01)


def test_one_report_of_a_device_that_is_alone() -> None:
    """Its interval is everything, and nothing is said to go together."""
    sides = one_hot_side("a", 2, 0.0, 0.25, 0.75), one_hot_side("b", 2, 0.0, 0.25, 0.75)
    table = decode_association(drawn_reports(SHARES, 1, *sides, np.random.default_rng(4)), *sides)
    assert (table.cells.high - table.cells.low).min() > 0.5
    assert not table.independence.rejected


def test_empty_and_foreign_reports_are_refused() -> None:
    sides = one_hot_side("a", 2, 0.0, 0.25, 0.75), one_hot_side("b", 2, 0.0, 0.25, 0.75)
    none = np.zeros((0, 2), dtype=np.uint8)
    with pytest.raises(DecodeError, match="no linked reports: give a longer window"):
        LinkedReports(np.zeros(0, dtype=np.int64), none, none)
    bits = np.eye(2, dtype=np.uint8)
    for cohort in (-1, 1):
        with pytest.raises(DecodeError, match=f"cohort {cohort}, but the cohorts are 0 to 0"):
            decode_association(LinkedReports(np.array([0, cohort]), bits, bits), *sides)
    alone = one_hot_side("a", 1, 0.0, 0.25, 0.75)
    reports = drawn_reports(np.array([[0.5, 0.5]]), 100, alone, sides[1], np.random.default_rng(5))
    with pytest.raises(ImproperError, match=r"one value alone.* give it two or more"):
        decode_association(reports, alone, sides[1])
    more = one_hot_side("b", 2, 0.0, 0.25, 0.75, cohorts=3)
    with pytest.raises(DecodeError, match="'a' has 1 cohorts and 'b' 3"):
        decode_association(LinkedReports(np.array([0, 0]), bits, bits), sides[0], more)


@pytest.mark.parametrize(
    "shares",
    [
        [[0.999, 0.0], [0.0, 0.001]],
        pytest.param([[1.0, 0.0], [0.0, 0.0]], marks=pytest.mark.long),
        [[0.3, 0.7], [0.0, 0.0]],
    ],
    ids=["skewed", "all of one pair", "a margin of nothing"],
)
def test_intervals_hold_at_the_edge(shares: list[list[float]]) -> None:
    """60 draws of 4 cells of 2,000 reports: .95 within 5 standard errors of correlated cells."""
    truth: Floats = np.array(shares)
    sides = one_hot_side("a", 2, 0.0, 0.25, 0.75), one_hot_side("b", 2, 0.0, 0.25, 0.75)
    rng, covered, refused = np.random.default_rng(6), [], 0
    for _ in range(60):
        reports = drawn_reports(truth, 2_000, *sides, rng)
        table = decode_association(reports, *sides, likelihood=False)
        cells = table.cells
        covered.append(((cells.low <= truth) & (truth <= cells.high)).mean())
        refused += table.independence.rejected
    assert abs(np.mean(covered) - 0.95) < 5 * np.std(covered) / 60**0.5 + 0.01
    if truth[0, 0] != 0.999:
        assert refused < 12  # of 60 at .05: as many by chance in 1 of 10,000 seeds
    assert project_simplex(table.estimate.ravel()).sum() == pytest.approx(1)


def test_turned_tables_have_turned_covariances() -> None:
    """Also what heavy values add that one side, of either, does not list."""
    second = one_hot_side("b", 3, 0.0, 0.25, 0.75, cohorts=16)
    every = hashed_side("a", 6, 64, 16, 1)
    listed = replace(every, values=every.values[:5], designs=every.designs[:, :, :5])
    listed = listed.with_unlisted(RandomString(64, 2).mean)
    truth = np.outer([0.04, 0.025, 0.015, 0.012, 0.008, 0.9], [0.5, 0.3, 0.2])
    reports = drawn_reports(truth, 20_000, every, second, np.random.default_rng(8))
    straight = fit_moments(Moments.of(co_occurrences(reports, 16), listed, second))
    reports = LinkedReports(reports.cohorts, reports.second, reports.first)
    turned = fit_moments(Moments.of(co_occurrences(reports, 16), second, listed))
    expected = swapped(straight.covariance(), (6, 3))
    assert turned.covariance() == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(
    "turned", [False, pytest.param(True, marks=pytest.mark.long)], ids=["first", "second"]
)
def test_intervals_allow_for_heavy_unlisted_values(turned: bool) -> None:
    """It holds .9 of the mass: coverage was .56 while its bits were taken for a random string's.

    10 runs of 18 cells with other bits each: below .8 by chance in 1 of 1,000 seeds.
    """
    rng, covered = np.random.default_rng(7), []
    margin = np.array([0.04, 0.025, 0.015, 0.012, 0.008, 0.9])
    truth = np.outer(margin, [0.5, 0.3, 0.2])
    second = one_hot_side("b", 3, 0.0, 0.25, 0.75, cohorts=16)
    for run in range(10):
        every = hashed_side("a", 6, 64, 16, run)
        listed = replace(every, values=every.values[:5], designs=every.designs[:, :, :5])
        listed = listed.with_unlisted(RandomString(64, 2).mean)
        reports = drawn_reports(truth, 20_000, every, second, rng)
        sides, wanted = (listed, second), truth
        if turned:
            reports = LinkedReports(reports.cohorts, reports.second, reports.first)
            sides, wanted = (second, listed), truth.T
        fit = fit_moments(Moments.of(co_occurrences(reports, 16), *sides))
        errors = np.sqrt(np.diag(fit.covariance())).reshape(wanted.shape)
        covered.append((np.abs(fit.estimate - wanted) < 1.96 * errors).mean())
    assert np.mean(covered) > 0.8
