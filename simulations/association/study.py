"""Compare pairs, moments and EM on the same populations: error, coverage, level, power and time.

The rival is google/rappor's estimator, made again and compiled (`published_em`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decoder.association.associations import decode_association, with_likelihood
from decoder.association.linked import LinkedReports, Side, co_occurrences
from decoder.association.moments import Moments, fit_moments, moments_independence
from decoder.association.pairs import decode_pairs
from decoder.association.table import JointTable
from decoder.numerics.threads import one_thread
from decoder.options import DecodeOptions
from decoder.typing import Floats
from simulations.association.bound import by_moments, efficient
from simulations.association.draws import drawn_pairs, drawn_reports
from simulations.association.published_em import PublishedEm, PublishedInference
from simulations.association.shapes import NOISES, SHAPES, Shape

COUPLED = 0.5
ALPHA = 0.05
WEAK = 0.1  # of the mass coupled, for the power
RIVAL, OURS = "google's EM", "EM (SQUAREM)"
LIMITED = SHAPES["10x10"]  # limits and power are of this shape


@dataclass(frozen=True)
class Measured:
    """A mean with its Monte-Carlo standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: list[float]) -> Measured:
        """The mean of independent runs, with its standard error."""
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
        return cls(float(np.mean(values)), spread / len(values) ** 0.5)


@dataclass(frozen=True)
class StudyRow:
    """A figure of the study, for one setting and method.

    quantity: total_variation, coverage, level, power or seconds, of the processor, for table,
    intervals and test; limit: total_variation of normal estimates, from theory for the unbiased
    ones.
    """

    setting: str
    epsilon_one: float
    reports: int
    method: str
    quantity: str
    runs: int
    value: Measured


class StudySize(NamedTuple):
    """The number of tables to draw for each part of the study.

    tests: independent tables for the level; the rival has the first `rivals` of them.
    """

    runs: int
    rivals: int
    tests: int


@dataclass(frozen=True)
class _Setting:
    shape: Shape
    name: str
    epsilon: float
    reports: int
    sides: tuple[Side, Side]

    def row(self, method: str, quantity: str, values: list[float]) -> StudyRow:
        measured = Measured.of(values)
        return StudyRow(
            self.name, self.epsilon, self.reports, method, quantity, len(values), measured
        )

    def linked(self, truth: Floats, rng: np.random.Generator) -> LinkedReports:
        return drawn_reports(truth, self.reports, *self.sides, rng)


