"""Fits that start where another ended, with rounds that keep a covariance, end where all do."""

from dataclasses import replace

import numpy as np
import pytest

from decoder.errors import ImproperError
from decoder.estimation import ep_iterations as rounds
from decoder.estimation import leave_one_out as cavity
from decoder.estimation.ep_iterations import FitProblem, run_ep
from decoder.estimation.leave_one_out import WarmStarts, fit_cavity
from decoder.model.noise import RandomString
from decoder.numerics.bit_tensor import mark_repeated, one_thread, scatter_sums
from decoder.progress import silent

COHORTS, BITS, M, ERROR = 40, 5, 300, 0.02
RANDOM = RandomString(BITS, 1)


def listed(rng):
    return mark_repeated(rng.integers(0, BITS, (M, COHORTS, 1), dtype=np.uint8), BITS)


def seen(positions, held, rng, error=ERROR):
    noise = np.broadcast_to(error**2 * np.eye(BITS), (COHORTS, BITS, BITS))
    shares = scatter_sums(positions, held, BITS) + error * rng.normal(size=(COHORTS, BITS))
    return FitProblem(shares - RANDOM.mean, positions, RANDOM, lambda _: noise)


def population(seed, count, holding, evenness, error=ERROR):
    """Windows of 300 candidates, of which so many are held; and their shares."""
    rng = np.random.default_rng(seed)
    positions = listed(rng)
    held = np.append(rng.dirichlet(np.full(holding, evenness)), np.zeros(M - holding))
    return [seen(positions, held, rng, error) for _ in range(count)], held


@pytest.fixture
def windows():
    with one_thread():
        yield population(8, 4, 200, 2.0, 2 * ERROR)[0]


@pytest.fixture
def solves(monkeypatch):
    """The rounds that take their covariance afresh."""
    solve, done = rounds._solve, []

    def counted(*arguments):
        done.append(arguments)
        return solve(*arguments)

    monkeypatch.setattr(rounds, "_solve", counted)
    return done


def test_lagging_scores_are_free_of_their_site(windows):
    last = run_ep(windows[0]).last

    def scores(sites):
        fitted = rounds._weighed(windows[0], sites, last.fitted)
        return rounds._leave_one_out(windows[0], fitted, sites, last.cavity).estimates

    before = scores(last.sites)
    for i in range(0, M, 10):
        mean = last.sites.mean + np.where(np.arange(M) == i, 0.3, 0.0)
        after = scores(replace(last.sites, mean=mean))
        assert after[i] == pytest.approx(before[i], abs=1e-9)
        assert np.abs(after - before).max() > 1e-3


def test_warm_starts_end_where_cold_ones_do(windows, solves):
    """Scores within half of their errors, most within a tenth, for fewer covariances."""
    alone = [fit_cavity(window) for window in windows]
    many = len(solves)
    solves.clear()
    warm_starts = WarmStarts()
    series = [fit_cavity(window, warm_starts=warm_starts) for window in windows]
    assert (series[0].z == alone[0].z).all()  # the first is the same
    for one, other in zip(series, alone, strict=True):
        assert one.converged
        moved = np.abs(one.z - other.z)
        assert moved.max() < 0.5
        assert np.median(moved) < 0.1
        assert one.scores.std_errors == pytest.approx(other.scores.std_errors, rel=0.05)
    assert len(solves) < 0.7 * many


def test_windows_do_not_depend_on_those_between(windows):
    warm_starts, again = WarmStarts(), WarmStarts()
    series = [fit_cavity(window, warm_starts=warm_starts).z for window in windows]
    fit_cavity(windows[0], warm_starts=again)
    assert (fit_cavity(windows[3], warm_starts=again).z == series[3]).all()


def test_a_start_that_leads_nowhere_is_given_up(windows, monkeypatch):
    warm_starts = WarmStarts()
    fit_cavity(windows[0], warm_starts=warm_starts)
    alone = fit_cavity(windows[1])
    shorter = replace(windows[1], positions=windows[1].positions[:-1])
    assert (fit_cavity(shorter, warm_starts=warm_starts).z == fit_cavity(shorter).z).all()

    def improper(problem, progress=silent, tolerance=rounds.TOLERANCE, near=None):
        if near is not None:
            raise ImproperError("no proper posterior")
        return run_ep(problem, progress, tolerance)

    monkeypatch.setattr(cavity, "run_ep", improper)
    assert (fit_cavity(windows[1], warm_starts=warm_starts).z == alone.z).all()


@pytest.mark.parametrize("unlike", ["error", "population"])
def test_a_window_unlike_those_before_is_fitted_anew(windows, unlike):
    warm_starts, one, rng = WarmStarts(), windows[1], np.random.default_rng(3)
    fit_cavity(windows[0], warm_starts=warm_starts)
    other = {
        "error": replace(one, noise_of=lambda shares: 3 * one.noise_of(shares)),
        "population": seen(one.positions, np.where(np.arange(M) == 5, 1.0, 0.0), rng),
    }[unlike]
    assert (fit_cavity(other, warm_starts=warm_starts).z == fit_cavity(other).z).all()
    assert warm_starts.near(other) is not None
    assert warm_starts.near(one) is not None  # the first is still known


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_newly_held_values_are_found_at_once(seed):
    """One more value of 8 errors, where the sites were certain of a 0: as of a fit started over."""
    rng = np.random.default_rng(seed)
    positions, error = listed(rng), 2 * ERROR
    held = np.where(np.arange(M) == 0, 1.0, 0.0)
    share = 8 * error / np.sqrt(COHORTS * (1 - 1 / BITS))
    more = np.where(np.arange(M) == 1, share, (1 - share) * held)
    with one_thread():
        before = seen(positions, held, rng, error)
        end = sure_of_nothing(before, run_ep(before).last, held)
        problem = seen(positions, more, rng, error)
        near = rounds.warm_start(problem, end)
        assert near is not None
        scores = run_ep(problem, tolerance=cavity.NEAR_TOLERANCE, near=near).last.scores
        alone = run_ep(problem).last.scores
    assert scores.std_errors == pytest.approx(alone.std_errors, rel=0.01)
    assert scores.z == pytest.approx(alone.z, abs=0.2)


def sure_of_nothing(problem, last, held):
    """The end of a fit with the sites of all that is not held at 0, and all that follows."""
    mean, variance = np.where(held, last.sites.mean, 0), np.where(held, last.sites.variance, 1e-12)
    sites = replace(last.sites, mean=mean, variance=variance)
    fitted = rounds._solve(problem, last.noise, sites, 0.0)
    return replace(last, sites=sites, fitted=fitted, cavity=rounds._cavity(fitted, sites))


def test_the_prior_is_learnt_from_the_window_itself(windows):
    end = run_ep(windows[0]).last
    prior = replace(end.prior, weights=end.prior.weights[:4], centers=end.prior.centers[:3])
    low = replace(end, prior=prior)
    near = rounds.warm_start(windows[1], low)
    assert near.prior.centers[-1] > near.scores.estimates.max() / 1.35
    assert near.prior.weights[1:].sum() > 0.2  # 200 of the 300 are held
