"""Express the deviations of windows from a shared map as independent directions with unit noise.

With s the shares of the cells in the shared map, window t is s exp(d_t), scaled; to first order
its rows deviate by u_t X J d_t, J = diag(s) - s s', u_t the share of those who are in a cell.
Whitened by the rows' precisions, B = W^.5 X J. The generalized eigenvectors of B'B against the
structure S of the prior of d_t make each direction's data one number a window,
z_it = mu_i^.5 a_it + noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from decoder.density.field_prior import factor
from decoder.density.linear_system import LevelEquations
from decoder.typing import Floats, Indices

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

    windows: the readings of each, one for each level, with the rows of the first window.
    cells: shares (n,) of the cells alone in the shared map, sum 1.  reserved: (T, r), shares of
    the reserved values in each window.
    """
    design = sparse.vstack([one.design for one in windows[0]]).tocsr()
    inside, outside = design[:, : len(cells)], design[:, len(cells) :].toarray()
    held = inside @ cells
    roots, residuals = [], []
    for readings, own in zip(windows, reserved, strict=True):
        shares = np.append((1 - own.sum()) * cells, own)
        root = np.sqrt(np.concatenate([one.precision(shares) for one in readings]))
        target = np.concatenate([one.target for one in readings])
        roots.append(root)
        residuals.append(root * (target - design @ shares))
    mean = np.sqrt(np.mean(np.square(roots), axis=0))
    scale = (1 - reserved.sum(axis=1)) * np.sqrt(
        [(root**2).mean() / (mean**2).mean() for root in roots]
    )
    unit = float(np.sqrt((scale**2).mean()))
    response = unit * mean[:, None] * (inside.toarray() - held[:, None])
    residual = np.stack(residuals, axis=1)
    toward = [mean * (one - held) for one in outside.T]
    for one in _orthonormal(toward):
        response = response - np.outer(one, one @ response)
        residual = residual - np.outer(one, one @ residual)
    freedom = sum(one.freedom for one in windows[0]) - len(toward)
    return Deviations(response, residual, scale / unit, cells, freedom)


def _orthonormal(ways: Sequence[Floats]) -> list[Floats]:
    """Directions (rows,) of length 1, at right angles, that span the same."""
    found: list[Floats] = []
    for way in ways:
        for before in found:
            way = way - (before @ way) * before
        found.append(way / max(float(np.sqrt(way @ way)), 1e-300))
    return found


def modes_of(deviations: Deviations, structure: Any) -> Modes:
    """Find the independent directions of the deviations; structure: of their prior, (n, n),
    sparse."""
    response = deviations.response
    rows, size = response.shape
    if rows < size:
        information, directions, basis = _by_rows(deviations, structure)
    else:
        information, directions, basis = _by_cells(deviations, structure)
    residuals = deviations.residuals
    data = directions.T @ residuals
    rest = residuals.T @ residuals - data.T @ data
    return Modes(
        information,
        data,
        basis,
        directions.T @ response,
        rest,
        max(0, deviations.freedom - len(information)),
    )


def _by_rows(deviations: Deviations, structure: Any) -> tuple[Floats, Floats, Floats]:
    """Eigenvectors of B S^-1 B' (rows, rows)."""
    response = deviations.response * deviations.shares
    solved = np.asarray(factor(structure).solve(np.ascontiguousarray(response.T)))
    values, vectors = eigh(response @ solved)
    kept = _informative(values, deviations.freedom)
    information, directions = values[kept], vectors[:, kept]
    return information, directions, solved @ directions / np.sqrt(information)


def _by_cells(deviations: Deviations, structure: Any) -> tuple[Floats, Floats, Floats]:
    """The generalized eigenvectors of (B'B, S), (n, n)."""
    response = deviations.response * deviations.shares
    values, vectors = eigh(response.T @ response, structure.toarray())
    kept = _informative(values, deviations.freedom)
    information, basis = values[kept], vectors[:, kept]
    return information, response @ basis / np.sqrt(information), basis


def _informative(values: Floats, most: int) -> Indices:
    """Indices of the eigenvalues that are not 0, at most so many, the largest first."""
    order = np.argsort(values)[::-1][:most]
    return np.asarray(order[values[order] > _NO_INFORMATION * values[order[0]]])
