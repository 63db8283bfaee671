"""Repeated reports that nobody declared are told from values that the list misses."""

import numpy as np
import pytest

from decoder import Candidates, decode
from rappor_core.aggregate import Aggregate

DEVICES, REPORTS = 4_000, 10


def repeated(params, values, shares, rng, reports):
    """Devices with a permanent response each, which they report so many times."""
    listed = Candidates.from_strings(values)
    cohort = rng.integers(0, params.num_cohorts, DEVICES)
    held = listed.positions(params)[rng.choice(len(values), DEVICES, p=shares), cohort]
    bits = np.zeros((DEVICES, params.num_bits + 1), dtype=bool)
    bits[np.arange(DEVICES)[:, None], held] = True
    lie = rng.random((DEVICES, params.num_bits))
    permanent = np.where(lie < 0.25, lie < 0.125, bits[:, :-1])
    counts = np.zeros((params.num_cohorts, params.num_bits), dtype=int)
    np.add.at(counts, cohort, rng.binomial(reports, np.where(permanent, 0.75, 0.25)))
    sizes = reports * np.bincount(cohort, minlength=params.num_cohorts)
    return Aggregate("t", params, tuple(sizes.tolist()), tuple(map(tuple, counts.tolist())))


@pytest.mark.parametrize("seed", range(3))
def test_undeclared_repeats_are_named_and_allowed_for(params, values, shares, seed):
    """Not as something large that is missing from the list, which was said of every such list."""
    aggregate = repeated(params, values, shares, np.random.default_rng(seed), REPORTS)
    decoding = decode(aggregate, Candidates.from_strings(values))
    said = " ".join(decoding.warnings)
    assert "repeated reports that nobody declared" in said
    assert "not on the list weigh" not in said
    assert 0.6 * REPORTS < decoding.summary.repetition < 1.6 * REPORTS
    table = decoding.candidates
    assert ((table.low <= shares) & (shares <= table.high)).mean() > 0.85


def test_large_missing_values_are_told(make_aggregate, params, values, shares):
    decoding = decode(make_aggregate(), Candidates.from_strings(values[1:]))
    assert decoding.diagnostics.unlisted_squared == pytest.approx(0.24**2, rel=0.3)
    said = " ".join(decoding.warnings)
    assert "misses something large" in said
    assert "not on the list weigh" in said
    assert "nobody declared" not in said
    assert decoding.summary.repetition == 1
    once = repeated(params, values, shares, np.random.default_rng(9), 1)
    assert decode(once, Candidates.from_strings(values)).summary.repetition == 1
