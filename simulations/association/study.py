"""Pairs, moments and EM on the same populations: error, coverage, level and power.

The rival is google/rappor's estimator, made again from the paper (Fanti, Pihur, Erlingsson 2016,
arXiv:1503.01214): plain EM from the uniform table, until no share moves by more than 1e-6, or 1,000
steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from decoder.association.associations import decode_association
from decoder.association.em import Factors, likelihoods
from decoder.association.linked import LinkedReports, Side, co_occurrences
from decoder.association.moments import Moments, fit_moments, moments_independence
from decoder.association.pairs import decode_pairs
from decoder.association.table import JointTable
from decoder.options import DecodeOptions
from decoder.typing import Floats
from rappor_core.params import RapporParams
from simulations.association.bound import by_moments, efficient
from simulations.association.draws import (
    coupled_table,
    drawn_pairs,
    drawn_reports,
    one_hot_side,
    pair_metric,
)

SIZE = 10
COUPLED = 0.5
SETTINGS = (("f=.5 p=.5 q=.75", 0.5, 0.5), ("f=.5 p=.25 q=.75", 0.5, 0.25),
            ("f=0 p=.25 q=.75", 0.0, 0.25))  # fmt: skip
RIVAL_STEPS, RIVAL_CHANGE = 1_000, 1e-6
ALPHA = 0.05
WEAK = 0.1  # of the mass coupled, for the power


@dataclass(frozen=True)
class Measured:
    """A mean with its Monte-Carlo standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: list[float]) -> Measured:
        """From independent runs."""
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
        return cls(float(np.mean(values)), spread / len(values) ** 0.5)


@dataclass(frozen=True)
class StudyRow:
    """One setting and method.

    quantity: total_variation, coverage, level or power; limit: total_variation of normal estimates,
    from theory for the unbiased ones.
    """

    setting: str
    epsilon_one: float
    reports: int
    method: str
    quantity: str
    runs: int
    value: Measured


