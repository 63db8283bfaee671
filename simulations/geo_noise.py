"""Geo-indistinguishability, for comparison only: a weaker promise, and better maps for it.

Noise of the planar Laplace distribution hides a place among those nearby (epsilon a metre) and
not among those far away; n points cost n times epsilon. No device of ours does this. Andres,
Bordenabe, Chatzikokolakis, Palamidessi 2013, "Geo-indistinguishability: differential privacy for
location-based systems".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw

Floats = NDArray[np.float64]

METRES_A_DEGREE = 111_195.0


def planar_laplace(number: int, epsilon: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw displacements east and north, in metres. epsilon: nats a metre; the mean is 2/epsilon.

    The angle is uniform; the radius is -(W_{-1}((u - 1) / e) + 1) / epsilon.
    """
    uniform = rng.random(number)
    radius = -(lambertw((uniform - 1) / np.e, k=-1).real + 1) / epsilon
    angle = rng.random(number) * 2 * np.pi
    return radius * np.cos(angle), radius * np.sin(angle)


def displaced(
    latitude: Floats, longitude: Floats, epsilon: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Displace points (n,) in degrees, on the plane that touches the globe at each."""
    east, north = planar_laplace(len(latitude), epsilon, rng)
    moved = latitude + north / METRES_A_DEGREE
    return moved, longitude + east / (METRES_A_DEGREE * np.cos(np.radians(latitude)))
