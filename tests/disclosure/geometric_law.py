"""The law of two-sided geometric noise, for the tests of what draws it."""

import math

import numpy as np


def geometric_probability(z: np.ndarray, sensitivity: int, epsilon: float) -> np.ndarray:
    """P(noise = z) of `add_geometric`."""
    rate = epsilon / sensitivity
    return math.tanh(rate / 2) * np.exp(-rate * np.abs(z))
