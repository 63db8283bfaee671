"""Settings at the edge: numbers, or a refusal that names the remedy; never NaN, never a crash."""

from itertools import product

import numpy as np
import pytest

from decoder import Candidates, DecodeOptions, decode
from decoder.errors import ConvergenceError, DecodeError
from decoder.inference.diagnostics import odd_cohorts
from decoder.kinds.run import in_memory, render_page
from decoder.kinds.values import KIND, decoding_result
from rappor_core.aggregate import Aggregate
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor

COINS = [(0, 0.001, 1), (0.5, 0.75, 0.25)]
SHAPES = list(product((2, 3, 16), (1, 2, 8)))  # k, h
HELD = [f"held{i}" for i in range(5)]
REFUSALS = ("to be told apart by", "is not positive definite", "hashes into 2 bits",
            "in one cohort and set one bit each")  # fmt: skip


def decoded(aggregate, listed, options):
    """The decoding, or the reason why there is none."""
    try:
        return decode(aggregate, Candidates.from_strings(listed), options), ""
    except DecodeError as refusal:
        return None, str(refusal)


@pytest.mark.parametrize("method", ["cavity", pytest.param("lasso", marks=pytest.mark.long)])
@pytest.mark.parametrize("coins", [COINS[0], pytest.param(COINS[1], marks=pytest.mark.long)])
def test_odd_settings_give_numbers_or_named_refusals(coins, method):
    f, p, q = coins
    rng = np.random.default_rng(4)
    for k, h in SHAPES:
        m, total = int(rng.choice([1, 4])), int(rng.choice([1, 3, 40, 10**6, 10**9]))
        params = rappor(k, h, m, f, p, q)
        shares = rng.dirichlet(np.full(5, 0.5))
        aggregate, _ = draw_aggregate(HELD, shares, total, params, rng)
        listed = [*HELD, *(f"wrong{i}" for i in range(rng.integers(0, 60)))][rng.integers(0, 4) :]
        rule = rng.choice(["bonferroni", "bh", "fdr", "fdr-eb", "none"])
        options = DecodeOptions(method=method, correction=str(rule))
        decoding, refusal = decoded(aggregate, listed, options)
        if decoding is None:
            assert any(words in refusal for words in REFUSALS), refusal
            continue
        table = decoding.candidates
        for column in ("estimate", "std_error", "low", "high", "shrunken", "z", "p_adjusted"):
            assert np.isfinite(getattr(table, column)).all(), (k, h, m, total, column)
        assert (table.std_error > 0).all()
        assert (table.low <= table.high).all()
        assert render_page(KIND, in_memory(decoding_result(decoding), "decode"))


def test_a_candidate_of_most_rows_is_decoded():
    """Without it the list is empty: 4 of 8 such decodings were refused for a median of nothing."""
    params = rappor(3, 3, 1, 0.25, 0.001, 0.46)
    rng = np.random.default_rng(0)
    for _ in range(8):
        aggregate, _ = draw_aggregate(["v0"], np.ones(1), 1_000, params, rng)
        table = decode(aggregate, Candidates.from_strings(["v0"])).candidates
        assert np.isfinite([table.estimate[0], table.std_error[0], table.p_value[0]]).all()


def test_filters_that_are_always_full_are_refused():
    params = rappor(2, 64, 1, 0, 0.25, 0.75)
    with pytest.raises(DecodeError, match="64 hashes into 2 bits set every bit"):
        decode(Aggregate("x", params, (9,), ((5, 6),)), Candidates.from_strings(["a"]))


def test_counts_beyond_what_doubles_can_solve_are_refused():
    params = rappor(16, 1, 2, 0, 0.25, 0.75)
    aggregate, _ = draw_aggregate(HELD, np.full(5, 0.2), 2**52, params, np.random.default_rng(1))
    with pytest.raises(ConvergenceError, match="the arithmetic of doubles failed"):
        decode(aggregate, Candidates.from_strings(HELD))


def test_odd_cohorts_are_judged_at_a_common_level():
    """3.09 has a tail of 1 in 1,000, 4.26 one of 1 in 100,000: that of 100 cohorts."""
    for count, level in ((1, 3.09), (100, 4.26)):
        scores = np.zeros(count)
        scores[-1] = level + 0.02
        assert odd_cohorts(scores).tolist() == [count - 1]
        scores[-1] = level - 0.02
        assert odd_cohorts(scores).tolist() == []
