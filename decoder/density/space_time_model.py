"""How much the windows of a series differ from the map that they share: as independent directions,
by strengths learnt from contrasts, and as changes of single cells that a smooth map would erase.

With s the shares of the cells in the shared map, window t is s exp(d_t), scaled; to first order
its rows deviate by u_t X J d_t, J = diag(s) - s s', u_t the share of those who are in a cell.
Whitened, B = W^.5 X J. The generalized eigenvectors of B'B against the structure S of the prior of
d_t make each direction's data one number a window, z_it = mu_i^.5 a_it + noise.

Strengths: for direction i, H z_i ~ N(0, mu_i tau^2 H R H' + H C H'): H are the Helmert contrasts
between the T windows, R_st = phi^|s-t| the correlation of deviations, scaled so that
trace(H R H') = T - 1, and C that of the noise: C_st = a l_s l_t ((1 - b) psi^|s-t| + b) but for
C_tt = 1, a at most the part of a report's variance that is drawn once for life, l_t = (u_t / max
u)^g: who is in no cell repeats nothing. Patterson and Thompson 1971 (restricted likelihood).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, helmert, orth
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logit, ndtri

from decoder.density.field_prior import factor
from decoder.density.linear_system import LevelEquations
from decoder.typing import Floats, Indices

PHIS = (0.0, 0.5, 0.8, 0.95)
MAX_VARIANCE = 0.3  # of differences of log shares: beyond it one linear step is too far
MAX_RELEASED = 40
_MIN_VARIANCE = 1e-6
_USUAL_VARIANCE = 0.05
_MAX_PSI = 0.97
_PHI_GAIN = 0.5  # nats that a correlation of deviations must gain
_STEPS = 150
_NO_INFORMATION = 1e-9  # of the largest eigenvalue


@dataclass(frozen=True)
class Deviations:
    """The data of T windows, whitened so that the noise has variance 1.

    response: B / s, (rows, n): what one unit of share moved to a cell does to each row.
    residuals: (rows, T), of the windows from the shared map, with reserved values projected out.
    scale: (T,), how much of a deviation a window's rows show: u_t and its reports, 1 on average.
    shares: s, (n,), of the cells alone, sum 1.  freedom: of the rows.
    """

    response: Floats
    residuals: Floats
    scale: Floats
    shares: Floats
    freedom: int


@dataclass(frozen=True)
class Modes:
    """Independent directions of the deviations under one structure of their prior.

    information: mu, (r,).  data: z, (r, T).  basis: (n, r), d_t = basis @ a_t.
    response: (r, n), what one unit of share moved to each cell does to each direction.
    rest: (T, T), sums of products of the data in directions without information: noise alone.
    rest_freedom: how many those are.
    """

    information: Floats
    data: Floats
    basis: Floats
    response: Floats
    rest: Floats
    rest_freedom: int


def deviations_of(
    windows: Sequence[Sequence[LevelEquations]], cells: Floats, reserved: Floats
) -> Deviations:
    """Whiten the equations of windows around a shared map.

    Args:
        windows: the readings of each, all with the rows of the first window.
        cells: shares (n,) of the cells alone in the shared map, sum 1.
        reserved: (T, r), shares of the reserved values in each window.
    """
    design = sparse.vstack([level.design for level in windows[0]]).tocsr()
    inside, outside = design[:, : len(cells)], design[:, len(cells) :].toarray()
    rates = inside @ cells
    roots, residuals = [], []
    for readings, own in zip(windows, reserved, strict=True):
        shares = np.append((1 - own.sum()) * cells, own)
        root = np.sqrt(np.concatenate([reading.precision(shares) for reading in readings]))
        target = np.concatenate([reading.target for reading in readings])
        roots.append(root)
        residuals.append(root * (target - design @ shares))
    mean = np.sqrt(np.mean(np.square(roots), axis=0))
    scale = (1 - reserved.sum(axis=1)) * np.sqrt(
        [(root**2).mean() / (mean**2).mean() for root in roots]
    )
    unit = float(np.sqrt((scale**2).mean()))
    response = unit * mean[:, None] * (inside.toarray() - rates[:, None])
    residual = np.stack(residuals, axis=1)
    toward = orth(mean[:, None] * (outside - rates[:, None]))
    response -= toward @ (toward.T @ response)
    residual -= toward @ (toward.T @ residual)
    freedom = sum(level.freedom for level in windows[0]) - outside.shape[1]
    return Deviations(response, residual, scale / unit, cells, freedom)


def modes_of(deviations: Deviations, structure: Any) -> Modes:
    """Find the independent directions of deviations. structure: of their prior, sparse (n, n)."""
    shaped = deviations.response * deviations.shares
    by_rows = len(shaped) < shaped.shape[1]
    if by_rows:
        solved = np.asarray(factor(structure).solve(np.ascontiguousarray(shaped.T)))
        values, vectors = eigh(shaped @ solved)  # B S^-1 B'
    else:
        values, vectors = eigh(shaped.T @ shaped, structure.toarray())
    order = np.argsort(values)[::-1][: deviations.freedom]
    chosen = order[values[order] > _NO_INFORMATION * values[order[0]]]
    information, vectors = values[chosen], vectors[:, chosen]
    other = (solved if by_rows else shaped) @ vectors / np.sqrt(information)
    directions, basis = (vectors, other) if by_rows else (other, vectors)
    residuals = deviations.residuals
    data = directions.T @ residuals
    rest = residuals.T @ residuals - data.T @ data
    freedom = max(0, deviations.freedom - len(information))
    return Modes(information, data, basis, directions.T @ deviations.response, rest, freedom)


@dataclass(frozen=True)
class Strengths:
    """tau^2 and phi of the deviations, a, b, psi and g of the noise; log restricted posterior."""

    variance: float
    phi: float
    repeated: float
    lasting: float
    psi: float
    fading: float
    height: float


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
    modes: Modes, scale: Floats, inside: Floats, most_repeated: float, *, independent: bool
) -> Strengths:
    """Find the strengths with the highest restricted posterior.

    Args:
        modes: the data.
        scale, inside: of `Deviations`, and the share of devices in a cell, of each window, (T,).
        most_repeated: bound of a, 0 where noise is drawn afresh.
        independent: only phi = 0.
    """
    fits = [_for_phi(modes, scale, inside, most_repeated, 0.0, None)]
    for phi in () if independent or len(scale) < 3 else PHIS[1:]:
        fits.append(_for_phi(modes, scale, inside, most_repeated, phi, fits[0]))
    best = max(fits, key=lambda fit: fit.height)
    return best if best.height > fits[0].height + _PHI_GAIN else fits[0]


def contrasts_of(scale: Floats, inside: Floats, strengths: Strengths) -> Contrasts:
    """Diagonalize H R H' and the contrasts' noise; scale, inside: as of `learn_strengths`."""
    size = len(scale)
    steps = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    helmerts = helmert(size)
    likeness = strengths.phi**steps
    likeness = likeness * (size - 1) / np.trace(helmerts @ likeness @ helmerts.T)
    repeat = (1 - strengths.lasting) * strengths.psi**steps + strengths.lasting
    faded = (inside / inside.max()) ** strengths.fading
    shared = strengths.repeated * repeat * np.outer(faded, faded)
    noise = np.where(steps == 0, 1.0, shared) / np.outer(scale, scale)
    spread = helmerts @ noise @ helmerts.T
    ratios, vectors = eigh(helmerts @ likeness @ helmerts.T, spread)
    turn = vectors.T @ helmerts
    log_noise = float(np.linalg.slogdet(spread)[1])
    return Contrasts(turn, np.maximum(ratios, 0.0), likeness @ turn.T, log_noise)


def _for_phi(
    modes: Modes,
    scale: Floats,
    inside: Floats,
    most_repeated: float,
    phi: float,
    near: Strengths | None,
) -> Strengths:
    """Return the best for one phi, as ln tau^2 and the logits of a / a_max, b, psi / .97 and g.
    near: those of another phi, to start from."""
    data, rest = modes.data / scale, modes.rest / np.outer(scale, scale)
    count = len(modes.information) + modes.rest_freedom
    log_usual = float(np.log(_USUAL_VARIANCE))
    usual = (log_usual, 2.0, 0.5, 0.0, 0.0)

    def strengths(at: Floats, height: float = 0.0) -> Strengths:
        variance = float(np.clip(np.exp(at[0]), _MIN_VARIANCE, MAX_VARIANCE))
        if most_repeated <= 0:
            return Strengths(variance, phi, 0.0, 0.0, 0.0, 0.0, height)
        a, b, psi, fading = (float(expit(value)) for value in at[1:])
        return Strengths(variance, phi, most_repeated * a, b, _MAX_PSI * psi, fading, height)

    def loss(at: Floats) -> float:
        tried = strengths(at)
        contrasts = contrasts_of(scale, inside, tried)
        turned = data @ contrasts.turn.T
        variances = 1 + tried.variance * np.outer(modes.information, contrasts.ratios)
        signal = float(np.log(variances).sum() + (turned**2 / variances).sum())
        noise = float(np.einsum("it,ts,is->", contrasts.turn, rest, contrasts.turn))
        unusual = sum(0.5 * (float(x) - c) ** 2 for x, c in zip(at, usual, strict=False))
        return unusual + 0.5 * (signal + noise + count * contrasts.log_noise)

    if most_repeated <= 0:
        bounds = (np.log(_MIN_VARIANCE), np.log(MAX_VARIANCE))
        result = minimize_scalar(lambda x: loss(np.array([x])), bounds=bounds, method="bounded")
        return strengths(np.array([float(result.x)]), -float(result.fun))
    starts = [np.array([log_usual, 2.0, 0.5, 0.0, -2.0]),
              np.array([log_usual - 2.0, 1.0, 1.0, 1.5, 1.0])]  # fmt: skip
    if near is not None:
        parts = near.repeated / most_repeated, near.lasting, near.psi / _MAX_PSI, near.fading
        starts = [np.append(np.log(near.variance), logit(np.clip(parts, 0.01, 0.99)))]
    fits = [
        minimize(loss, start, method="Nelder-Mead", options={"maxfev": _STEPS, "fatol": 0.02})
        for start in starts
    ]
    best = min(fits, key=lambda fit: float(fit.fun))
    return strengths(best.x, -float(best.fun))


@dataclass(frozen=True)
class Released:
    """Changes found. cells, patterns: indices, (m,).  sizes, errors: refitted together, (m,), of
    the cell's share among those who are in a cell.  rest: the data (r, T - 1) without them.
    """

    cells: Indices
    patterns: Indices
    sizes: Floats
    errors: Floats
    rest: Floats

    @property
    def shrunk(self) -> Floats:
        """The sizes less what the largest of many exceeds its mean by: times 1 - 1 / z^2."""
        z = self.sizes / self.errors
        return np.asarray(self.sizes * np.maximum(1 - 1 / z**2, 0.0))


def released_changes(
    modes: Modes, contrasts: Contrasts, data: Floats, variances: Floats
) -> Released:
    """Find the changes of single cells, which make the maps: a deviation is in proportion to the
    share of its cell, so a new crowd in an empty cell could not show.

    Every cell is tested for a change of each of `patterns`, by its score under the model of noise
    and deviations; the largest beyond the Bonferroni limit of all tests (.05) is added, all that
    were added are refitted together, and what is left is tested again, at most 40 times.

    Args:
        modes, contrasts: of the windows.
        data, variances: of each direction and turned contrast, (r, T - 1).
    """
    response, turned = modes.response, patterns(contrasts.turn.shape[1]) @ contrasts.turn.T
    information = ((response**2).T @ (1 / variances)) @ (turned**2).T
    usable = np.sqrt(np.maximum(information, 1e-12 * float(information.max())))
    limit = -float(ndtri(0.025 / information.size))
    cells, which = np.zeros((2, 0), dtype=np.intp)
    released = Released(cells, which, np.zeros(0), np.zeros(0), data)
    for _ in range(MAX_RELEASED):
        scores = (response.T @ (released.rest / variances)) @ turned.T
        z = np.abs(scores / usable)
        z[released.cells, released.patterns] = 0.0
        cell, pattern = np.unravel_index(int(np.argmax(z)), z.shape)
        if z[cell, pattern] <= limit:
            break
        cells, which = np.append(released.cells, cell), np.append(released.patterns, pattern)
        columns = np.einsum("im,mj->ijm", response[:, cells], turned[which])
        weighted = columns / variances[..., None]
        matrix = np.tensordot(columns, weighted, axes=([0, 1], [0, 1]))
        covariance = np.linalg.pinv(matrix, hermitian=True)
        sizes = covariance @ np.tensordot(weighted, data, axes=([0, 1], [0, 1]))
        rest = data - (response[:, cells] * sizes) @ turned[which]
        released = Released(cells, which, sizes, np.sqrt(np.diag(covariance)), rest)
    return released


def patterns(windows: int) -> Floats:
    """The patterns to test, (K, windows) of 0 and 1: each window alone, then from each one on."""
    steps = [np.arange(windows) >= first for first in range(2, windows - 1)]
    return np.vstack([np.eye(windows), *(step.astype(float)[None] for step in steps)])
