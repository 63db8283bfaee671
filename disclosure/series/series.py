"""Noisy time series of a trusted counter: few coefficients of an orthonormal transform, each
with noise.

One person changes the series by at most `sensitivity` in L2, and so the coefficients: an
orthonormal transform keeps lengths. The text on series scales its Fourier noise without any
sensitivity, which is right only where each person is counted once; and numpy's default transform is
not orthonormal.

The number of coefficients is a parameter. Choosing it by looking at the series breaks the
guarantee.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.fft import dct, idct, irfft, rfft

from disclosure.errors import TableError
from disclosure.series.budget import Charge
from disclosure.series.noise import add_gaussian, add_laplace
from disclosure.typing import Floats, Integers


def bound_contributions(
    persons: Integers, slots: Integers, num_slots: int, max_slots: int, rng: np.random.Generator
) -> tuple[Integers, float]:
    """Count persons in each slot, each person in at most `max_slots` random slots of its own.

    persons, slots: (events,). Returns: counts (num_slots,), and the L2 sensitivity sqrt(max_slots).
    Raises TableError for slots outside [0, num_slots), or max_slots below 1.
    """
    if max_slots < 1 or len(persons) != len(slots):
        raise TableError(f"max_slots {max_slots}; {len(persons)} persons, {len(slots)} slots")
    if len(slots) and not (slots.min() >= 0 and slots.max() < num_slots):
        raise TableError(f"slots must lie in [0, {num_slots})")
    who = np.unique(persons, return_inverse=True)[1].ravel()
    pairs = np.unique(np.column_stack([who, slots]), axis=0)
    pairs = rng.permutation(pairs)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=pairs[:1, 0] - 1))
    rank = np.arange(len(pairs)) - np.repeat(starts, np.diff([*starts, len(pairs)]))
    kept = pairs[rank < max_slots, 1]
    return np.bincount(kept, minlength=num_slots), math.sqrt(max_slots)


def perturb_by_dct_gaussian(
    series: Floats, kept: int, sensitivity: float, charge: Charge, rng: np.random.Generator
) -> Floats:
    """Keep the first `kept` cosine coefficients, add Gaussian noise, and transform back."""
    coefficients = _first(dct(series, norm="ortho"), kept)
    coefficients[:kept] = add_gaussian(coefficients[:kept], sensitivity, charge, rng)
    back: Floats = idct(coefficients, norm="ortho")
    return back


def perturb_by_fourier_laplace(
    series: Floats, kept: int, sensitivity: float, epsilon: float, rng: np.random.Generator
) -> Floats:
    """Perturb a series by FPA (Rastogi and Nath 2010): Laplace noise of scale sqrt(kept)
    sensitivity / epsilon.

    The coefficients are real: mean, then cosine and sine of each frequency.
    """
    coefficients = _first(_real_fourier(series), kept)
    l1 = math.sqrt(kept) * sensitivity
    coefficients[:kept] = add_laplace(coefficients[:kept], l1, epsilon, rng)
    return _from_real_fourier(coefficients)


def _first(coefficients: Floats, kept: int) -> Floats:
    if not 1 <= kept <= len(coefficients):
        raise TableError(f"kept must be in 1 to {len(coefficients)}, not {kept}")
    return np.where(np.arange(len(coefficients)) < kept, coefficients, 0.0)


def _real_fourier(series: Floats) -> Floats:
    """(n,) -> (n,), orthonormal."""
    values = rfft(np.asarray(series, dtype=float), norm="ortho")
    pairs = np.sqrt(2) * np.column_stack([values.real, values.imag])[1:].ravel()
    if len(series) % 2 == 0:
        pairs = np.append(pairs[:-2], values[-1].real)
    return np.append(values[:1].real, pairs)


def _from_real_fourier(coefficients: Floats) -> Floats:
    n = len(coefficients)
    values = np.zeros(n // 2 + 1, dtype=complex)
    values[0] = coefficients[0]
    pairs = coefficients[1 : n - (n % 2 == 0)].reshape(-1, 2) / np.sqrt(2)
    values[1 : len(pairs) + 1] = pairs[:, 0] + 1j * pairs[:, 1]
    if n % 2 == 0:
        values[-1] = coefficients[-1]
    back: Floats = irfft(values, n, norm="ortho")
    return back
