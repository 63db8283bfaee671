"""`decode_numbers`, which estimates curve, quantiles and mean from a number metric's aggregate."""

import math
from itertools import pairwise

import numpy as np

from decoder.decoded_window import window_fields
from decoder.model.counts import collected_repetition
from decoder.numbers.quantities import (
    Bin,
    CurvePoint,
    Interval,
    NumberDecoding,
    Quantile,
    mean_of,
    of_those_with_data,
    quantile_ends,
)
from decoder.numbers.survival import CutCounts, Survival, cut_counts, first_edge, survival
from decoder.options import DecodeOptions
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.number import Number

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
MANY = 0.01  # warn if a larger fraction of devices is clipped at the top
STRENGTHS = np.geomspace(0.03, 3e4, 16)  # the prior's strengths, as inverse variances
MAX_STEPS = 60
TOLERANCE = 1e-6
RIDGE = 1e-4  # the precision of cells outside the chain


def decode_numbers(aggregate: Aggregate, options: DecodeOptions | None = None) -> NumberDecoding:
    """Estimate the distribution of the numbers in a window.

    Args:
        aggregate: The aggregate of a metric of kind `number`, with its definition.
        options: The options; `level`, `repeats` and `without_cohorts` are used, and `alpha` is
            stored for tests of changes.

    Raises:
        DecodeError: The metric is of a different kind, or questions have no reports.
    """
    options = options or DecodeOptions()
    aggregate = aggregate.without(options.without_cohorts)
    counts = cut_counts(aggregate)
    bound = collected_repetition(aggregate, options.repeats)
    curve = survival(counts, bound)
    fitted = fitted_shares(counts, max(1.0, curve.kappa))
    number, level, with_data = counts.number, options.level, None
    of_edges, mean = number.ask == "edges", mean_of(curve, level)
    if first_edge(number):
        low, high = curve.intervals(level)
        error = math.sqrt(float(curve.covariance[0, 0]))
        with_data = Interval(float(curve.shares[0]), error, float(low[0]), float(high[0]))
    return NumberDecoding(
        **window_fields(aggregate),
        number=number,
        level=level,
        alpha=options.alpha,
        repetition=bound,
        kappa=curve.kappa,
        freedom=curve.freedom,
        with_data=with_data,
        curve=_points(curve, fitted, level) if of_edges else (),
        bins=_bins(curve, fitted, level) if of_edges else (),
        quantiles=tuple(_quantile(curve, fitted, share, level) for share in QUANTILES),
        mean=mean,
        fitted=fitted,
        warnings=tuple(_warnings(curve, mean is not None and mean.at_or_above_top.low, bound)),
    )


def _points(curve: Survival, fitted: Floats, level: float) -> tuple[CurvePoint, ...]:
    number = curve.counts.number
    first, size = first_edge(number), len(curve.shares)
    low, high = curve.intervals(level)
    band_low, band_high = curve.band(level)
    questions = np.eye(size)
    each = [of_those_with_data(curve, question, 0.0, level) for question in questions]
    if first:  # among devices with data, intervals are for a quotient, joint by Bonferroni
        joint = 1 - (1 - level) / (size - first)
        wide = [of_those_with_data(curve, question, 0.0, joint) for question in questions]
        low, high = np.clip([(interval.low, interval.high) for interval in each], 0, 1).T
        band_low, band_high = np.clip([(interval.low, interval.high) for interval in wide], 0, 1).T
        band_low = np.maximum.accumulate(band_low[::-1])[::-1]
        band_high = np.minimum.accumulate(band_high)
    tail = np.cumsum(fitted[::-1])[::-1]  # the share of a cell and all cells above it
    whole = tail[1] if first else 1.0
    return tuple(
        CurvePoint(
            number.asked[j], each[j].estimate, each[j].std_error, float(low[j]), float(high[j]),
            float(band_low[j]), float(band_high[j]), float(tail[j + 1] / whole),
            round(float(curve.reports[j])),
        )
        for j in range(first, size)
    )  # fmt: skip


def _bins(curve: Survival, fitted: Floats, level: float) -> tuple[Bin, ...]:
    """Return the bins from each edge to the next, with an open bin at either end."""
    number, size = curve.counts.number, len(curve.shares)
    first = first_edge(number)
    whole = 1 - fitted[0] if first else 1.0
    ends = [None if number.negative else 0.0, *number.asked[first:], None]
    questions, bins = np.eye(size + 1, size), []  # nothing is at or above the last
    for j, (lower, upper) in enumerate(pairwise(ends), start=first - 1):
        weights = questions[j] * (j >= first) - questions[j + 1]
        share = of_those_with_data(curve, weights, float(j < first), level)
        low, high = np.clip([share.low, share.high], 0, 1).tolist()
        guess = float(fitted[j + 1] / whole)
        bins.append(Bin(lower, upper, share.estimate, share.std_error, low, high, guess))
    return tuple(bins)


