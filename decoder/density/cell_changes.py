"""Changes in single cells of a map, for each window against all others or a single window.

A contrast of windows (weights of sum 0) of the whitened rows is B D + noise. D are the contrasts of
the shares among people in a cell; B = W^.5 (X - X s 1') is the effect on the rows of moving one
unit of share to each cell. The tested cell's contrast is a free parameter. The contrasts of the
other cells are random: D = (I - s 1') u, u ~ N(0, tau^2 K), with tau^2 by restricted likelihood for
each contrast (docs/method.md). So an estimate is not shrunk toward no change, and its standard
error allows for changes in the other cells."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import inv

from decoder.comparison.differences import corrected, no_change
from decoder.density.field_prior import Graph, Prior
from decoder.density.space_time_model import Deviations, Modes, modes_of, patterns
from decoder.typing import Floats

MAX_PAIRED = 14  # in a series of more windows (91 pairs), each is compared only with the first
OWN = 2.0  # standard errors by which a window must differ from the others to count as changed
_STEPS = 80
_MIN_SIZE, _MAX_SIZE = 1e-4, 1e7  # bounds of tau^2 times a direction's mean information
_NOISES = 12
_AS_LIKELY = 0.2  # nats; the largest noise level whose likelihood is this close to the best is used


class WindowChanges(NamedTuple):
    """Changes in the cells of one window, (n,) each, with standard errors."""

    from_others: tuple[Floats, Floats]  # Changes from the mean of the other windows
    p_adjusted: Floats  # P-value for no change from the others (`corrected_changes`)
    since: tuple[tuple[Floats, Floats], ...]  # Changes from each window in `bases_of`


def series_changes(
    deviations: Deviations, laplacian: Any | None, repeated: float
) -> list[WindowChanges]:
    """Compute the changes of the cells in each of two or more windows.

    Args:
        deviations: The deviations of the fitted windows.
        laplacian: The graph Laplacian of neighboring cells (n, n); None for no graph.
        repeated: The maximum fraction of a row's noise variance, in [0, 1), that is the same in
            every window because devices repeat their answers.
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
    """Return the numbers of the windows that window `number` of `windows` is compared with."""
    return range(number if windows <= MAX_PAIRED else min(number, 1))


def _weights(pattern: Floats) -> Floats:
    return np.asarray(pattern / pattern.sum() - (1 - pattern) / (1 - pattern).sum())


def corrected_changes(tried: Floats, sizes: Floats, errors: Floats) -> Floats:
    """Compute corrected p-values of no change for each cell in each window, (T, n).

    In each cell, the pattern with the smallest p-value is subtracted from the others, then the
    pattern with the next smallest p-value, and so on. A p-value is multiplied by the number of all
    cells and patterns, and is at least as large as earlier p-values. A window gets the p-value of
    the first chosen pattern that contains it and has its sign, or 1 if there is no such pattern.
    The window itself must differ from the mean of the others by OWN standard errors, because in a
    steady trend, the middle window is near that mean. Two windows have a single contrast, which is
    corrected as a change since the first.

    Args:
        tried: The patterns of windows, (K, T), single windows first.
        sizes: The estimated contrasts of the patterns, (K, n).
        errors: Their standard errors, (K, n).
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
    """The whitened data of T windows in r independent directions, and the cells' joint prior."""

    modes: Modes  # At tau^2 = 1 their data have variances `information`: Q'B K B'Q = diag(mu)
    scale: Floats  # As in `Deviations`, (T,)
    toward: Floats  # Q'B K, (r, n)
    diagonal: Floats  # The diagonal of K, (n,)
    rows: Floats  # The row sums of K, (n,)
    shares: Floats


def _model(deviations: Deviations, graph: Graph, laplacian: Any | None) -> RandomCells:
    """Build the model in which changes scale with the mean of a cell's share and an even share.

    So cells that are empty in the shared map can gain people."""
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
    """Return each cell's difference for a contrast of windows (T,), and its error, (n,) each.

    Differences are unbiased; the model used has the highest likelihood for the common rows."""
    fits = [(*_fit_variances(model, contrast, repeated), model) for model in models]
    _, noise, variance, model = max(fits, key=lambda fit: fit[0])
    return _estimates(model, contrast, noise, variance)


def _fit_variances(
    model: RandomCells, contrast: Floats, repeated: float
) -> tuple[float, float, float]:
    """Return the maximum log likelihood of a contrast (T,), and the noise and tau^2 at it.

    The maximum is searched on a grid. The noise variance is 1 if no device repeats its noise.
    Devices that stay in place repeat their noise in all windows; devices that move repeat it in
    some windows. So the noise is at least as large as if all devices stay, and at most as large as
    if all devices move between the two sides of the contrast."""
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
    """Return each cell's difference (n,), estimated without that cell's prior, and its error (n,).

    The covariance of the rows excludes the cell's own contribution. Let V be the covariance of
    all cells, b = B e_c and a = s_c / (1 - s_c). The others' share is taken from cell c too, so V_c
    = V + m b b' + b q' + q b', q = a B K 1 - (1 + a) B K e_c: an update of rank two."""
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
