"""Published methods for distributions at the same lifetime budget, combined with our smooth fit.

Each is drawn from its exact chances, one period, and gets what it needs for free: those with a cap
meet no device that drifts. A design is a function of (shares of the cells, prior, budget, devices,
generator) that returns fitted shares of the cells.

Square wave: Li et al., SIGMOD 2020, arXiv:1912.01051, with EMS or our fit. dBitFlipPM: Ding,
Kulkarni, Yekhanin, NeurIPS 2017. LOLOHA: arXiv:2210.00262. L-OSUE (RAPPOR): Arcolezi et al. 2022.
OUE: Wang et al., USENIX Security 2017. HaarHRR: `wavelet`. Two cuts with three symbols are a
variant of our own: a cohort compares with two edges.
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
LOLOHA_COHORTS = 64
CAP = 3  # values that a memoising rival charges for
EMS_STEPS = 10_000
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


def square_wave_ems(
    cells: Floats, prior: Prior, budget: float, devices: int, rng: np.random.Generator
) -> Floats:
    """Draw answers from the true shares `cells`, (C,), and estimate these by Square Wave with one
    fresh report for life, and the paper's EM with smoothing."""
    del prior
    told, chances = _square_wave(cells, budget, devices, rng)
    shares = np.full(len(cells), 1 / len(cells))
    last = -math.inf
    for _ in range(EMS_STEPS):
        mixed = chances @ shares
        shares = shares * (chances.T @ (told / mixed))
        padded = np.concatenate([shares[:1], shares, shares[-1:]])
        shares = padded[:-2] / 4 + padded[1:-1] / 2 + padded[2:] / 4
        shares /= shares.sum()
        value = float(told @ np.log(chances @ shares))
        if abs(value - last) < 1e-3 * math.exp(budget):
            break
        last = value
    return shares


def _bits(told: Floats, reports: Floats, keep: float, lie: float, prior: Prior) -> Floats:
    """Fit of counts of bits, each of one cell alone."""
    size = len(told)
    symbols = np.stack([reports - told, told], axis=1)
    chances = lie + (keep - lie) * np.eye(size)
    cells = np.stack([1 - chances, chances], axis=1)
    return fitted_cells(SymbolLikelihood(symbols, cells, 1.0, 0.0, 1.0), prior)


def _one_hot(
    cells: Floats, prior: Prior, rounds: TwoRoundMechanism, devices: int, rng: np.random.Generator
) -> Floats:
    chances = rounds.p_star + (rounds.q_star - rounds.p_star) * cells
    told = rng.binomial(devices, chances).astype(float)
    return _bits(told, np.full(len(cells), float(devices)), rounds.q_star, rounds.p_star, prior)


def rappor_capped(
    cells: Floats, prior: Prior, budget: float, devices: int, rng: np.random.Generator
) -> Floats:
    """Draw answers from the true shares `cells`, (C,), and estimate these by basic RAPPOR (L-OSUE)
    with three memoised values."""
    each = budget / CAP
    return _one_hot(cells, prior, TwoRoundMechanism.optimised(each, SECOND * each), devices, rng)


def oue_once(
    cells: Floats, prior: Prior, budget: float, devices: int, rng: np.random.Generator
) -> Floats:
    """Draw answers from the true shares `cells`, (C,), and estimate these by OUE: one fresh report
    for life, a bit for each cell."""
    return _one_hot(cells, prior, TwoRoundMechanism.one_shot(budget), devices, rng)


def loloha(
    cells: Floats, prior: Prior, budget: float, devices: int, rng: np.random.Generator
) -> Floats:
    """Draw answers from the true shares `cells`, (C,), and estimate these by LOLOHA with two
    hashed symbols and 64 cohorts."""
    rounds = TwoRoundMechanism.symbols(2, budget / 2, SECOND * budget / 2)
    hashed = rng.integers(0, 2, (LOLOHA_COHORTS, len(cells)))
    own = np.stack([1 - hashed, hashed], axis=1).astype(float)
    told = rounds.p_star + (rounds.q_star - rounds.p_star) * (own @ cells)
    reports = rng.multinomial(devices, np.full(LOLOHA_COHORTS, 1 / LOLOHA_COHORTS))
    symbols = rng.multinomial(reports, told / told.sum(axis=1, keepdims=True)).astype(float)
    return fitted_cells(SymbolLikelihood(symbols, own, rounds.q_star, rounds.p_star, 1.0), prior)


def two_cuts(
    cells: Floats, prior: Prior, budget: float, devices: int, rng: np.random.Generator
) -> Floats:
    """Draw answers from the true shares `cells`, (C,), and estimate these from two edges a cohort,
    far apart: three ordered symbols, each charged."""
    rounds = TwoRoundMechanism.symbols(3, budget / 3, SECOND * budget / 3)
    edges = len(cells) - 1
    sets = -(-edges // 2)
    symbol = (np.arange(sets)[:, None] < np.arange(edges + 1)).astype(int) + (
        np.arange(sets)[:, None] + sets < np.arange(edges + 1)
    )  # (sets, cells)
    own = (symbol[:, None, :] == np.arange(3)[:, None]).astype(float)
    told = rounds.p_star + (rounds.q_star - rounds.p_star) * (own @ cells)
    reports = rng.multinomial(devices, np.full(sets, 1 / sets))
    symbols = rng.multinomial(reports, told / told.sum(axis=1, keepdims=True)).astype(float)
    return fitted_cells(SymbolLikelihood(symbols, own, rounds.q_star, rounds.p_star, 1.0), prior)


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


def haar_inverse(
    cells: Floats, prior: Prior, budget: float, devices: int, rng: np.random.Generator
) -> Floats:
    """Draw answers from the true shares `cells`, (C,), and estimate these by HaarHRR with the
    paper's own estimator, the inverse transform."""
    del prior
    rounds = TwoRoundMechanism.one_symbol(2, budget)
    return WaveletReports.draw(cells, rounds, devices, rng).inverse()


def dbitflip(buckets: int) -> Design:
    """Make the design of dBitFlipPM, with d of the cells asked of a device; d + 1 answers are
    charged.

    Two numbers differ in two of the bits asked, or in one where one is asked, which has it all.
    """

    def design(
        cells: Floats, prior: Prior, budget: float, devices: int, rng: np.random.Generator
    ) -> Floats:
        size, each = len(cells), budget / (buckets + 1)
        keep = 1 / (1 + math.exp(-each / min(2, buckets)))
        asked = rng.multinomial(devices * buckets, np.full(size, 1 / size)).astype(float)
        told = rng.binomial(asked.astype(int), 1 - keep + (2 * keep - 1) * cells).astype(float)
        return _bits(told, asked, keep, 1 - keep, prior)

    return design


RIVALS: dict[str, Design] = {
    "two cuts, 3 symbols": two_cuts,
    "Haar wavelets (HRR), memoised": haar_memoised,
    "LOLOHA, 2 symbols, 64 cohorts": loloha,
    "square wave memoised, cap 3": square_wave_capped,
    "basic RAPPOR (L-OSUE), cap 3": rappor_capped,
    "dBitFlipPM, d = 1": dbitflip(1),
    "dBitFlipPM, d = 4": dbitflip(4),
    "once: square wave, our fit": square_wave_once,
    "once: square wave, EMS": square_wave_ems,
    "once: HaarHRR, our fit": haar_once,
    "once: HaarHRR, inverse transform": haar_inverse,
    "once: OUE": oue_once,
}
