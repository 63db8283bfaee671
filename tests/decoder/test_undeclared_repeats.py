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
    assert said.count("the list may miss frequent ones") == 1
    assert "These values explain only 7" in said
    assert decoding.summary.repetition == 1
    once = repeated(params, values, shares, np.random.default_rng(9), 1)
    assert decode(once, Candidates.from_strings(values)).summary.repetition == 1


@pytest.mark.parametrize(("listed", "missed"), [(slice(0, 400), False), (slice(0, 20), True)])
def test_a_list_is_said_to_miss_values_only_where_the_rest_is_not_on_it(
    make_aggregate, listed, missed
):
    """Few of 200 falling shares are found: with all on the list it misses nothing."""
    held = 1 / np.arange(1, 201)
    names = [f"v{number}" for number in range(400)]
    aggregate = make_aggregate(60_000, values=names[:200], shares=held / held.sum())
    decoding = decode(aggregate, Candidates.from_strings(names[listed]))
    assert 0 < decoding.summary.allocated_share < 0.7
    assert any("may miss frequent ones" in one for one in decoding.warnings) == missed
