"""What the LASSO selects is scored against selections that never saw it."""

import numpy as np
import pytest

from decoder.estimation.ep_iterations import FitProblem
from decoder.estimation.estimate import by_lasso
from decoder.estimation.lasso import select
from decoder.estimation.lasso_path import fit_lasso
from decoder.model.counts import Observed, debias
from decoder.model.noise import BitNoise, CohortNoise, RandomString
from decoder.numerics.bit_tensor import mark_repeated
from decoder.numerics.threads import one_thread
from simulations.experiments.calibration import noisy_counts, shares_of

NOISE = BitNoise(1.0, 0.0, 0.775, 0.225)
LISTS, WRONG, LEVEL = 16, 1280, 0.0003


def drawn(seed, cohorts, bits, wrong, listed=0, values=100):
    """Reports of 100 values; a list of `listed` of them and of wrong strings."""
    rng = np.random.default_rng(seed)
    shares = shares_of(("uniform", "exp", "gauss", "zipf1", "zipf1.5")[seed % 5], values)
    drawn = rng.integers(0, bits, (values + wrong, cohorts, 2), dtype=np.int16)
    positions = mark_repeated(drawn, bits)
    reports = np.full(cohorts, 1_000_000 // cohorts)
    holders = rng.multinomial(reports, shares)
    counts = noisy_counts(rng, positions[:values], holders, reports, NOISE, bits)
    reports = reports.astype(float)
    noise = CohortNoise(NOISE, RandomString(bits, 2), reports, 1.0)
    return Observed(debias(counts, reports, NOISE), positions[values - listed :], noise)


@pytest.mark.parametrize("listed", [0, 90])
def test_one_cohort_of_few_bits_is_answered(listed):
    """100 candidates of 16 bits are sums of one another: a third had no proper covariance."""
    for seed in range(12):
        with one_thread():
            estimate = by_lasso(drawn(seed, 1, 16, 100 - listed, listed), 0.95, 0.05)
        assert np.isfinite(estimate.std_errors).all()
        assert (estimate.std_errors > 0).all()


def test_left_out_candidates_never_take_part():
    observed = drawn(3, 16, 8, 60, 60)
    random = observed.noise.random
    problem = FitProblem(observed.centred, observed.positions, random, observed.noise_of)
    chosen = select(problem, 0.05)
    weights = 1 / np.einsum("jbb->jb", chosen.noise)
    i = int(chosen.members[0])
    data = observed.centred, observed.positions, weights, random, chosen.fit.penalty
    start = chosen.fit.selected, chosen.fit.shares
    others = start[0] != i
    near = fit_lasso(*data, start=(start[0][others], start[1][others]), left_out=i)
    rest = np.arange(len(observed.positions)) != i
    alone = fit_lasso(observed.centred, observed.positions[rest], *data[2:])
    assert i not in near.selected
    assert near.selected.tolist() == np.flatnonzero(rest)[alone.selected].tolist()
    np.testing.assert_allclose(near.shares, alone.shares, rtol=1e-4, atol=1e-9)
