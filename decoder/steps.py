"""What `decode` does besides the method of the paper: one class for each concern.

A concern amends the problem before the fit, the estimate after it, or the answer before it is
put in words. `decoder.pipeline.BESIDES` lists them in their order; without any of them, each
device reports once, each candidate has bits of its own and the same weight, and no
cohort is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from decoder.candidates.lists import Candidates
from decoder.estimation.estimate import Estimate
from decoder.inference.diagnostics import undeclared_repetition
from decoder.inference.impossible_counts import forged_cohorts, may_be_left_out, plainly_odd
from decoder.model.counts import Observed
from decoder.model.design_matrix import Grouping, same_positions
from decoder.model.repetition import repetition
from decoder.options import DecodeOptions
from decoder.results.build import StepResults, cohort_scores, with_left_out
from decoder.results.forgeries import forged
from decoder.results.tables import Decoding
from decoder.typing import Flags, Floats
from rappor_core.aggregate import Aggregate

Fit = Callable[[Observed], Estimate]


@dataclass(frozen=True)
class DecodingProblem:
    """The inputs of one decoding: counts, candidates, options, and what the steps amend.

    observed: bit shares of the cohorts, with the positions of the candidates that are told apart.
    grouping: of all candidates, (M,).  direct: each value has a bit of its own.  reserved: of
    the groups, those that are no part of the list, (G,).  weights: of the groups, (G,), of mean 1;
    None: all 1.
    """

    aggregate: Aggregate
    candidates: Candidates
    options: DecodeOptions
    observed: Observed
    direct: bool
    grouping: Grouping
    reserved: Flags
    weights: Floats | None = None

    @classmethod
    def of(
        cls,
        aggregate: Aggregate,
        candidates: Candidates,
        options: DecodeOptions,
        observed: Observed,
        *,
        direct: bool,
    ) -> DecodingProblem:
        """The problem before any step: each candidate its own group, none reserved."""
        num = len(candidates)
        apart, none = Grouping(np.arange(num)), np.zeros(num, dtype=bool)
        return cls(aggregate, candidates, options, observed, direct, apart, none)


class Step:
    """A concern besides the method: by default it leaves all as it is."""

    def before_fit(self, problem: DecodingProblem) -> DecodingProblem:
        """Return the problem to fit, amended."""
        return problem

    def after_fit(
        self,
        problem: DecodingProblem,
        estimate: Estimate,
        fit: Fit,  # noqa: ARG002
    ) -> tuple[DecodingProblem, Estimate]:
        """Amend the problem by what a first fit shows, and fit again."""
        return problem, estimate

    def after_intervals(self, answer: StepResults) -> StepResults:
        """Return the answer, amended."""
        return answer


class Repeats(Step):
    """How often devices report: as declared, then as the data show."""

    def before_fit(self, problem: DecodingProblem) -> DecodingProblem:
        """Take the repetition that the options declare, or the most that the definition allows."""
        rho = repetition(problem.aggregate, problem.options.repeats)
        return replace(problem, observed=problem.observed.repeated(rho))

    def after_fit(
        self, problem: DecodingProblem, estimate: Estimate, fit: Fit
    ) -> tuple[DecodingProblem, Estimate]:
        """Fit once more where the data show another repetition of the reports.

        One that is only bounded is lowered to what the noise in the data shows, plus two standard
        errors. One that nobody declared is raised to what the noise shows, where the sizes of the
        cohorts show it too; not where few cohorts alone are noisy, which are then left out.
        """
        observed, declared = problem.observed, problem.options.repeats
        if declared is not None:
            return problem, estimate
        if observed.noise.repetition == 1:
            shown = _undeclared(observed, estimate)
            differs = shown > 1
        else:
            left = (observed.centred.size - len(observed.centred)) * estimate.unfitted
            ratio = estimate.ratio * (1 + 2 * np.sqrt(2 / left)) if left >= 1 else 1.0
            differs = ratio < 1
            shown = observed.noise.shown_repetition(ratio) if differs else 1.0
        if not differs:
            return problem, estimate
        observed = observed.repeated(shown)
        return replace(problem, observed=observed), fit(observed)


def _undeclared(observed: Observed, estimate: Estimate) -> float:
    """The repetition that nobody declared and the data show; 1 where few cohorts are odd."""
    odd = plainly_odd(cohort_scores(observed, estimate, observed.noise_of(estimate.shrunken)))
    reports = observed.noise.reports
    if len(odd) and may_be_left_out(odd, reports, float(reports.sum())):
        return 1.0
    return undeclared_repetition(observed.noise, estimate.missing, estimate.excess)


class AlikeCandidates(Step):
    """Candidates that set the same bits in every cohort are one."""

    def before_fit(self, problem: DecodingProblem) -> DecodingProblem:
        """Keep the first candidate of each group that sets the same bits."""
        observed, num_bits = problem.observed, problem.aggregate.params.num_bits
        grouping = Grouping(same_positions(observed.positions, num_bits))
        first = grouping.first
        if not first.all():
            observed = replace(observed, positions=observed.positions[first])
        reserved = problem.reserved[first]
        return replace(problem, observed=observed, grouping=grouping, reserved=reserved)


class ReservedValues(Step):
    """Values at the end of a list that are no candidates like the others, as `other` of a map."""

    def before_fit(self, problem: DecodingProblem) -> DecodingProblem:
        """Mark the reserved values, each of which is tested by itself."""
        candidates, grouping = problem.candidates, problem.grouping
        reserved = np.arange(len(candidates)) >= len(candidates) - candidates.reserved
        return replace(problem, reserved=reserved[grouping.first])


class CandidateWeights(Step):
    """A prior of the analyst, by which the level of a rule is divided."""

    def before_fit(self, problem: DecodingProblem) -> DecodingProblem:
        """Give each group of candidates the weight that the analyst declared."""
        declared = problem.options.weights
        if declared is None:
            return problem
        weights = declared.among(problem.candidates.values, problem.grouping.group)
        return replace(problem, weights=weights)


class Forgeries(Step):
    """How much of what was found forged reports could account for."""

    def after_intervals(self, answer: StepResults) -> StepResults:
        """Bound it for each value found."""
        low, detected = answer.intervals.low, answer.decision.detected
        return replace(answer, forged=forged(answer.observed, answer.estimate, detected, low))


def without_odd_cohorts(whole: Aggregate, decode: Callable[[Aggregate], Decoding]) -> Decoding:
    """Decode; again without cohorts whose counts were plainly not made as the others' were.

    The first warning of the decoding names them.
    """
    scores: dict[int, float] = {}  # of the cohorts left out
    while True:
        rest = whole.without(scores)
        decoding = decode(rest)
        odd = _odd_cohorts(rest, whole, decoding)
        if not odd:
            return with_left_out(decoding, scores)
        scores |= odd


def _odd_cohorts(rest: Aggregate, whole: Aggregate, decoding: Decoding) -> dict[int, float]:
    """Cohorts to decode without, with the sizes of their residuals; none if that is too much.

    rest: what was decoded of the `whole`. Where each value has a bit of its own, a cohort's counts
    shake nothing but the mean that they are part of.
    """
    if decoding.diagnostics.method == "direct":
        return {}
    reports, counts = (np.array(x, float) for x in (rest.reports_per_cohort, rest.bit_counts))
    scores = decoding.diagnostics.cohort_z
    odd = forged_cohorts(rest.params, reports, counts, decoding.summary.repetition, scores)
    if not may_be_left_out(odd, reports, whole.num_reports):
        return {}
    return {int(cohort): float(scores[cohort]) for cohort in odd}
