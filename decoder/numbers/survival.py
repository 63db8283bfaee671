"""Unbiased shares of numbers at or above each cut, with their covariance and intervals.

A cohort's reports show how many of its g - 1 cuts are at or below a number (`Number.cuts`). Whether
a symbol means "at or above cut u" is a binomial trial with probability a_u + d S, where S is the
share to estimate, so intervals need no model. Cohorts with the same cuts are replicates, which
measure the effect of memoized noise (docs/method.md, "Numbers")."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from decoder.errors import DecodeError
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.number import Number

ADDED = 4.0  # random reports added to stabilize the variance of small counts


@dataclass(frozen=True)
class CutCounts:
    """The report counts in a window, by replicate and by question (K questions)."""

    number: Number
    spread: float  # d, the excess rate of a true report over any lie
    offset: Floats  # a_u, the rate of "at or above" if no number is, (K,)
    reports: Floats  # The reports of the cohort that answers the question, (R, K)
    above: Floats  # The number of these reports that say "at or above", (R, K)
    symbols: Floats  # Reports by symbol of each set of cohorts with the same cuts, (sets, g)
    lie: float  # The probability of each symbol other than the true one

    @property
    def stride(self) -> int:
        """The number of different sets of cuts."""
        return len(self.symbols)

    def rates(self, repetition: float) -> Floats:
        """Return smoothed probabilities (K,) that a report says "at or above", for variances.

        4 reports, times the repetition, are added to each set of cohorts, evenly over the symbols
        (Agresti and Coull 1998), and no symbol is rarer than a lie."""
        g, rates = self.symbols.shape[1], np.zeros(len(self.offset))
        chances = self.symbols + ADDED * repetition / g
        beyond = np.maximum(chances / chances.sum(axis=1, keepdims=True) - self.lie, 0.0)
        chances = self.lie + (1 - g * self.lie) * beyond / beyond.sum(axis=1, keepdims=True)
        for first, of_cohort in enumerate(chances):
            cuts = self.number.cuts(first, g)
            for u, question in enumerate(cuts, start=1):
                rates[question] = of_cohort[u : len(cuts) + 1].sum()
        return rates


@dataclass(frozen=True)
class Survival:
    """Unbiased shares of all devices at or above each of K cuts, and the number of reports."""

    counts: CutCounts
    shares: Floats
    covariance: Floats
    reports: Floats
    kappa: float  # Variance relative to independent reports, measured from replicates or a bound
    freedom: float  # The degrees of freedom of kappa; infinite for a bound

    def quantile(self, tail: float) -> float:
        """Return the upper quantile of (estimate - truth) / error for probability `tail`."""
        return float(-(ndtri(tail) if math.isinf(self.freedom) else stdtrit(self.freedom, tail)))

    def intervals(self, level: float) -> tuple[Floats, Floats]:
        """Return Wilson's interval of each share at the level: (K,), (K,), within [0, 1]."""
        z, n = self.quantile((1 - level) / 2), self.reports / self.kappa
        rho = np.clip(self.counts.offset + self.counts.spread * self.shares, 0, 1)
        middle = (rho + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * np.sqrt(rho * (1 - rho) / n + z**2 / (4 * n**2))
        low, high = (middle - half, middle + half) - self.counts.offset
        return np.clip(low / self.counts.spread, 0, 1), np.clip(high / self.counts.spread, 0, 1)

    def band(self, level: float) -> tuple[Floats, Floats]:
        """Return simultaneous intervals of all shares at the level, decreasing like the shares."""
        low, high = self.intervals(1 - (1 - level) / len(self.shares))
        return np.maximum.accumulate(low[::-1])[::-1], np.minimum.accumulate(high)

    def variance(self, share: float) -> Floats:
        """Return the variance of each estimate if its true share were `share`, (K,)."""
        rho = np.clip(self.counts.offset + self.counts.spread * share, 1e-12, 1 - 1e-12)
        v: Floats = self.kappa * rho * (1 - rho) / (self.counts.spread**2 * self.reports)
        return v


def first_edge(number: Number) -> int:
    """Return the index of the first question about an edge, 1 if question 0 is about data."""
    return 1 if number.none == "apart" else 0


def cut_counts(aggregate: Aggregate) -> CutCounts:
    """Group an aggregate's counts by question and by replicate.

    Raises DecodeError if the metric's kind differs or a question has no reports."""
    params, definition = aggregate.params, aggregate.definition
    number = Metric.from_dict(definition).details if definition else None
    if not isinstance(number, Number):
        raise DecodeError(f"metric {aggregate.metric!r} is not a number metric, by its definition")
    g, size = params.num_bits, len(number.asked)
    stride = number.stride(g)
    counts = np.array(aggregate.bit_counts, dtype=np.float64).reshape(-1, stride, g)
    totals = counts.sum(axis=2)
    reports, above = np.zeros((len(counts), size)), np.zeros((len(counts), size))
    offset = np.zeros(size)
    for cohort in range(stride):
        cuts = number.cuts(cohort, g)
        for u, question in enumerate(cuts, start=1):
            reports[:, question] = totals[:, cohort]
            above[:, question] = counts[:, cohort, u : len(cuts) + 1].sum(axis=1)
            offset[question] = (len(cuts) + 1 - u) * params.p_star
    if not (reports.sum(axis=0) > 0).all():
        raise DecodeError(
            f"metric {aggregate.metric!r}: some questions have no reports; choose a longer window"
        )
    spread = params.q_star - params.p_star
    symbols = counts.sum(axis=0)
    return CutCounts(number, spread, offset, reports, above, symbols, params.p_star)


def survival(counts: CutCounts, repetition: float) -> Survival:
    """Estimate the share of numbers at or above each cut.

    `repetition` is a bound on rho. If it is above 1, replicates measure its effect, if any."""
    reports = counts.reports.sum(axis=0)
    answered = counts.above.sum(axis=0) / reports
    shares = (answered - counts.offset) / counts.spread
    rates, kappa, freedom = counts.rates(repetition), repetition, math.inf
    if repetition > 1:
        plain = counts.rates(1.0)
        weights = counts.reports * counts.spread**2 / (plain * (1 - plain))
        by_cohort = counts.above / np.where(counts.reports > 0, counts.reports, 1)
        measured = replicate_factor((by_cohort - counts.offset) / counts.spread, weights)
        if measured is not None:
            rates, kappa, freedom = plain, max(1.0, measured[0]), measured[1]
    # The covariance of independent reports: multinomial within a set of cuts, 0 between sets.
    questions = np.arange(len(rates))
    later = np.maximum(questions[:, None], questions)  # "above both" means above the later cut
    covariance = (rates[later] - rates[:, None] * rates[None, :]) / reports[:, None]
    covariance[questions[:, None] % counts.stride != questions % counts.stride] = 0.0
    covariance = kappa * (covariance / counts.spread**2)
    return Survival(counts, shares, covariance, reports, kappa, freedom)


def replicate_factor(parts: Floats, weights: Floats) -> tuple[float, float] | None:
    """Estimate the variance of replicates relative to independent reports, and its freedom.

    Returns None if no question has two cohorts.

    Args:
        parts: The estimates in each cohort, (R, K).
        weights: The inverse variances for independent reports, (R, K); 0 without reports.
    """
    present = weights > 0
    freedom = float((present.sum(axis=0) - present.any(axis=0)).sum())
    if freedom < 1:
        return None
    safe = np.where(present, parts, 0.0)
    total = weights.sum(axis=0)
    means = (weights * safe).sum(axis=0) / np.where(total > 0, total, 1)
    excess = (weights * (safe - means) ** 2).sum()
    return float(excess) / freedom, freedom
