"""Populations with a known truth for the decoder's tests."""

from collections.abc import Callable

import numpy as np
import pytest

from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor


@pytest.fixture
def params() -> RapporParams:
    return rappor(32, 2, 32, 0.25, 0.25, 0.75)


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