def association_study(
    reports: int,
    counts: StudySize,
    rng: np.random.Generator,
    coupled: float = COUPLED,
    shape: Shape = LIMITED,
) -> Iterator[StudyRow]:
    """Run the study and return the rows of every setting. coupled: part of the mass that couples
    equal quantiles."""
    for name, f, p in NOISES:
        setting = _Setting(shape, name, shape.epsilon(f, p), reports, shape.sides(f, p))
        (own,) = rng.spawn(1)  # the other draws stay those that they were
        if shape == LIMITED:
            yield from _limits(setting, coupled, counts.runs, own)
        yield from _accuracy(setting, coupled, counts, rng)
        yield from _levels(setting, counts, rng)
    if shape == LIMITED:
        yield from _power(20_000, max(counts.tests // 10, 2), rng)


class _Found(NamedTuple):
    """What one method said of one draw. covered: of its cells, None if it has no intervals."""

    table: Floats
    covered: float | None
    seconds: float | None


def _accuracy(
    setting: _Setting, coupled: float, counts: StudySize, rng: np.random.Generator
) -> Iterator[StudyRow]:
    truth, metric = setting.shape.truth(coupled), setting.shape.pairs(setting.epsilon)
    values: dict[tuple[str, str], list[float]] = {}
    for run in range(counts.runs):
        aggregate = drawn_pairs(metric, truth, setting.reports, rng)
        begun = time.process_time()
        pairs = decode_pairs(aggregate)
        taken = time.process_time() - begun
        found = {"pair": _Found(pairs.fitted, _covered(pairs, truth), taken)}
        linked = setting.linked(truth, rng)
        found |= _by_linked(linked, setting.sides, truth, rival=run < counts.rivals)
        for method, one in found.items():
            distance = float(np.abs(one.table - truth).sum() / 2)
            said = {"total_variation": distance, "coverage": one.covered, "seconds": one.seconds}
            for quantity, value in said.items():
                if value is not None:
                    values.setdefault((quantity, method), []).append(value)
    for (quantity, method), of_runs in sorted(values.items(), key=lambda pair: -len(pair[1])):
        yield setting.row(method, quantity, of_runs)


def _by_linked(
    linked: LinkedReports, sides: tuple[Side, Side], truth: Floats, *, rival: bool
) -> dict[str, _Found]:
    """What each method makes of the same linked reports."""
    begun = time.process_time()
    moments = decode_association(linked, *sides, likelihood=False)
    taken = time.process_time() - begun
    found = {
        "moments": _Found(moments.fitted, _covered(moments, truth), taken),
        "moments, shrunk": _Found(moments.shrunk, None, None),
    }
    if rival:
        begun = time.process_time()
        likeliest = with_likelihood(moments, linked, *sides).likelihood
        if likeliest is not None:
            found[OURS] = _Found(likeliest, None, time.process_time() - begun)
        begun = time.process_time()
        published = _published(linked, sides)
        covered = published.covered(truth)
        found[RIVAL] = _Found(published.shares, covered, time.process_time() - begun)
    return found


def _published(linked: LinkedReports, sides: tuple[Side, Side]) -> PublishedInference:
    em = PublishedEm(linked, *sides)
    shares = em.fit().shares
    return PublishedInference(shares, em.information(shares))


def _limits(
    setting: _Setting, coupled: float, runs: int, rng: np.random.Generator
) -> Iterator[StudyRow]:
    truth = setting.shape.truth(coupled)
    for method, limit in (("efficient", efficient), ("moments", by_moments)):
        normal = limit(truth, setting.reports, *setting.sides)
        yield setting.row(f"{method}, unbiased", "limit", [normal.unbiased_distance()])
        fitted = [normal.fitted_distance(truth, rng) for _ in range(runs)]
        yield setting.row(f"{method}, fitted", "limit", fitted)


def _levels(setting: _Setting, counts: StudySize, rng: np.random.Generator) -> Iterator[StudyRow]:
    metric, truth = setting.shape.pairs(setting.epsilon), setting.shape.truth(0.0)
    refused: dict[str, list[float]] = {"pair": [], "moments": [], RIVAL: []}
    for test in range(counts.tests):
        aggregate = drawn_pairs(metric, truth, setting.reports, rng)
        pairs = decode_pairs(aggregate, DecodeOptions(alpha=ALPHA))
        refused["pair"].append(float(pairs.independence.rejected))
        linked = setting.linked(truth, rng)
        refused["moments"].append(_moments_refused(linked, setting.sides))
        if test < counts.rivals:
            p_value = _published(linked, setting.sides).p_value()
            refused[RIVAL].append(float(p_value <= ALPHA))
    for method, values in refused.items():
        if values:
            yield setting.row(method, "level", values)


def _power(reports: int, tests: int, rng: np.random.Generator) -> Iterator[StudyRow]:
    name, f, p = NOISES[-1]
    setting = _Setting(LIMITED, name, float("nan"), reports, LIMITED.sides(f, p))
    truth = LIMITED.truth(WEAK)
    values = [_moments_refused(setting.linked(truth, rng), setting.sides) for _ in range(tests)]
    yield setting.row("moments", "power", values)


def _moments_refused(linked: LinkedReports, sides: tuple[Side, Side]) -> float:
    with one_thread():
        moments = Moments.of(co_occurrences(linked, len(sides[0].designs)), *sides)
        estimate = fit_moments(moments).estimate
        return float(moments_independence(moments, estimate, ALPHA).rejected)


def _covered(table: JointTable, truth: Floats) -> float:
    cells = table.cells
    return float(((cells.low <= truth) & (truth <= cells.high)).mean())