def association_study(
    reports: int,
    runs: int,
    rival_runs: int,
    tests: int,
    rng: np.random.Generator,
    coupled: float = COUPLED,
) -> Iterator[StudyRow]:
    """Rows of every setting: tables of 10 x 10.  coupled: part of the mass on the diagonal.

    runs: tables for pairs and moments.  rival_runs: of these, those for EM.  tests: tables for the
    level of each test.
    """
    for name, f, p in SETTINGS:
        sides = one_hot_side("a", SIZE, f, p, 0.75), one_hot_side("b", SIZE, f, p, 0.75)
        params = RapporParams.rappor(
            num_bits=SIZE, num_hashes=1, num_cohorts=1, prob_f=f, prob_p=p, prob_q=0.75,
            encoding="one_hot",
        )  # fmt: skip
        total = 2 * params.epsilon_one
        setting = name, total, reports
        (own,) = rng.spawn(1)  # the other draws stay those that they were
        yield from _limits(setting, sides, coupled, runs, own)
        yield from _accuracy(setting, sides, coupled, (runs, rival_runs), rng)
        yield from _levels(setting, sides, tests, rng)
    yield from _power(SETTINGS[-1], 20_000, max(tests // 10, 2), rng)


def rival_table(reports: LinkedReports, first: Side, second: Side) -> Floats:
    """google/rappor's EM: the table (M1, M2) at its own stop."""
    rows: Factors = likelihoods(reports.first, reports.cohorts, first)
    columns: Factors = likelihoods(reports.second, reports.cohorts, second)
    table = np.full((rows.shape[1], columns.shape[1]), 1 / (rows.shape[1] * columns.shape[1]))
    for _ in range(RIVAL_STEPS):
        joint = ((rows @ table) * columns).sum(axis=1)
        moved = table * (rows.T @ (columns / joint[:, None])) / len(rows)
        change = float(np.abs(moved - table).max())
        table = np.asarray(moved, dtype=np.float64)
        if change < RIVAL_CHANGE:
            break
    return table


def _accuracy(
    setting: tuple[str, float, int], sides: tuple[Side, Side], coupled: float,
    runs: tuple[int, int], rng: np.random.Generator,
) -> Iterator[StudyRow]:  # fmt: skip
    _, total, reports = setting
    truth, metric = coupled_table(SIZE, coupled), pair_metric(SIZE, total)
    errors: dict[str, list[float]] = {}
    covered: dict[str, list[float]] = {}
    for run in range(runs[0]):
        pairs = decode_pairs(drawn_pairs(metric, truth, reports, rng))
        linked = drawn_reports(truth, reports, *sides, rng)
        moments = decode_association(linked, *sides, likelihood=run < runs[1])
        tables = {
            "pair": pairs.fitted,
            "moments": moments.fitted,
            "moments, shrunk": moments.shrunk,
        }
        if moments.likelihood is not None:
            tables["EM (SQUAREM)"] = moments.likelihood
            tables["google's EM"] = rival_table(linked, *sides)
        for method, table in tables.items():
            errors.setdefault(method, []).append(float(np.abs(table - truth).sum() / 2))
        for method, found in (("pair", pairs), ("moments", moments)):
            covered.setdefault(method, []).append(_covered(found, truth))
    for quantity, values in (("total_variation", errors), ("coverage", covered)):
        for method, runs_of in values.items():
            yield StudyRow(*setting, method, quantity, len(runs_of), Measured.of(runs_of))


def _limits(
    setting: tuple[str, float, int], sides: tuple[Side, Side], coupled: float, runs: int,
    rng: np.random.Generator,
) -> Iterator[StudyRow]:  # fmt: skip
    truth, reports = coupled_table(SIZE, coupled), setting[2]
    for method, limit in (("efficient", efficient), ("moments", by_moments)):
        normal = limit(truth, reports, *sides)
        unbiased = Measured(normal.unbiased_distance(), float("nan"))
        yield StudyRow(*setting, f"{method}, unbiased", "limit", runs, unbiased)
        fitted = Measured.of([normal.fitted_distance(truth, rng) for _ in range(runs)])
        yield StudyRow(*setting, f"{method}, fitted", "limit", runs, fitted)


def _levels(
    setting: tuple[str, float, int], sides: tuple[Side, Side], tests: int,
    rng: np.random.Generator,
) -> Iterator[StudyRow]:  # fmt: skip
    _, total, reports = setting
    metric, truth = pair_metric(SIZE, total), coupled_table(SIZE, 0.0)
    refused: dict[str, list[float]] = {"pair": [], "moments": []}
    for _ in range(tests):
        pairs = decode_pairs(drawn_pairs(metric, truth, reports, rng), DecodeOptions(alpha=ALPHA))
        refused["pair"].append(float(pairs.independence.rejected))
        linked = drawn_reports(truth, reports, *sides, rng)
        refused["moments"].append(_moments_refused(linked, sides))
    for method, values in refused.items():
        yield StudyRow(*setting, method, "level", tests, Measured.of(values))


def _power(
    which: tuple[str, float, float], reports: int, tests: int, rng: np.random.Generator
) -> Iterator[StudyRow]:
    name, f, p = which
    sides = one_hot_side("a", SIZE, f, p, 0.75), one_hot_side("b", SIZE, f, p, 0.75)
    truth = coupled_table(SIZE, WEAK)
    values = [
        _moments_refused(drawn_reports(truth, reports, *sides, rng), sides) for _ in range(tests)
    ]
    yield StudyRow(name, float("nan"), reports, "moments", "power", tests, Measured.of(values))


def _moments_refused(linked: LinkedReports, sides: tuple[Side, Side]) -> float:
    moments = Moments.of(co_occurrences(linked, 1), *sides)
    estimate = fit_moments(moments).estimate
    return float(moments_independence(moments, estimate, ALPHA).rejected)


def _covered(table: JointTable, truth: Floats) -> float:
    cells = table.cells
    return float(((cells.low <= truth) & (truth <= cells.high)).mean())
