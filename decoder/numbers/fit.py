"""A smooth fit of the shares between cuts, for pictures; no interval is taken from it.

Logarithms of the shares of neighboring cells have second differences that are normal with a
variance found by Laplace's approximation of the evidence; the likelihood is that of the symbols.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decoder.numbers.survival import CutCounts
from decoder.typing import Floats

STRENGTHS = np.geomspace(0.03, 3e4, 16)  # of the prior: one over the variance
MAX_STEPS = 60
TOLERANCE = 1e-6
RIDGE = 1e-4  # of cells outside the chain


@dataclass(frozen=True)
class SymbolLikelihood:
    """The likelihood of reports by symbol, for sets of devices with the same channel.

    symbols: (sets, g).  cells: (sets, g, cells), P(symbol before the coin) given the cell.
    keep, lie: of the coin.  kappa: how much reports of devices repeat each other.
    """

    symbols: Floats
    cells: Floats
    keep: float
    lie: float
    kappa: float

    def value(self, shares: Floats) -> float:
        """Logarithm of the likelihood of the cells' shares."""
        return float((self.symbols * np.log(self._symbol_rates(shares))).sum()) / self.kappa

    def slope(self, shares: Floats) -> Floats:
        """Gradient of the log-likelihood in the shares."""
        ratio = self.symbols / self._symbol_rates(shares)
        slope: Floats = np.einsum("ksc,ks->c", self.cells, ratio) * (self.keep - self.lie)
        return slope / self.kappa

    def information(self, shares: Floats) -> Floats:
        """Fisher information at the fitted shares; from raw counts the weights would be biased."""
        weights = self.symbols.sum(axis=1)[:, None] / self._symbol_rates(shares)
        root = self.cells * np.sqrt(weights)[:, :, None]
        flat = root.reshape(-1, root.shape[2])
        information: Floats = flat.T @ flat * (self.keep - self.lie) ** 2
        return information / self.kappa

    def _symbol_rates(self, shares: Floats) -> Floats:
        rates: Floats = self.lie + (self.keep - self.lie) * (self.cells @ shares)
        return rates


def fitted_shares(counts: CutCounts, kappa: float = 1.0) -> Floats:
    """Smooth fit of the shares of the K + 1 cells between the questions, lowest first; sum 1.

    The mode with the most evidence over the strengths of the prior.

    Args:
        counts: of a window.
        kappa: how much the reports of devices repeat each other.
    """
    likelihood = SymbolLikelihood(counts.symbols, _cells(counts), counts.keep, counts.lie, kappa)
    offset, penalty, rank = _smoothness(counts)
    size = len(offset)
    logits, fits = np.zeros(size), []
    for strength in STRENGTHS[::-1]:
        matrix = strength * penalty + RIDGE * np.eye(size)
        logits, curvature = _mode(likelihood, logits, offset, matrix)
        shares = _softmax(logits + offset)
        evidence = (
            likelihood.value(shares)
            - float(logits @ matrix @ logits) / 2
            + rank / 2 * float(np.log(strength))
            - float(np.linalg.slogdet(curvature)[1]) / 2
        )
        fits.append((evidence, shares))
    return max(fits, key=lambda fit: fit[0])[1]


def _mode(
    likelihood: SymbolLikelihood, start: Floats, offset: Floats, matrix: Floats
) -> tuple[Floats, Floats]:
    """Fisher scoring with halved steps; the mode and the curvature there."""
    logits = start
    shares = _softmax(logits + offset)
    value = likelihood.value(shares) - float(logits @ matrix @ logits) / 2
    for _ in range(MAX_STEPS):
        jacobian = np.diag(shares) - np.outer(shares, shares)
        slope = jacobian @ likelihood.slope(shares) - matrix @ logits
        curvature = jacobian @ likelihood.information(shares) @ jacobian + matrix
        step = np.linalg.solve(curvature, slope)
        size = min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
        gain = float(slope @ step)
        while True:
            trial = logits + size * step
            trial_shares = _softmax(trial + offset)
            trial_value = likelihood.value(trial_shares) - float(trial @ matrix @ trial) / 2
            if trial_value >= value + 1e-4 * size * gain or size < 1e-6:
                break
            size /= 2
        moved = trial_value > value
        if moved:
            logits, shares, value = trial, trial_shares, trial_value
        if gain < TOLERANCE or not moved:
            return logits, curvature
    return logits, curvature


def _cells(counts: CutCounts) -> Floats:
    """Which symbol each cell has in each set: (sets, g, K + 1) of 0 and 1."""
    g, size = counts.symbols.shape[1], len(counts.offset) + 1
    cells = np.zeros((counts.stride, g, size))
    for first in range(counts.stride):
        cuts = np.array(counts.number.cuts(first, g))
        symbol = (cuts[:, None] < np.arange(size)[None, :]).sum(axis=0)
        cells[first, symbol, np.arange(size)] = 1.0
    return cells


def _smoothness(counts: CutCounts) -> tuple[Floats, Floats, int]:
    """Logarithms of the cells' widths, the penalty of second differences, and its rank. Outside the
    chain: no data, and a lowest cell that is of another kind than its neighbors."""
    number = counts.number
    size = len(counts.offset) + 1
    apart = number.none == "apart"
    edges = np.array(number.asked[1 if apart else 0 :])
    below = number.scale == "log" or bool(number.whole and len(edges) and edges[0] <= 1)
    first = int(apart) + int(below)
    offset = np.zeros(size)
    if (number.scale == "list" or number.whole) and number.ask == "edges" and len(edges) > 1:
        widths = np.diff(edges)
        offset[int(apart) + 1 : -1] = np.log(widths)
        offset[-1] = np.log(widths[-1])
        offset[int(apart)] = np.log(widths[0] if number.negative else max(edges[0], 1e-9))
    chain = size - first
    if chain < 3:
        return offset, np.zeros((size, size)), 0
    differences = np.zeros((chain - 2, size))
    for row in range(chain - 2):
        differences[row, first + row : first + row + 3] = (1.0, -2.0, 1.0)
    return offset, differences.T @ differences, chain - 2


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max())
    shares: Floats = np.maximum(weights / weights.sum(), 1e-300)
    return shares
