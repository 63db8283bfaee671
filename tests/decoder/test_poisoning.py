"""No forger does more than the bound says, and the best one does what it says."""

import numpy as np
import pytest

from decoder import Candidates, DecodeOptions, decode, metric_candidates
from decoder.estimation.estimate import by_cavity, by_lasso
from decoder.model.counts import observe
from decoder.model.noise import BitNoise
from decoder.numerics.bit_tensor import one_thread
from decoder.results import selective_intervals as selective
from rappor_core.aggregate import Aggregate
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.params import RapporParams
from simulations.populations.draws import bits_of_value
from tests.decoder.params_support import rappor

TARGET = 40  # a value that nobody holds
SYMBOLS = RapporParams(4, 1, 64, TwoRoundMechanism.symbols(4, 3.0, 2.0), "symbol")


def test_cohorts_are_filled_by_gain_of_reports():
    gains = selective.Gains(
        np.array([[1.0], [3.0], [1.0]]), np.zeros((3, 1)), np.array([0.25, 0.5, 0.25])
    )
    assert selective.smallest_forgery(gains, np.array([1.5]))[0] == pytest.approx(0.25)
    assert selective.smallest_forgery(gains, np.array([3.5]))[0] == pytest.approx(0.625)
    assert selective.smallest_forgery(gains, np.array([9.0]))[0] == 1.0
    assert selective.largest_shift(gains, 0.1)[0] == pytest.approx(0.6)


@pytest.mark.parametrize("one", [True, False])
def test_gains_are_of_the_best_report(one):
    """Every report that can be sent, one by one: 3 bits or 3 symbols."""
    rng, noise = np.random.default_rng(4), BitNoise(0.8, 0.2, 0.3, 0.9)
    g, honest = rng.normal(size=(2, 3, 1)), rng.normal(size=(2, 3, 1))
    reports = np.eye(3) if one else np.array(list(np.ndindex(2, 2, 2)))
    sent = (reports - noise.p_star) / noise.gap - 0.25
    shifts = sent @ g[:, :, 0].T - (g * honest).sum(axis=1).T  # (reports, m)
    gains = selective.forgery_gains(g, honest, 0.25, noise, np.ones(2), one=one)
    np.testing.assert_allclose(gains.up[:, 0], np.maximum(shifts.max(axis=0), 0))
    np.testing.assert_allclose(gains.down[:, 0], np.maximum(-shifts.min(axis=0), 0))


def attacked(honest, weights, fraction, most):
    """The aggregate with forged reports in the place of that part of the honest ones.

    The best bits for the target, in the best cohorts; most: part of a cohort that is forged.
    """
    reports, counts = np.array(honest.reports_per_cohort), np.array(honest.bit_counts, float)
    best = weights > 0
    if honest.params.encoding == "symbol":
        best = np.arange(honest.params.num_bits) == weights.argmax(axis=1)[:, None]
    worth = (weights * (best - counts / reports[:, None])).sum(axis=1) / reports
    forged, left = np.zeros(len(reports)), fraction * reports.sum()
    for cohort in np.argsort(-worth):
        forged[cohort] = min(left, most * reports[cohort])
        left -= forged[cohort]
    counts += forged[:, None] * (best - counts / reports[:, None])
    rows = tuple(map(tuple, np.rint(counts).astype(int).tolist()))
    return Aggregate(honest.metric, honest.params, honest.reports_per_cohort, rows)


@pytest.mark.parametrize("method", ["cavity", pytest.param("lasso", marks=pytest.mark.long)])
@pytest.mark.parametrize("encoding", ["bits", "symbols"])
def test_no_forger_does_better_than_the_bound(make_aggregate, values, method, encoding, params):
    """The best forgeries, over all cohorts or few: a bound of first order, never 15 % too much."""
    params = SYMBOLS if encoding == "symbols" else params
    honest = make_aggregate(params=params, num_reports=400_000)
    listed = Candidates.from_strings(values)
    with one_thread():
        observed = observe(honest, listed.positions(params), 1.0)
        fit = by_cavity(observed, 0.95) if method == "cavity" else by_lasso(observed, 0.95, 0.05)
    weights = fit.directions(np.array([TARGET])).reshape(observed.bit_shares.shape)
    for fraction, least in ((0.01, 0.8), (0.03, 0.5)):
        said = []
        for most in (fraction, 0.1, 0.3, 1.0):
            drawn = attacked(honest, weights, fraction, most)
            table = decode(drawn, listed, DecodeOptions(method=method)).candidates
            if table.detected[TARGET]:
                said.append(table.forged[TARGET])
        assert least * fraction < max(said) < 1.15 * fraction


