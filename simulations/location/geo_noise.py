"""Geo-indistinguishability, for comparison only: a weaker promise, and better maps for it.

Noise of the planar Laplace distribution hides a place among those nearby (epsilon a metre) and
not among those far away; n points cost n times epsilon. No device of ours does this. Andres,
Bordenabe, Chatzikokolakis, Palamidessi 2013, "Geo-indistinguishability: differential privacy for
location-based systems".

What its epsilon means: of two people who are d metres apart at each of n reports, no observer's
odds change by more than e^(n * epsilon * d). So it makes the promise of a budget B at one radius
only, B / (n * epsilon); ten times as far apart, two people are told apart by e^(10 B).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import lambertw

from decoder.density.cells import Places
from decoder.density.field_posterior import softmax
from rappor_core.grid.drawing import cell_centre

Floats = NDArray[np.float64]

METRES_A_DEGREE = 111_195.0
USUAL_STRENGTH = 0.05  # of the prior of the field
_ANCHOR = 0.003  # as in `decoder.density.gaussian_field`, for the level of the field


def planar_laplace(number: int, epsilon: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw displacements east and north, in metres. epsilon: nats a metre; the mean is 2/epsilon.

    The angle is uniform; the radius is -(W_{-1}((u - 1) / e) + 1) / epsilon.
    """
    uniform = rng.random(number)
    radius = -(lambertw((uniform - 1) / math.e, k=-1).real + 1) / epsilon
    angle = rng.random(number) * 2 * np.pi
    return radius * np.cos(angle), radius * np.sin(angle)


def centres_in_metres(places: Places) -> Floats:
    """East and north of each cell's centre, without `other`, on a plane through the box: (n, 2)."""
    degrees = np.array([cell_centre(places.grid, cell) for cell in places.finest[:-1]])
    stretch = np.cos(np.radians(degrees[:, 0].mean()))
    return np.asarray(degrees[:, ::-1] * METRES_A_DEGREE * [stretch, 1.0])


def point_map(points: Floats, centres: Floats, epsilon: float, laplacian: Any) -> Floats:
    """Deconvolve noisy points (N, 2) to shares (n,) of people at the cells' centres (n, 2).

    The posterior mode for the exact density of the noise, under the same Gaussian field over the
    cells as our own maps (`decoder.density.gaussian_field`).  laplacian: of the cells' neighbours,
    sparse (n, n).
    Takes 8 N n bytes: no point is rounded, since wide noise is read off small differences.
    """
    away = cdist(points, centres)
    density = np.exp(-epsilon * (away - away.min(axis=1, keepdims=True)))

    def objective(field: Floats) -> tuple[float, Floats]:
        shares = softmax(field)
        mixed = density @ shares
        slope = density.T @ (1 / mixed)
        pull = USUAL_STRENGTH * (laplacian @ field + _ANCHOR * field)
        value = 0.5 * float(field @ pull) - float(np.log(mixed).sum())
        return value, pull - shares * (slope - float(slope @ shares))

    found = minimize(objective, np.zeros(len(centres)), jac=True, method="L-BFGS-B")
    return softmax(np.asarray(found.x))
