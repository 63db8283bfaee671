"""A smooth fit of the shares between cuts, for pictures; no interval is taken from it.

Logarithms of the shares of neighboring cells have second differences that are normal with a
variance found by Laplace's approximation of the evidence; the likelihood is that of the symbols.
"""

import numpy as np

from decoder.numbers.survival import CutCounts
from decoder.typing import Floats

STRENGTHS = np.geomspace(0.03, 3e4, 16)  # of the prior: one over the variance
MAX_STEPS = 60
TOLERANCE = 1e-6
RIDGE = 1e-4  # of cells outside the chain


class SymbolLikelihood:
    """The likelihood of a window's reports by symbol.

    cells: (sets, g, cells), 0 or 1: which symbol a cell has in each set of cohorts with the same
    cuts.  kappa: how much reports of devices repeat each other.
    """

    def __init__(self, counts: CutCounts, kappa: float) -> None:
        self.symbols, self.lie, self.kappa = counts.symbols, counts.lie, kappa
        self.gap = counts.keep - counts.lie
        size = len(counts.offset) + 1
        self.cells = np.zeros((*self.symbols.shape, size))
        for first in range(counts.stride):
            cuts = np.array(counts.number.cuts(first, self.symbols.shape[1]))
            symbol = (cuts[:, None] < np.arange(size)[None, :]).sum(axis=0)
            self.cells[first, symbol, np.arange(size)] = 1.0

    def value(self, shares: Floats) -> float:
        """Logarithm of the likelihood of the cells' shares."""
        rates = self.lie + self.gap * (self.cells @ shares)
        return float((self.symbols * np.log(rates)).sum()) / self.kappa

    def slope(self, shares: Floats) -> tuple[Floats, Floats]:
        """Gradient of the log-likelihood in the shares, and the Fisher information at the fitted
        ones; from raw counts the weights would be biased."""
        rates = self.lie + self.gap * (self.cells @ shares)
        slope = np.einsum("ksc,ks->c", self.cells, self.symbols / rates) * self.gap
        root = self.cells * np.sqrt(self.symbols.sum(axis=1)[:, None] / rates)[:, :, None]
        flat = root.reshape(-1, len(shares))
        return slope / self.kappa, flat.T @ flat * self.gap**2 / self.kappa


def fitted_shares(counts: CutCounts, kappa: float = 1.0) -> Floats:
    """Smooth fit of the shares of the K + 1 cells between the questions, lowest first; sum 1.

    The mode with the most evidence over the strengths of the prior.

    Args:
        counts: of a window.
        kappa: how much the reports of devices repeat each other.
    """
    likelihood = SymbolLikelihood(counts, kappa)
    offset, penalty, rank = _smoothness(counts)
    size = len(offset)
    logits, fits = np.zeros(size), []
    for strength in STRENGTHS[::-1]:
        matrix = strength * penalty + RIDGE * np.eye(size)
        logits, value, curvature = _mode(likelihood, logits, offset, matrix)
        evidence = value + rank / 2 * float(np.log(strength))
        evidence -= float(np.linalg.slogdet(curvature)[1]) / 2
        fits.append((evidence, _softmax(logits + offset)))
    return max(fits, key=lambda fit: fit[0])[1]


def _mode(
    likelihood: SymbolLikelihood, logits: Floats, offset: Floats, matrix: Floats
) -> tuple[Floats, float, Floats]:
    """Fisher scoring with halved steps; the mode, the posterior's logarithm and curvature there."""

    def posterior(logits: Floats) -> float:
        shares = _softmax(logits + offset)
        return likelihood.value(shares) - float(logits @ matrix @ logits) / 2

    value = posterior(logits)
    for _ in range(MAX_STEPS):
        shares = _softmax(logits + offset)
        jacobian = np.diag(shares) - np.outer(shares, shares)
        slope, information = likelihood.slope(shares)
        slope = jacobian @ slope - matrix @ logits
        curvature = jacobian @ information @ jacobian + matrix
        step = np.linalg.solve(curvature, slope)
        size = min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-12))
        gain = float(slope @ step)
        while (reached := posterior(logits + size * step)) < value + 1e-4 * size * gain:
            if size < 1e-6:
                break
            size /= 2
        moved = reached > value
        if moved:
            logits, value = logits + size * step, reached
        if gain < TOLERANCE or not moved:
            break
    return logits, value, curvature


def _smoothness(counts: CutCounts) -> tuple[Floats, Floats, int]:
    """Logarithms of the cells' widths, the penalty of second differences, and its rank. Outside the
    chain: no data, and a lowest cell that is of another kind than its neighbors."""
    number, size = counts.number, len(counts.offset) + 1
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
    differences[:, first:] = np.diff(np.eye(chain), 2, axis=0)
    return offset, differences.T @ differences, chain - 2


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max())
    shares: Floats = np.maximum(weights / weights.sum(), 1e-300)
    return shares