def test_own_bits_are_forged_by_showing_them():
    params = rappor(3, 1, 1, 0, 0.25, 0.75, encoding="one_hot")
    aggregate = Aggregate(
        "theme", params, (10_000,), ((5_500, 4_000, 2_500),),
        definition={"categories": ["light", "dark", "none"]},
    )  # fmt: skip
    row = decode(aggregate, metric_candidates(aggregate)).detected[0]
    assert row.value == "light"  # (.55 - .25) / .5 = .6; a report that shows it weighs 1.5
    assert row.forged == pytest.approx(0.6 / 1.5)
    assert row.forged_low == pytest.approx((0.6 - row.low) / 1.5, rel=0.05)
    assert row.forged_shift == pytest.approx(0.01 * 1.5)


@pytest.fixture
def unequal(params, values, shares):
    """32 cohorts of 2,000 to 30,000 reports."""
    rng = np.random.default_rng(6)
    cohorts = 2_000 + rng.multinomial(400_000, rng.dirichlet(np.full(params.num_cohorts, 2.0)))
    truth = np.zeros((params.num_cohorts, params.num_bits), dtype=int)
    for cohort, holders in enumerate(rng.multinomial(cohorts, shares)):
        for value, number in enumerate(holders):
            truth[cohort, bits_of_value(values[value], value, cohort, params)] += number
    counts = rng.binomial(truth, params.q_star)
    counts += rng.binomial(cohorts[:, None] - truth, params.p_star)
    return Aggregate("x", params, tuple(cohorts.tolist()), tuple(map(tuple, counts.tolist())))


def shaken(unequal, values, sign):
    """The list, its decoding, and the weights of bits for the first value, or against it."""
    listed = Candidates.from_strings(values)
    with one_thread():
        observed = observe(unequal, listed.positions(unequal.params), 1.0)
        weights = by_cavity(observed, 0.95).directions(np.array([0]))
    return listed, decode(unequal, listed), sign * weights.reshape(observed.bit_shares.shape)


@pytest.mark.parametrize("sign", [1, -1])
def test_shaking_reports_stay_within_the_bound(unequal, values, sign):
    """1 % of the reports, a quarter of a cohort at most; with their cohorts 1 to 5 times as far."""
    listed, clean, weights = shaken(unequal, values, sign)
    drawn = attacked(unequal, weights, 0.01, 0.25)
    changed = np.array(drawn.bit_counts) != np.array(unequal.bit_counts)
    forged = np.flatnonzero(changed.any(axis=1))
    decoding = decode(drawn, listed)
    found = np.flatnonzero(clean.candidates.detected)
    moved = np.abs(decoding.candidates.estimate - clean.candidates.estimate)[found]
    assert (moved <= clean.candidates.forged_shift[found]).all()
    assert decoding.summary.num_detected >= 0.8 * len(found)
    assert set(decoding.diagnostics.left_out) == set(forged.tolist())
    assert "left out (cohort" in decoding.warnings[0]
    assert (decoding.diagnostics.cohort_z[forged] > 4).any()
    assert clean.diagnostics.left_out == ()


@pytest.mark.parametrize("sign", [1, -1])
def test_thin_forgers_are_within_the_stated_bound(unequal, values, sign):
    """No cohort is plain; to first order of the clean counts they are up to 1.42 times as far."""
    listed, clean, weights = shaken(unequal, values, sign)
    decoding = decode(attacked(unequal, weights, 0.01, 0.012), listed)
    found = np.flatnonzero(clean.candidates.detected & decoding.candidates.detected)
    moved = np.abs(decoding.candidates.estimate - clean.candidates.estimate)[found]
    assert decoding.diagnostics.left_out == ()
    assert 0 in found
    assert moved[0] > 0.5 * clean.candidates.forged_shift[0]
    assert (moved <= decoding.candidates.forged_shift[found]).all()