def _quantile(curve: Survival, fitted: Floats, share: float, level: float) -> Quantile:
    """Return a quantile and its interval, which is based on tests at the edges.

    For jittered questions, the interval ends at the far end of the stratum."""
    number = curve.counts.number
    lower, upper = quantile_ends(curve, share, level)
    low = number.asked[lower] if lower >= first_edge(number) else None
    if low is None and not number.negative:
        low = 0.0
    if number.ask == "mean" and upper < len(number.asked) - 1:
        upper += 1
    high = number.asked[upper] if upper < len(number.asked) else None
    return Quantile(share, low, high, _fitted_quantile(number, fitted, share))


def _fitted_quantile(number: Number, fitted: Floats, share: float) -> float | None:
    """Return a quantile of the smooth fit, linear within a bin; None outside the edges."""
    first = first_edge(number)
    edges = np.array(number.asked[first:])
    inside = fitted[first:] / fitted[first:].sum()
    below = np.cumsum(inside)  # the share below each edge, then the total
    j = int(np.searchsorted(below, share))
    if number.ask == "mean" or j >= len(edges) or (j == 0 and number.negative):
        return None
    start, before = (edges[j - 1], float(below[j - 1])) if j else (0.0, 0.0)
    part = (share - before) / max(float(below[j]) - before, 1e-12)
    if number.scale == "log" and start > 0:
        return float(start * (edges[j] / start) ** part)
    if number.whole:
        return float(min(edges[j] - 1, start + math.floor(part * (edges[j] - start))))
    return float(start + part * (edges[j] - start))


def _warnings(curve: Survival, clipped: float | bool, bound: float) -> list[str]:
    warnings = []
    if bound > 1 and math.isinf(curve.freedom):
        warnings.append(
            f"the window spans periods, and no question has two cohorts: intervals are widened by "
            f"the bound {bound:.3g} of how often devices report, instead of by what reports show"
        )
    if clipped > MANY:
        warnings.append(
            f"at least {100 * clipped:.1f} % of devices are at or above the highest edge: the mean "
            "is of numbers clipped there, and says nothing of how far above they are"
        )
    low, high = curve.intervals(0.95)
    if float(np.median(high - low)) > 0.5:
        warnings.append(
            "the intervals of the curve are wider than half of all: use more reports, a longer "
            "window, fewer edges, or a larger epsilon"
        )
    return warnings


class SymbolLikelihood:
    """The likelihood of a window's reports by symbol.

    `cells` (sets, g, cells) is 1 for a cell's symbol in each set of cohorts with the same cuts."""

    def __init__(self, counts: CutCounts, kappa: float) -> None:
        self.symbols, self.lie, self.kappa = counts.symbols, counts.lie, kappa
        self.gap = counts.spread
        size = len(counts.offset) + 1
        self.cells = np.zeros((*self.symbols.shape, size))
        for first in range(counts.stride):
            cuts = np.array(counts.number.cuts(first, self.symbols.shape[1]))
            symbol = (cuts[:, None] < np.arange(size)[None, :]).sum(axis=0)
            self.cells[first, symbol, np.arange(size)] = 1.0

    def value(self, shares: Floats) -> float:
        """Return the log-likelihood of the cells' shares."""
        rates = self.lie + self.gap * (self.cells @ shares)
        return float((self.symbols * np.log(rates)).sum()) / self.kappa

    def slope(self, shares: Floats) -> tuple[Floats, Floats]:
        """Return the gradient of the log-likelihood in the shares, and the Fisher information."""
        rates = self.lie + self.gap * (self.cells @ shares)
        slope = np.einsum("ksc,ks->c", self.cells, self.symbols / rates) * self.gap
        root = self.cells * np.sqrt(self.symbols.sum(axis=1)[:, None] / rates)[:, :, None]
        flat = root.reshape(-1, len(shares))
        return slope / self.kappa, flat.T @ flat * self.gap**2 / self.kappa


def fitted_shares(counts: CutCounts, kappa: float = 1.0) -> Floats:
    """Fit smooth shares for the K + 1 cells between questions, lowest first, which sum to 1.

    The fit is only for pictures, not for intervals. The log shares of neighboring cells
    have normal second differences, with a variance chosen by Laplace's approximation of the
    evidence."""
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
    """Return the posterior's mode, log density and curvature, by Fisher scoring."""

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
    """Return the log widths of the cells, the penalty of second differences, and its rank.

    The penalty excludes the cell without data, and a lowest cell of a different kind."""
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
