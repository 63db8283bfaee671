"""Published methods for distributions at the same lifetime budget, combined with our smooth fit.

The nearest ones, memoised and once for life. Each is drawn from its exact chances, one period, and
gets what it needs for free: one with a cap meets no device that drifts. A design is a function of
(shares of the cells, prior, budget, devices, generator) that returns fitted shares of the cells.

Square wave: Li et al., SIGMOD 2020, arXiv:1912.01051. HaarHRR: `wavelet`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from decoder.numbers.fit import SymbolLikelihood, fitted_cells
from decoder.typing import Floats
from rappor_core.mechanism import TwoRoundMechanism
from simulations.numbers.wavelet import WaveletReports

Prior = tuple[Floats, Floats, int]
Design = Callable[[Floats, Prior, float, int, np.random.Generator], Floats]
SECOND = 0.9  # of the permanent round's epsilon, for designs with two rounds
CAP = 3  # values that a memoising rival charges for
PLACES = 16  # in a cell, over which its chances are averaged


def square_wave_chances(epsilon: float, cells: int) -> Floats:
    """P(output bin | cell): twice as many bins as cells over [-b, 1 + b], (2 cells, cells).

    A device's number is anywhere in its cell alike.
    """
    e = math.exp(epsilon)
    b = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
    high, low = e / (2 * b * e + 1), 1 / (2 * b * e + 1)
    edges = np.linspace(-b, 1 + b, 2 * cells + 1)
    places = (np.arange(cells * PLACES) + 0.5) / (cells * PLACES)
    starts = np.maximum(edges[:-1, None], places[None, :] - b)
    ends = np.minimum(edges[1:, None], places[None, :] + b)
    near = np.maximum(0.0, ends - starts).reshape(-1, cells, PLACES).mean(axis=2)
    chances: Floats = low * (edges[1] - edges[0]) + (high - low) * near
    chances /= chances.sum(axis=0)
    return chances


def _square_wave(
    cells: Floats, epsilon: float, devices: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    chances = square_wave_chances(epsilon, len(cells))
    return rng.multinomial(devices, chances @ cells).astype(float), chances


def square_wave_once(
    cells: Floats, prior: Prior, budget: float, devices: int, rng: np.random.Generator
) -> Floats:
    """Draw answers from the true shares `cells`, (C,), and estimate these by Square Wave with one
    fresh report for life, and our fit."""
    told, chances = _square_wave(cells, budget, devices, rng)
    return fitted_cells(SymbolLikelihood(told[None], chances[None], 1.0, 0.0, 1.0), prior)


def square_wave_capped(
    cells: Floats, prior: Prior, budget: float, devices: int, rng: np.random.Generator
) -> Floats:
    """Draw answers from the true shares `cells`, (C,), and estimate these by Square Wave with a
    memoised report of each of three values, and our fit."""
    return square_wave_once(cells, prior, budget / CAP, devices, rng)


def _wavelet_fit(drawn: WaveletReports, prior: Prior) -> Floats:
    rounds = drawn.rounds
    return fitted_cells(
        SymbolLikelihood(drawn.symbols, drawn.cells, rounds.q_star, rounds.p_star, 1.0), prior
    )


def haar_memoised(
    cells: Floats, prior: Prior, budget: float, devices: int, rng: np.random.Generator
) -> Floats:
    """Draw answers from the true shares `cells`, (C,), and estimate these by HaarHRR with memoised
    answers and our smooth fit."""
    rounds = TwoRoundMechanism.symbols(2, budget / 2, SECOND * budget / 2)
    return _wavelet_fit(WaveletReports.draw(cells, rounds, devices, rng), prior)


def haar_once(
    cells: Floats, prior: Prior, budget: float, devices: int, rng: np.random.Generator
) -> Floats:
    """Draw answers from the true shares `cells`, (C,), and estimate these by HaarHRR as in the
    paper, one fresh bit for life, and our fit."""
    rounds = TwoRoundMechanism.one_symbol(2, budget)
    return _wavelet_fit(WaveletReports.draw(cells, rounds, devices, rng), prior)


RIVALS: dict[str, Design] = {
    "Haar wavelets (HRR), memoised": haar_memoised,
    "square wave memoised, cap 3": square_wave_capped,
    "once: square wave, our fit": square_wave_once,
    "once: HaarHRR, our fit": haar_once,
}
