"""Contrasts between windows of the share of each cell, by generalised least squares.

A contrast g of windows (sum 0) of the whitened rows is B D + noise: D are the contrasts of the
shares, B = W^.5 (X - X s 1') what a unit of share moved to each cell does to the rows. For each
cell its own contrast is free, and those of the others are random: D = (I - s 1') u,
u ~ N(0, tau^2 K), so that people who leave together leave all cells in proportion to their shares.
tau^2 is learnt by restricted likelihood (Patterson and Thompson 1971), for each contrast by itself:
one event parts some windows and not others. So an estimate is not drawn towards no change, and its
standard error holds what the other cells did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decoder.typing import Floats

_STEPS = 80
_LEAST, _MOST = 1e-4, 1e7  # of tau^2 times the mean information of a direction
_NOISES = 12
_AS_LIKELY = 0.2  # nats: of noises that the data hardly tell apart the largest is taken


@dataclass(frozen=True)
class RandomCells:
    """The whitened data of T windows in r independent directions, and how cells vary together.

    data: (r, T), with noise of variance 1 in each window.  scale: (T,), how much of a share the
    rows of a window show.  response: Q'B, (r, n).  information: mu, (r,), variances of the data at
    tau^2 = 1, that is Q'B K B'Q = diag(mu).  toward: Q'B K, (r, n).  own, rows: diagonal and row
    sums of K, (n,).  shares: s, (n,), of sum 1.  rest, rest_freedom: sums of products (T, T) of the
    rows in directions that hold noise alone, and how many those are.
    """

    data: Floats
    scale: Floats
    response: Floats
    information: Floats
    toward: Floats
    own: Floats
    rows: Floats
    shares: Floats
    rest: Floats
    rest_freedom: int


@dataclass(frozen=True)
class Fitted:
    """The fitted variances of a contrast. noise: 1 if no device repeated any. variance: tau^2."""

    height: float
    noise: float
    variance: float


def contrast_cells(
    models: Sequence[RandomCells], contrast: Floats, repeated: float
) -> tuple[Floats, Floats]:
    """Estimate a contrast of every cell under the most likely of several models.

    Args:
        models: ways in which cells may vary together, of the same rows.
        contrast: (T,), of sum 0.
        repeated: the most of a row's variance that devices repeat in every window, in [0, 1).

    Returns:
        Unbiased differences and their standard errors, (n,) each.
    """
    fits = [fit_variances(model, contrast, repeated) for model in models]
    best = max(range(len(fits)), key=lambda index: fits[index].height)
    return _estimates(models[best], contrast, fits[best])


def fit_variances(model: RandomCells, contrast: Floats, repeated: float) -> Fitted:
    """The most likely variances of a contrast (T,), on a grid.

    Devices that stay repeat noise in all windows, those that move only in some: the noise is at
    least as if all stayed, and at most as if all moved between the two sides of the contrast.
    """
    weights = contrast / model.scale
    unit = float(weights @ weights)
    squares = (model.data @ weights) ** 2 / unit
    rest = float(weights @ model.rest @ weights) / unit
    sides = [weights[weights * sign > 0] for sign in (1, -1)]
    loudest = 1 + repeated * sum(float(one.sum() ** 2 - one @ one) for one in sides) / unit
    tried = np.append(0.0, np.geomspace(_LEAST, _MOST, _STEPS) / model.information.mean())
    fits = []
    for noise in np.geomspace(1 - repeated, loudest, _NOISES) if repeated > 0 else (1.0,):
        variances = noise + tried[:, None] * model.information
        heights = np.log(variances).sum(axis=1) + (squares / variances).sum(axis=1)
        heights = -0.5 * (heights + model.rest_freedom * np.log(noise) + rest / noise)
        top = int(np.argmax(heights))
        fits.append(Fitted(float(heights[top]), float(noise), float(tried[top])))
    highest = max(one.height for one in fits)
    return [one for one in fits if one.height >= highest - _AS_LIKELY][-1]


def _estimates(model: RandomCells, contrast: Floats, fit: Fitted) -> tuple[Floats, Floats]:
    """Of each cell, its own share free: the covariance of the rows less what the cell adds to it.

    With V that of all cells, b = B e_c, a = s_c / (1 - s_c) and the others' share taken from cell c
    too, V_c = V + m b b' + b q' + q b', q = a B K 1 - (1 + a) B K e_c: an update of rank two.
    """
    shares, response = model.shares, model.response
    weights = contrast / model.scale
    unit = float(weights @ weights)
    data, variance = model.data @ weights, fit.variance * unit
    inverse = 1 / (fit.noise * unit + variance * model.information)
    a = shares / (1 - shares)
    q = variance * (a * model.toward.sum(axis=1, keepdims=True) - (1 + a) * model.toward)
    m = model.own + 2 * a * (model.own - model.rows)
    m = variance * (m + a**2 * (model.rows.sum() - 2 * model.rows + model.own))
    weighted = inverse[:, None] * response
    bb, bq = (np.einsum("rn,rn->n", one, weighted) for one in (response, q))
    qq = np.einsum("rn,rn,r->n", q, q, inverse)
    by, qy = weighted.T @ data, q.T @ (inverse * data)
    cross, last = 1 + bq, qq - m
    determinant = bb * last - cross**2
    on_b = (last * bb - cross * bq) / determinant
    on_q = (bb * bq - cross * bb) / determinant
    information = np.maximum(bb - on_b * bb - on_q * bq, 1e-300)
    product = by - on_b * by - on_q * qy
    return (1 - shares) * product / information, (1 - shares) / np.sqrt(information)
