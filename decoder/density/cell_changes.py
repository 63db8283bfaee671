"""Changes of single cells of a map between windows of one slot: each window against the others,
or two windows.

Of the whitened rows a contrast of windows (sum 0) is B D + noise, D the contrasts of the shares
among people in a cell, B = W^.5 (X - X s 1') what a unit of share moved to each cell does to the
rows. For each cell its own contrast is free, and those of the others are random: D = (I - s 1') u,
u ~ N(0, tau^2 K), tau^2 by restricted likelihood for each contrast (docs/method.md). So an estimate
is not drawn towards no change, and its standard error holds what the other cells did.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import inv

from decoder.comparison.differences import corrected, no_change
from decoder.density.field_prior import Graph, Prior
from decoder.density.space_time_model import Deviations, Modes, modes_of, patterns
from decoder.typing import Floats

MAX_PAIRED = 14  # windows of a series: 91 pairs; of a longer one each is compared with the first
OWN = 2.0  # standard errors by which one of many windows itself must differ
_STEPS = 80
_MIN_SIZE, _MAX_SIZE = 1e-4, 1e7  # of tau^2 times the mean information of a direction
_NOISES = 12
_AS_LIKELY = 0.2  # nats: of noises that the data hardly tell apart the largest is taken


class WindowChanges(NamedTuple):
    """Changes of the cells of one window, (n,) each, with standard errors.

    from_others: less the mean of the other windows; p_adjusted: of no such change
    (`corrected_changes`).  since: less each of `bases_of`.
    """

    from_others: tuple[Floats, Floats]
    p_adjusted: Floats
    since: tuple[tuple[Floats, Floats], ...]


def series_changes(
    deviations: Deviations, laplacian: Any | None, repeated: float
) -> list[WindowChanges]:
    """Changes of each of two or more windows against the others.

    Args:
        deviations: of the fitted windows.
        laplacian: of the neighbors of the cells (n, n), None for no graph.
        repeated: the most of a row's variance that devices repeat in every window, in [0, 1).
    """
    graphs: tuple[Graph, ...] = ("alike",) if laplacian is None else ("alike", "neighbors")
    models = [_model(deviations, graph, laplacian) for graph in graphs]
    windows = len(deviations.scale)
    unit, tried = np.eye(windows), patterns(windows)
    contrasts = [_contrast_cells(models, _weights(pattern), repeated) for pattern in tried]
    sizes, errors = (np.stack(part) for part in zip(*contrasts, strict=True))
    p_adjusted = corrected_changes(tried, sizes, errors)
    return [
        WindowChanges(
            (sizes[t], errors[t]),
            p_adjusted[t],
            tuple(
                _contrast_cells(models, unit[t] - unit[base], repeated)
                for base in bases_of(t, windows)
            ),
        )
        for t in range(windows)
    ]


def bases_of(number: int, windows: int) -> range:
    """Numbers of the windows that window `number` of a series is compared with."""
    return range(number if windows <= MAX_PAIRED else min(number, 1))


def _weights(pattern: Floats) -> Floats:
    """Return the contrast (T,) of the mean of the windows of a pattern less that of the others."""
    return np.asarray(pattern / pattern.sum() - (1 - pattern) / (1 - pattern).sum())


def corrected_changes(tried: Floats, sizes: Floats, errors: Floats) -> Floats:
    """Corrected p-values that a cell does not change in a window, (T, n).

    In each cell the pattern with the smallest p-value is taken out of the others, then the next. A
    p-value is times the number of all cells and patterns, and not below those taken before it. That
    of a window is of the first pattern that holds it and has its sign; 1 without one. The window
    itself must differ by OWN standard errors: in a steady change one in the middle is near the mean
    of the others. Two windows have one contrast, which is corrected as that since the first.

    Args:
        tried: patterns of windows, (K, T), the windows alone first.
        sizes: of the patterns' contrasts, (K, n).
        errors: their standard errors, (K, n).
    """
    windows = tried.shape[1]
    if windows == 2:
        later = corrected(no_change(sizes[1], errors[1])).adjusted
        return np.stack([np.ones_like(later), later])
    singles = sizes[:windows]
    signs = np.where(np.abs(singles) > OWN * errors[:windows], np.sign(singles), 0.0)
    share = np.array([_weights(row) for row in tried]) @ tried.T  # of pattern j in contrast i
    rest, cells = sizes.copy(), np.arange(sizes.shape[1])
    adjusted, reached = np.ones(signs.shape), np.zeros(sizes.shape[1])
    for _ in range(len(tried)):
        best = np.argmax(np.abs(rest / errors), axis=0)
        size = rest[best, cells]
        p = no_change(size, errors[best, cells])
        reached = np.maximum(reached, np.minimum(p * sizes.size, 1.0))
        if (reached == 1).all():
            break
        holds = (tried[best].T > 0) & (signs == np.sign(size)) & (signs != 0)
        adjusted = np.where(holds, np.minimum(adjusted, reached), adjusted)
        rest -= size * share[:, best]
    return adjusted


@dataclass(frozen=True)
class RandomCells:
    """The whitened data of T windows in r independent directions, and how cells vary together.

    modes: at tau^2 = 1 their data have variances `information`, that is Q'B K B'Q = diag(mu).
    toward: Q'B K, (r, n).  diagonal, rows: of K, and sums of its rows, (n,).
    """

    modes: Modes
    scale: Floats
    toward: Floats
    diagonal: Floats
    rows: Floats
    shares: Floats


def _model(deviations: Deviations, graph: Graph, laplacian: Any | None) -> RandomCells:
    """Cells change by some part of their share, or of an even one: empty cells may fill."""
    shares, size = deviations.shares, len(deviations.shares)
    spread = (shares + 1 / size) / 2
    structure = Prior.of(graph, laplacian, size).structure
    modes = modes_of(replace(deviations, shares=spread), structure)
    covariance = np.eye(size) if graph == "alike" else inv(structure.toarray())
    toward = (spread[:, None] * modes.basis * np.sqrt(modes.information)).T
    diagonal, rows = spread**2 * np.diag(covariance), spread * (covariance @ spread)
    return RandomCells(modes, deviations.scale, toward, diagonal, rows, shares)


def _contrast_cells(
    models: Sequence[RandomCells], contrast: Floats, repeated: float
) -> tuple[Floats, Floats]:
    """Unbiased differences of a contrast (T,) of every cell and their standard errors, (n,) each,
    under the most likely of several models of the same rows."""
    fits = [(*_fit_variances(model, contrast, repeated), model) for model in models]
    _, noise, variance, model = max(fits, key=lambda fit: fit[0])
    return _estimates(model, contrast, noise, variance)


def _fit_variances(
    model: RandomCells, contrast: Floats, repeated: float
) -> tuple[float, float, float]:
    """Return the height of the likelihood of a contrast (T,) at its most likely noise (1 if no
    device repeated any) and tau^2, on a grid.

    Devices that stay repeat noise in all windows, those that move only in some: the noise is at
    least as if all stayed, and at most as if all moved between the two sides of the contrast.
    """
    modes, weights = model.modes, contrast / model.scale
    unit = float(weights @ weights)
    squares = (modes.data @ weights) ** 2 / unit
    rest = float(weights @ modes.rest @ weights) / unit
    sides = [weights[weights * sign > 0] for sign in (1, -1)]
    loudest = 1 + repeated * sum(float(side.sum() ** 2 - side @ side) for side in sides) / unit
    tried = np.append(0.0, np.geomspace(_MIN_SIZE, _MAX_SIZE, _STEPS) / modes.information.mean())
    fits = []
    for noise in np.geomspace(1 - repeated, loudest, _NOISES) if repeated > 0 else (1.0,):
        variances = noise + tried[:, None] * modes.information
        heights = np.log(variances).sum(axis=1) + (squares / variances).sum(axis=1)
        heights = -0.5 * (heights + modes.rest_freedom * np.log(noise) + rest / noise)
        top = int(np.argmax(heights))
        fits.append((float(heights[top]), float(noise), float(tried[top])))
    return [fit for fit in fits if fit[0] >= max(fits)[0] - _AS_LIKELY][-1]


def _estimates(
    model: RandomCells, contrast: Floats, noise: float, variance: float
) -> tuple[Floats, Floats]:
    """For each cell, its own share free: the covariance of the rows less what the cell adds to it.

    With V that of all cells, b = B e_c, a = s_c / (1 - s_c) and the others' share taken from cell c
    too, V_c = V + m b b' + b q' + q b', q = a B K 1 - (1 + a) B K e_c: an update of rank two.
    """
    shares, response, modes = model.shares, model.modes.response, model.modes
    weights = contrast / model.scale
    unit = float(weights @ weights)
    data, variance = modes.data @ weights, variance * unit
    inverse = 1 / (noise * unit + variance * modes.information)
    a = shares / (1 - shares)
    q = variance * (a * model.toward.sum(axis=1, keepdims=True) - (1 + a) * model.toward)
    m = model.diagonal + 2 * a * (model.diagonal - model.rows)
    m = variance * (m + a**2 * (model.rows.sum() - 2 * model.rows + model.diagonal))
    weighted = inverse[:, None] * response
    bb, bq = (np.einsum("rn,rn->n", part, weighted) for part in (response, q))
    qq = np.einsum("rn,rn,r->n", q, q, inverse)
    by, qy = weighted.T @ data, q.T @ (inverse * data)
    cross, last = 1 + bq, qq - m
    determinant = bb * last - cross**2
    on_b = (last * bb - cross * bq) / determinant
    on_q = (bb * bq - cross * bb) / determinant
    information = np.maximum(bb - on_b * bb - on_q * bq, 1e-300)
    product = by - on_b * by - on_q * qy
    return (1 - shares) * product / information, (1 - shares) / np.sqrt(information)
