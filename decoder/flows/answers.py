"""What the counts of each question say of the shares of its classes: unbiased, with a variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from decoder.candidates.bloom_positions import bit_positions
from decoder.typing import Floats, Indices
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.flow import DISTANCE, QUESTIONS, Flow, class_text, question_of


@dataclass(frozen=True)
class SymbolCounts:
    """The counts of the cohorts that ask one question.

    counts: (M, g) reports of each symbol.  symbols: (M, C) integers, the symbol of each class in
        each cohort; None where the class is the symbol.
    kept, lied: chances that a report bears its value's own symbol, and each other one.
    """

    counts: Floats
    symbols: Any | None
    num_classes: int
    kept: float
    lied: float

    @property
    def reports(self) -> Floats:
        """(M,) reports of each cohort."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def num_reports(self) -> float:
        """Reports of all cohorts."""
        return float(self.counts.sum())

    @property
    def num_symbols(self) -> int:
        """Number of symbols, g."""
        return int(self.counts.shape[1])

    @property
    def hit(self) -> float:
        """Chance of the symbol of a class in the report of a device of another class."""
        return self.lied if self.symbols is None else 1 / self.num_symbols

    @property
    def used(self) -> Indices:
        """Cohorts with reports."""
        return np.flatnonzero(self.reports > 0)


@dataclass(frozen=True)
class Answers:
    """Unbiased shares (C,) of the classes of one question, their variances, and number of
    reports."""

    shares: Floats
    variance: Floats
    num_reports: float


def symbol_counts(aggregate: Aggregate, flow: Flow) -> dict[str, SymbolCounts]:
    """The counts of a metric of flows, by question."""
    params = aggregate.params
    table = np.array(aggregate.bit_counts, dtype=np.float64)
    of_question = [question_of(cohort) for cohort in range(params.num_cohorts)]
    found = {}
    for question in QUESTIONS:
        cohorts = [c for c, asked in enumerate(of_question) if asked == question]
        size = flow.num_classes(question)
        symbols = None
        if question != DISTANCE:
            texts = [class_text(question, one).encode() for one in range(size)]
            symbols = np.ascontiguousarray(bit_positions(texts, params)[:, cohorts, 0].T)
        mechanism = params.mechanism
        chances = float(mechanism.q_star), float(mechanism.p_star)
        found[question] = SymbolCounts(table[cohorts], symbols, size, *chances)
    return found


def answers_of(
    counts: SymbolCounts, expected: Floats, doubt: float | None = None, repetition: float = 1.0
) -> Answers:
    """Remove the bias of the noise, and of classes that share a symbol.

    A symbol of a cohort says of a class what it says of all others with that hash: what `expected`
    predicts of it is subtracted, so that only what is not known of the others is noise.

    Args:
        counts: of the question.
        expected: (C,) shares of the classes so far, of sum 1.
        doubt: sum of the squared errors of `expected`; None: estimated from the counts.
        repetition: rho = sum r^2 / sum r of devices with r reports each, which say the same again.

    Returns:
        Shares and variances. Without reports, shares as expected of infinite variance.
    """
    reports = counts.num_reports
    if not reports:
        return Answers(expected, np.full(len(expected), np.inf), 0.0)
    gain = counts.kept - counts.lied
    known = np.clip(expected, 0, 1)
    rate = counts.hit + (counts.kept - counts.hit) * known
    variance = rate * (1 - rate) / (reports * (counts.kept - counts.hit) ** 2)
    variance += (repetition - 1) * known * (1 - known) / reports
    if counts.symbols is None:
        total = counts.counts.sum(axis=0)[: counts.num_classes] / reports
        return Answers((total - counts.lied) / gain, variance, reports)
    symbols, size = counts.num_symbols, len(expected)
    residual = np.zeros(size)
    for cohort in counts.used:
        of_class = counts.symbols[cohort]
        predicted = np.bincount(of_class, expected, symbols)
        seen = (counts.counts[cohort] / counts.reports[cohort] - counts.lied) / gain
        residual += counts.reports[cohort] * (seen - predicted)[of_class]
    moved = symbols / (symbols - 1) * residual / reports
    weights = counts.reports / reports
    shared = float(weights @ weights) / (symbols - 1)
    if doubt is None:  # the squares hold the error, the noise, and the collisions of the error
        doubt = max(0.0, float(np.sum(moved**2 - variance)) / (1 + size * shared))
    collisions = doubt * shared
    return Answers(expected + moved, variance + collisions, reports)
