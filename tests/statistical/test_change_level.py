"""The test for change holds its level whether or not devices repeat their permanent bits.

Null hypothesis: the population's shares are the same in both windows. Devices send 10 reports a
window of one value, with one permanent response. 60 pairs of windows of 12 values: 720 tests; at a
true level of 5 % the share of rejections has a standard deviation of .8 % if they were independent.
A correct test is rejected here less than once in 10,000 (bound at 4.5 standard deviations); so it
is with the 12 pairs of the quick form, whose bound is as much wider, and which a test that takes
each report for a device must fail, too.
"""

import numpy as np
import pytest

from decoder import Candidates
from decoder.comparison.windows import compare_windows
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams

PARAMS = RapporParams.rappor(
    num_bits=32, num_hashes=2, num_cohorts=32, prob_f=0.25, prob_p=0.25, prob_q=0.75
)
VALUES = Candidates.from_strings([f"v{i}" for i in range(12)])
DEVICES, REPORTS, PAIRS = 6_000, 10, 60


def highest(pairs: int) -> float:
    """The most that a correct test rejects, of so many pairs of windows."""
    return float(0.05 + 4.5 * np.sqrt(0.05 * 0.95 / (12 * pairs)))


def _devices(rng):
    """Cohort, value and permanent bits of each device."""
    cohort, value = rng.integers(0, 32, DEVICES), rng.integers(0, 12, DEVICES)
    bits = np.zeros((DEVICES, 33), dtype=bool)
    positions = VALUES.positions(PARAMS)[value, cohort]
    bits[np.arange(DEVICES)[:, None], positions] = True
    uniform = rng.random((DEVICES, 32))
    return cohort, np.where(uniform < 0.25, uniform < 0.125, bits[:, :32])


def _window(rng, cohort, permanent):
    shown = rng.binomial(REPORTS, np.where(permanent, 0.75, 0.25))
    counts = np.zeros((32, 32), dtype=int)
    np.add.at(counts, cohort, shown)
    reports = REPORTS * np.bincount(cohort, minlength=32)
    return Aggregate("t", PARAMS, tuple(reports.tolist()), tuple(map(tuple, counts.tolist())))


def _naive_p(before, after):
    """A test that takes each report for a device of its own: what must not be done."""
    change = compare_windows(before, after, VALUES, 1.0)
    chance = PARAMS.p_star * (1 - PARAMS.p_star) / (PARAMS.q_star - PARAMS.p_star) ** 2
    positions = 2 * 32 * (1 - 2 / 32)
    error = np.sqrt(2 * chance * 32 / before.num_reports / positions)
    return np.abs(change.difference) / error > 1.96


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("same_devices", "pairs"), [(False, 12), pytest.param(True, PAIRS, marks=pytest.mark.long)]
)
def test_level_of_the_test_for_change(same_devices, pairs):
    rng = np.random.default_rng(31)
    rejected, naive = [], []
    for _ in range(pairs):
        devices = _devices(rng)
        before = _window(rng, *devices)
        after = _window(rng, *(devices if same_devices else _devices(rng)))
        rejected.append((compare_windows(before, after, VALUES, REPORTS).p_value < 0.05).mean())
        naive.append(_naive_p(before, after).mean())
    assert np.mean(rejected) < highest(pairs)
    if not same_devices:
        assert np.mean(rejected) > 0.01
        assert np.mean(naive) > 0.15 > highest(pairs)
