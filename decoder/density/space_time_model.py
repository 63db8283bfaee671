"""A model for how much the windows in a series differ from the map that they share.

Differences are independent directions with learned strengths, and changes of single cells that a
smooth map would erase. With s the shares of the cells in the shared map, window t is s exp(d_t),
scaled. To first order its rows deviate by u_t X J d_t, J = diag(s) - s s', where u_t is the share
of devices in a cell. Whitened, B = W^.5 X J. The generalized eigenvectors of B'B against the
structure S of the prior of d_t reduce each direction's data to one number per window, z_it =
mu_i^.5 a_it + noise.

Strengths: for direction i, H z_i ~ N(0, mu_i tau^2 H R H' + H C H'). H are the Helmert contrasts
between the T windows. R_st = phi^|s-t| is the correlation of deviations, scaled so that trace(H R
H') = T - 1. C is the correlation of the noise: C_st = a l_s l_t ((1 - b) psi^|s-t| + b) except C_tt
= 1; a is at most the fraction of a report's variance that is drawn once per device lifetime, and
l_t = (u_t / max u)^g, since a device outside all cells repeats nothing. Patterson and Thompson 1971
(restricted likelihood)."""

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
MAX_VARIANCE = 0.3  # for differences of log shares; above it, one linear step is too inaccurate
MAX_RELEASED = 40
_MIN_VARIANCE = 1e-6
_USUAL_VARIANCE = 0.05
_MAX_PSI = 0.97
_PHI_GAIN = 0.5  # nats that a correlation of deviations must gain
_STEPS = 150
_NO_INFORMATION = 1e-9  # smaller eigenvalues, relative to the largest, count as 0


@dataclass(frozen=True)
class Deviations:
    """The data of T windows, whitened so that the noise has variance 1."""

    response: Floats  # B / s (rows, n): the effect on each row of one unit of share moved to a cell
    residuals: Floats  # (rows, T), from the shared map; reserved values are projected out
    scale: Floats  # (T,), visibility of a deviation, from u_t and reports; 1 on average
    shares: Floats  # s (n,), of the cells alone, of sum 1
    freedom: int  # The degrees of freedom of the rows


@dataclass(frozen=True)
class Modes:
    """Independent directions of the deviations under one structure of their prior."""

    information: Floats  # mu, (r,)
    data: Floats  # z, (r, T)
    basis: Floats  # (n, r), d_t = basis @ a_t
    response: Floats  # (r, n), the effect of one unit of share moved to each cell
    rest: Floats  # (T, T), products of the data in directions without information (noise alone)
    rest_freedom: int  # The number of directions without information


def deviations_of(
    windows: Sequence[Sequence[LevelEquations]], cells: Floats, reserved: Floats
) -> Deviations:
    """Whiten the equations of windows around a shared map.

    Args:
        windows: The equations of each window, all with the rows of the first window.
        cells: The shares (n,) of the cells alone in the shared map, of sum 1.
        reserved: The shares (T, r) of the reserved values in each window.
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
    """Compute independent directions of deviations under `Prior.structure`, sparse (n, n)."""
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
    """The parameters of the model of deviations and noise."""

    variance: float  # tau^2
    phi: float
    repeated: float  # a
    lasting: float  # b
    psi: float
    fading: float  # g
    height: float  # The log restricted posterior


@dataclass(frozen=True)
class Contrasts:
    """The contrasts between windows, rotated until signal and noise are both diagonal."""

    turn: Floats  # (T - 1, T), maps window data to independent numbers with noise variance 1
    ratios: Floats  # (T - 1,), the variance in each number of a deviation of variance 1
    back: Floats  # (T, T - 1), R H' times the rotation: maps the numbers back to the windows
    log_noise: float  # The log determinant of the contrasts' noise covariance


def learn_strengths(
    modes: Modes, scale: Floats, inside: Floats, most_repeated: float, *, independent: bool
) -> Strengths:
    """Estimate the strengths by maximizing the restricted posterior.

    Args:
        modes: The directions and their data.
        scale: The `scale` of `Deviations`, (T,).
        inside: The share of devices in a cell in each window, (T,).
        most_repeated: The upper bound of `repeated`; 0 if devices repeat no noise.
        independent: Whether to use phi = 0 only.
    """
    fits = [_for_phi(modes, scale, inside, most_repeated, 0.0, None)]
    for phi in () if independent or len(scale) < 3 else PHIS[1:]:
        fits.append(_for_phi(modes, scale, inside, most_repeated, phi, fits[0]))
    best = max(fits, key=lambda fit: fit.height)
    return best if best.height > fits[0].height + _PHI_GAIN else fits[0]


def contrasts_of(scale: Floats, inside: Floats, strengths: Strengths) -> Contrasts:
    """Diagonalize H R H' and the noise of the contrasts; arguments as in `learn_strengths`."""
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
    """Return the best strengths for one phi; the search starts at `near`, if given.

    The variables are ln tau^2 and the logits of a / a_max, b, psi / .97 and g."""
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
    """The m detected changes of single cells."""

    cells: Indices  # Indices of the cells, (m,)
    patterns: Indices  # Indices of the windows' patterns (`patterns`), (m,)
    sizes: Floats  # (m,), changes of the cell's share among devices in a cell; refitted together
    errors: Floats  # Standard errors of the sizes, (m,)
    rest: Floats  # The data (r, T - 1) without the changes

    @property
    def shrunk(self) -> Floats:
        """The sizes times 1 - 1 / z^2, to correct for having selected the largest of many."""
        z = self.sizes / self.errors
        return np.asarray(self.sizes * np.maximum(1 - 1 / z**2, 0.0))


def released_changes(
    modes: Modes, contrasts: Contrasts, data: Floats, variances: Floats
) -> Released:
    """Detect changes of single cells, which are then added to the maps.

    A deviation is proportional to the share of its cell, so it cannot show a new crowd in an empty
    cell. Every cell is tested for a change of each pattern in `patterns`, by the change's score
    under the model of noise and deviations. The change with the largest score is added if that is
    above the Bonferroni limit for all tests (.05). All added changes are refitted together, and the
    remainder is tested again, up to 40 times.

    Args:
        modes: The directions of the windows.
        contrasts: The contrasts of the windows.
        data: The data of each direction and rotated contrast, (r, T - 1).
        variances: Their variances, (r, T - 1).
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
    """Return the window patterns to test, (K, windows) of 0 and 1: single windows, then steps."""
    steps = [np.arange(windows) >= first for first in range(2, windows - 1)]
    return np.vstack([np.eye(windows), *(step.astype(float)[None] for step in steps)])
