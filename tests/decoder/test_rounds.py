"""Fits that start where another ended, with rounds that keep a covariance, end where all do."""

from dataclasses import replace

import numpy as np
import pytest

from decoder import cavity, rounds
from decoder.bit_tensor import mark_repeated, scatter_sums
from decoder.cavity import FirstFit, fit_cavity
from decoder.errors import ImproperError
from decoder.noise import RandomString
from decoder.progress import silent
from decoder.rounds import Question, settle
from decoder.threads import one_thread

COHORTS, BITS, M, ERROR = 40, 5, 300, 0.02
RANDOM = RandomString(BITS, 1)


def population(seed, count, holding, evenness):
    """Windows of 300 candidates, of which so many are held; and their shares."""
    rng = np.random.default_rng(seed)
    positions = mark_repeated(rng.integers(0, BITS, (M, COHORTS, 1), dtype=np.uint8), BITS)
    held = np.append(rng.dirichlet(np.full(holding, evenness)), np.zeros(M - holding))
    truth = scatter_sums(positions, held, BITS)
    noise = np.broadcast_to(ERROR**2 * np.eye(BITS), (COHORTS, BITS, BITS))
    seen = truth + ERROR * rng.normal(size=(count, COHORTS, BITS)) - RANDOM.mean
    return [Question(one, positions, RANDOM, lambda _: noise) for one in seen], held


@pytest.fixture
def windows():
    with one_thread():
        yield population(8, 4, 200, 2.0)[0]


@pytest.fixture
def solves(monkeypatch):
    """The rounds that take their covariance afresh."""
    solve, done = rounds._solve, []

    def counted(*arguments):
        done.append(arguments)
        return solve(*arguments)

    monkeypatch.setattr(rounds, "_solve", counted)
    return done


def test_a_lagging_score_is_free_of_its_own_site(windows):
    """Another mean of one site moves the scores of the others, and not its own."""
    last = settle(windows[0]).last
    solution, cavity_variance = last.fitted.solution, last.cavity

    def scores(sites):
        target = rounds._target(windows[0], sites)
        residual = solution.weigh(target.reshape(-1, 1)).reshape(target.shape)
        fitted = rounds.unexplained(solution._replace(residual=residual), 0.0, RANDOM)
        return rounds._leave_one_out(windows[0], fitted, sites, cavity_variance).estimates

    before = scores(last.sites)
    for i in range(0, M, 10):
        mean = last.sites.mean + np.where(np.arange(M) == i, 0.3, 0.0)
        after = scores(replace(last.sites, mean=mean))
        assert after[i] == pytest.approx(before[i], abs=1e-9)
        assert np.abs(after - before).max() > 1e-3


def test_windows_that_start_where_the_first_ended_end_where_they_would_alone(windows, solves):
    """Scores within half of their errors, most within a tenth, for fewer covariances."""
    alone = [fit_cavity(window) for window in windows]
    many = len(solves)
    solves.clear()
    first = FirstFit()
    series = [fit_cavity(window, first=first) for window in windows]
    assert (series[0].z == alone[0].z).all()  # the first is the same
    for one, other in zip(series, alone, strict=True):
        assert one.converged
        moved = np.abs(one.z - other.z)
        assert moved.max() < 0.5
        assert np.median(moved) < 0.1
        assert one.scores.std_errors == pytest.approx(other.scores.std_errors, rel=0.05)
    assert len(solves) < 0.7 * many


@pytest.mark.statistical
def test_windows_of_a_series_are_as_near_the_truth_as_alone():
    """Coverage within .005, mean squares within 1 % of those alone; some values held by many."""
    covered, squares = np.zeros(2), np.zeros(2)
    with one_thread():
        for seed in range(5):
            asked, held = population(seed, 7, 30, 0.4)
            first = FirstFit()
            for window in asked:
                for way, fit in enumerate((fit_cavity(window, first=first), fit_cavity(window))):
                    off = fit.scores.estimates - held
                    covered[way] += (np.abs(off) < 1.96 * fit.scores.std_errors).mean() / 35
                    squares[way] += (off**2).mean() / 35
    assert 0.94 < covered[1] < 0.965
    assert covered[0] == pytest.approx(covered[1], abs=0.005)
    assert squares[0] == pytest.approx(squares[1], rel=0.01)


def test_a_window_does_not_depend_on_those_between_it_and_the_first(windows):
    first, again = FirstFit(), FirstFit()
    series = [fit_cavity(window, first=first).z for window in windows]
    fit_cavity(windows[0], first=again)
    assert (fit_cavity(windows[3], first=again).z == series[3]).all()


def test_a_start_that_leads_nowhere_is_given_up(windows, monkeypatch):
    """Then the fit is that of the window alone; so it is for other candidates."""
    first = FirstFit()
    fit_cavity(windows[0], first=first)
    alone = fit_cavity(windows[1])
    shorter = replace(windows[1], positions=windows[1].positions[:-1])
    assert (fit_cavity(shorter, first=first).z == fit_cavity(shorter).z).all()

    def improper(question, progress=silent, tolerance=rounds.TOLERANCE, near=None):
        if near is not None:
            raise ImproperError("no proper posterior")
        return settle(question, progress, tolerance)

    monkeypatch.setattr(cavity, "settle", improper)
    assert (fit_cavity(windows[1], first=first).z == alone.z).all()
