"""Populations with a known truth for the decoder's tests."""

from collections.abc import Callable

import numpy as np
import pytest

from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate


@pytest.fixture
def params() -> RapporParams:
    return RapporParams.rappor(
        num_bits=32, num_hashes=2, num_cohorts=32, prob_f=0.25, prob_p=0.25, prob_q=0.75
    )


@pytest.fixture
def boolean() -> RapporParams:
    """One bit, drawn afresh for each report."""
    return RapporParams.rappor(
        num_bits=1, num_hashes=1, num_cohorts=1, prob_f=0, prob_p=0.25, prob_q=0.75,
        encoding="boolean",
    )  # fmt: skip


@pytest.fixture
def values() -> list[str]:
    return [f"value-{i}" for i in range(60)]


@pytest.fixture
def shares() -> np.ndarray:
    """Ten values held, fifty not."""
    held = np.exp(-0.25 * np.arange(10))
    return np.concatenate([held / held.sum(), np.zeros(50)])


@pytest.fixture
def make_aggregate(params, values, shares) -> Callable[..., Aggregate]:
    def make(num_reports=200_000, seed=7, params=params, values=values, shares=shares, **kw):
        rng = np.random.default_rng(seed)
        return draw_aggregate(values, shares, num_reports, params, rng, **kw)[0]

    return make
