"""Debiasing inverts the mechanism's mean, and refuses what it cannot."""

import numpy as np
import pytest

from decoder.errors import DecodeError
from decoder.model.counts import debias
from decoder.model.noise import BitNoise

NOISE = BitNoise(0.75, 0.25, 0.75, 0.5)


def test_expected_counts_give_back_the_shares():
    shares = np.array([[0.0, 0.3, 1.0], [0.5, 0.25, 0.1]])
    reports = np.array([100.0, 40.0])
    counts = reports[:, None] * (NOISE.p_star + NOISE.gap * shares)
    np.testing.assert_allclose(debias(counts, reports, NOISE), shares)


def test_a_mechanism_that_keeps_nothing_is_refused():
    with pytest.raises(DecodeError, match="hold no information"):
        debias(np.ones((1, 1)), np.ones(1), BitNoise(0.5, 0.5, 0.75, 0.5))
