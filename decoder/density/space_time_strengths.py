"""How much windows differ: strengths by restricted likelihood from contrasts, and the changes of
single cells that a smooth map would erase.

For direction i, H z_i ~ N(0, mu_i tau^2 H R H' + H C H'): H are the Helmert contrasts between the T
windows, R_st = phi^|s-t| the correlation of deviations, scaled so that trace(H R H') = T - 1, and
C the correlation of the noise: C_tt = 1, C_st = a l_s l_t ((1 - b) psi^|s-t| + b), a at most the
part of a report's variance that is drawn once for life. l_t = (u_t / max u)^g, u_t the share of
those who are in a cell: devices whose value is reserved in one of two windows repeat nothing there.
Patterson and Thompson 1971 (restricted likelihood).

A deviation is in proportion to the share of its cell in the shared map, so a new crowd in an
empty cell cannot show. Every cell is tested for a change in one window, and from a window on, by
its score under the model of noise and deviations; the largest beyond the Bonferroni limit of all
tests is added, all that were added are refitted together, and what is left is tested again. This
makes the maps; what is said of changes is estimated apart from it (`cell_changes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, helmert
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit, ndtri

from decoder.density.space_time_modes import Modes
from decoder.typing import Floats, Indices

PHIS = (0.0, 0.5, 0.8, 0.95)
MAX_VARIANCE = 0.3  # of differences of log shares: beyond it one linear step is too far
_MIN_VARIANCE = 1e-6
_USUAL_VARIANCE = 0.05
_MAX_PSI = 0.97
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
    """Diagonalize H R H' and the contrasts' noise together."""
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
        variance = float(np.clip(np.exp(at[0]), _MIN_VARIANCE, MAX_VARIANCE))
        if most_repeated <= 0:
            return Strengths(variance, phi, 0.0, 0.0, 0.0, 0.0, height)
        a, b, psi, fading = (float(expit(value)) for value in at[1:])
        return Strengths(variance, phi, most_repeated * a, b, _MAX_PSI * psi, fading, height)

    usual = (float(np.log(_USUAL_VARIANCE)), 2.0, 0.5, 0.0, 0.0)

    def loss(at: Floats) -> float:
        tried = strengths(at)
        unusual = sum(0.5 * (float(x) - c) ** 2 for x, c in zip(at, usual, strict=False))
        return unusual - _log_likelihood(modes, data, rest, windows, tried)

    if most_repeated <= 0:
        bounds = (np.log(_MIN_VARIANCE), np.log(MAX_VARIANCE))
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
        noise = near.repeated / most_repeated, near.lasting, near.psi / _MAX_PSI, near.fading
        yield np.append(np.log(near.variance), logit(np.clip(noise, 0.01, 0.99)))
        return
    usual = float(np.log(_USUAL_VARIANCE))
    yield np.array([usual, 2.0, 0.5, 0.0, -2.0])
    yield np.array([usual - 2.0, 1.0, 1.0, 1.5, 1.0])


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


MAX_RELEASED = 40


@dataclass(frozen=True)
class Released:
    """Changes found. cells, patterns: indices, (m,).  sizes, errors: refitted together, (m,).

    Sizes are of the cell's share among those who are in a cell.
    """

    cells: Indices
    patterns: Indices
    sizes: Floats
    errors: Floats

    @property
    def shrunk(self) -> Floats:
        """The sizes without what the largest of many exceeds its mean by on average: times 1 - 1
        / z^2."""
        z = self.sizes / self.errors
        return np.asarray(self.sizes * np.maximum(1 - 1 / z**2, 0.0))


class ChangeTest:
    """The scores of all cells and patterns, given the changes that were found so far."""

    def __init__(self, modes: Modes, contrasts: Contrasts, data: Floats, variances: Floats) -> None:
        """data, variances: of each direction and turned contrast, (r, T - 1)."""
        self.patterns = patterns(contrasts.turn.shape[1])
        self._turned = self.patterns @ contrasts.turn.T
        self._response, self._data, self._variances = modes.response, data, variances
        squares = (modes.response**2).T @ (1 / variances)
        self._information = squares @ (self._turned**2).T

    @property
    def limit(self) -> float:
        """The Bonferroni limit of |z| at a family-wise level of .05."""
        return -float(ndtri(0.025 / self._information.size))

    def released(self) -> Released:
        """Add the largest score beyond the limit, refit, and so on, at most 40 times."""
        found = Released(*(np.zeros(0, dtype=kind) for kind in (np.intp, np.intp, float, float)))
        for _ in range(MAX_RELEASED):
            z = np.abs(self._scores(found) / np.sqrt(self._usable()))
            z[found.cells, found.patterns] = 0.0
            cell, pattern = np.unravel_index(int(np.argmax(z)), z.shape)
            if z[cell, pattern] <= self.limit:
                break
            found = self._refitted(np.append(found.cells, cell), np.append(found.patterns, pattern))
        return found

    def rest(self, found: Released) -> Floats:
        """The data (r, T - 1) less the changes in `found`."""
        told = self._response[:, found.cells] * found.sizes
        return self._data - told @ self._turned[found.patterns]

    def _usable(self) -> Floats:
        return np.maximum(self._information, 1e-12 * float(self._information.max()))

    def _scores(self, found: Released) -> Floats:
        """Slopes of the log likelihood in each size, (n, K)."""
        weighted = self.rest(found) / self._variances
        return np.asarray((self._response.T @ weighted) @ self._turned.T)

    def _refitted(self, cells: Indices, which: Indices) -> Released:
        """All sizes together, by generalized least squares."""
        columns = np.einsum("im,mj->ijm", self._response[:, cells], self._turned[which])
        weighted = columns / self._variances[..., None]
        matrix = np.tensordot(columns, weighted, axes=([0, 1], [0, 1]))
        aim = np.tensordot(weighted, self._data, axes=([0, 1], [0, 1]))
        covariance = np.linalg.pinv(matrix, hermitian=True)
        return Released(cells, which, covariance @ aim, np.sqrt(np.diag(covariance)))


def patterns(windows: int) -> Floats:
    """The patterns of windows to test: each window alone, then from each window on.

    (K, windows), of 0 and 1.
    """
    steps = [np.arange(windows) >= first for first in range(2, windows - 1)]
    return np.vstack([np.eye(windows), *(step.astype(float)[None] for step in steps)])
