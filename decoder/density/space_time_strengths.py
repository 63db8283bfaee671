"""Estimate how much windows differ and how their noise repeats, by restricted likelihood from
contrasts.

For direction i, H z_i ~ N(0, mu_i tau^2 H R H' + H C H'): H are the Helmert contrasts between the T
windows, R_st = phi^|s-t| the correlation of deviations, scaled so that trace(H R H') = T - 1, and
C the correlation of the noise: C_tt = 1, C_st = a l_s l_t ((1 - b) psi^|s-t| + b), a at most the
part of a report's variance that is drawn once for life. l_t = (u_t / max u)^g, u_t the share of
those who are in a cell: devices whose value is reserved in one of two windows repeat nothing there.
Patterson and Thompson 1971 (restricted likelihood).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, helmert
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit

from decoder.density.space_time_modes import Modes
from decoder.typing import Floats

PHIS = (0.0, 0.5, 0.8, 0.95)
MOST_VARIANCE = 0.3  # of differences of log shares: beyond it one linear step is too far
_LEAST_VARIANCE = 1e-6
_USUAL_VARIANCE = 0.05
_MOST_PSI = 0.97
_PHI_GAIN = 0.5  # nats that a correlation of deviations must gain
_STEPS = 150


@dataclass(frozen=True)
class Strengths:
    """The variances of deviations and of their noise. variance: tau^2. phi: correlation of
    deviations from a window to the next.

    repeated, lasting, psi, fading: a, b, psi and g of the noise.
    height: log of the restricted posterior.
    """

    variance: float
    phi: float
    repeated: float
    lasting: float
    psi: float
    fading: float
    height: float


@dataclass(frozen=True)
class Windows:
    """Scale of the signal (`Deviations`) and share of devices in a cell, for each window, (T,)."""

    scale: Floats
    inside: Floats


@dataclass(frozen=True)
class Contrasts:
    """The contrasts between windows, turned until signal and noise are both diagonal.

    turn: (T - 1, T), times data of windows gives independent numbers with noise of variance 1.
    ratios: (T - 1,), variance of a deviation of variance 1 in each of them.
    back: (T, T - 1), R H' times the turn: from them to the windows.
    """

    turn: Floats
    ratios: Floats
    back: Floats
    log_noise: float


def learn_strengths(
    modes: Modes, windows: Windows, most_repeated: float, *, independent: bool
) -> Strengths:
    """Find the strengths with the highest restricted posterior.

    most_repeated: bound of a, 0 where noise is drawn afresh.  independent: only phi = 0.
    """
    found = [_for_phi(modes, windows, most_repeated, 0.0, None)]
    for phi in () if independent or len(windows.scale) < 3 else PHIS[1:]:
        other = _for_phi(modes, windows, most_repeated, phi, found[0])
        found.append(other)
    best = max(found, key=lambda one: one.height)
    return best if best.height > found[0].height + _PHI_GAIN else found[0]


def contrasts_of(windows: Windows, strengths: Strengths) -> Contrasts:
    """Diagonalise H R H' and the contrasts' noise together."""
    scale, size = windows.scale, len(windows.scale)
    steps = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    helmerts = helmert(size)
    likeness = strengths.phi**steps
    likeness = likeness * (size - 1) / np.trace(helmerts @ likeness @ helmerts.T)
    repeat = (1 - strengths.lasting) * strengths.psi**steps + strengths.lasting
    faded = (windows.inside / windows.inside.max()) ** strengths.fading
    shared = strengths.repeated * repeat * np.outer(faded, faded)
    noise = np.where(steps == 0, 1.0, shared) / np.outer(scale, scale)
    spread = helmerts @ noise @ helmerts.T
    ratios, vectors = eigh(helmerts @ likeness @ helmerts.T, spread)
    turn = vectors.T @ helmerts
    log_noise = float(np.linalg.slogdet(spread)[1])
    return Contrasts(turn, np.maximum(ratios, 0.0), likeness @ turn.T, log_noise)


def _for_phi(
    modes: Modes, windows: Windows, most_repeated: float, phi: float, near: Strengths | None
) -> Strengths:
    """The best of the other strengths for one phi; near: those of another phi, to start from."""
    data = modes.data / windows.scale
    rest = modes.rest / np.outer(windows.scale, windows.scale)

    def strengths(at: Floats, height: float = 0.0) -> Strengths:
        variance = float(np.clip(np.exp(at[0]), _LEAST_VARIANCE, MOST_VARIANCE))
        if most_repeated <= 0:
            return Strengths(variance, phi, 0.0, 0.0, 0.0, 0.0, height)
        a, b, psi, fading = (float(expit(value)) for value in at[1:])
        return Strengths(variance, phi, most_repeated * a, b, _MOST_PSI * psi, fading, height)

    def loss(at: Floats) -> float:
        tried = strengths(at)
        return _prior_loss(at) - _log_likelihood(modes, data, rest, windows, tried)

    if most_repeated <= 0:
        bounds = (np.log(_LEAST_VARIANCE), np.log(MOST_VARIANCE))
        one = minimize_scalar(lambda x: loss(np.array([x])), bounds=bounds, method="bounded")
        return strengths(np.array([float(one.x)]), -float(one.fun))
    fits = [
        minimize(loss, start, method="Nelder-Mead", options={"maxfev": _STEPS, "fatol": 0.02})
        for start in _starts(near, most_repeated)
    ]
    best = min(fits, key=lambda fit: float(fit.fun))
    return strengths(best.x, -float(best.fun))


def _starts(near: Strengths | None, most_repeated: float) -> Iterator[Floats]:
    """In the parameters without bounds: ln tau^2, logits of a / a_max, b, psi / .97 and g."""
    if near is not None:
        noise = near.repeated / most_repeated, near.lasting, near.psi / _MOST_PSI, near.fading
        yield np.append(np.log(near.variance), logit(np.clip(noise, 0.01, 0.99)))
        return
    usual = float(np.log(_USUAL_VARIANCE))
    yield np.array([usual, 2.0, 0.5, 0.0, -2.0])
    yield np.array([usual - 2.0, 1.0, 1.0, 1.5, 1.0])


def _prior_loss(at: Floats) -> float:
    """Half squares of the distances from what is usual."""
    centres = (float(np.log(_USUAL_VARIANCE)), 2.0, 0.5, 0.0, 0.0)
    return sum(0.5 * (float(x) - c) ** 2 for x, c in zip(at, centres, strict=False))


def _log_likelihood(
    modes: Modes, data: Floats, rest: Floats, windows: Windows, strengths: Strengths
) -> float:
    contrasts = contrasts_of(windows, strengths)
    turned = data @ contrasts.turn.T
    variances = 1 + strengths.variance * np.outer(modes.information, contrasts.ratios)
    signal = float(np.log(variances).sum() + (turned**2 / variances).sum())
    noise = float(np.einsum("it,ts,is->", contrasts.turn, rest, contrasts.turn))
    count = len(modes.information) + modes.rest_freedom
    return -0.5 * (signal + noise + count * contrasts.log_noise)
