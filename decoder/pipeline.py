"""`decode`: from an aggregate and a list of candidates to a decoding. Reads like the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from decoder.candidates.lists import Candidates, in_bit_order
from decoder.errors import ConvergenceError, DecodeError
from decoder.estimation.estimate import Estimate, Observed, by_bit, by_boolean, by_cavity, by_lasso
from decoder.estimation.leave_one_out import WarmStarts
from decoder.estimation.sampled_intervals import seed_of
from decoder.inference.diagnostics import undeclared_repetition
from decoder.inference.forged_cohorts import forged_cohorts, may_be_left_out, plainly_odd
from decoder.inference.multiple_testing import decide_apart
from decoder.model.counts import debias
from decoder.model.design_matrix import same_positions
from decoder.model.noise import BitNoise, CohortNoise, RandomString
from decoder.model.repetition import repetition
from decoder.numerics.bit_tensor import Positions
from decoder.numerics.threads import one_thread
from decoder.options import DecodeOptions
from decoder.progress import Progress, silent
from decoder.results.build import Grouping, StepResults, assemble, cohort_scores, with_left_out
from decoder.results.forgeries import forged
from decoder.results.selective_intervals import crowded_samples, found_intervals
from decoder.results.tables import Decoding
from decoder.typing import Flags, Floats
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams

Estimator = Callable[[Observed], Estimate]


def decode(
    aggregate: Aggregate,
    candidates: Candidates,
    options: DecodeOptions | None = None,
    progress: Progress = silent,
    warm_starts: WarmStarts | None = None,
) -> Decoding:
    """Estimate the share of each candidate among the reports, and say which are really there.

    progress: told of each stage as it moves.  warm_starts: one for many windows of the same
    candidates: each fit starts from that of a similar window before it, if there is one, which is
    quicker, and moves most scores by less than a tenth of their standard errors.

    Cohorts whose counts were plainly not made as the others were are left out, and the first
    warning names them. Deterministic: the same input gives the same output to the last bit,
    whatever the number of threads. Raises DecodeError where the counts cannot answer (no reports,
    shapes that do not fit); finding nothing is a result, not an error.
    """
    options = options or DecodeOptions()
    aggregate = aggregate.without(options.without_cohorts)
    with _arithmetic():
        candidates = in_bit_order(candidates, aggregate)
        tensor = candidates.positions(aggregate.params, progress)
        scores: dict[int, float] = {}  # of the cohorts left out
        while True:
            rest = aggregate.without(scores)
            decoding = _decode(rest, candidates, tensor, options, progress, warm_starts)
            forged = _forged_cohorts(rest, aggregate, decoding)
            if not forged:
                return with_left_out(decoding, scores)
            scores |= forged


def _forged_cohorts(rest: Aggregate, whole: Aggregate, decoding: Decoding) -> dict[int, float]:
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


def _decode(
    aggregate: Aggregate,
    candidates: Candidates,
    tensor: Positions,
    options: DecodeOptions,
    progress: Progress,
    warm_starts: WarmStarts | None,
) -> Decoding:
    """One decoding of all cohorts that have reports. tensor: positions of the candidates."""
    observed = observe(aggregate, tensor, repetition(aggregate, options.repeats))
    grouping = Grouping(same_positions(observed.positions, aggregate.params.num_bits))
    if not grouping.first.all():
        observed = replace(observed, positions=observed.positions[grouping.first])
    weights = None
    if options.weights is not None:
        weights = options.weights.among(candidates.values, grouping.group)
    fit = _estimator(aggregate.params, candidates, options, progress, warm_starts, weights)
    observed, estimate = _settled(fit, observed, options)
    p = estimate.p_values
    reserved = np.arange(len(candidates)) >= len(candidates) - candidates.reserved
    decision = decide_apart(
        reserved[grouping.first],
        p,
        estimate.local_fdr,
        options.correction,
        options.alpha,
        options.largest_p,
        weights,
        null_p=estimate.null_p_values if options.correction == "fdr" else None,
    )
    samples = None
    if decision.detected.any() and not candidates.complete:  # a map's cells are sampled later
        samples = crowded_samples(observed, estimate, seed_of(aggregate))
    intervals = found_intervals(estimate, decision, options, samples)
    poison = forged(observed, estimate, decision.detected, intervals.low)
    answer = StepResults(observed, estimate, p, decision, intervals, poison)
    return assemble(aggregate, candidates, options, answer, grouping)


@contextmanager
def _arithmetic() -> Iterator[None]:
    """Linear algebra on one thread; what is no number is an error, and never spreads."""
    try:
        with one_thread(), np.errstate(divide="raise", over="raise", invalid="raise"):
            yield
    except (FloatingPointError, np.linalg.LinAlgError) as error:
        raise ConvergenceError(
            f"the arithmetic of doubles failed ({error}): check that the counts, the parameters "
            "and the candidates belong together, and that the reports have noise"
        ) from error


def observe(
    aggregate: Aggregate,
    positions: Positions,
    repeats: float,
    cohorts: Flags | None = None,
) -> Observed:
    """Debias the cohorts that have reports, or those of them in `cohorts` (m,).

    Raises DecodeError if none has.
    """
    params = aggregate.params
    reports = np.array(aggregate.reports_per_cohort, dtype=np.float64)
    counts = np.array(aggregate.bit_counts, dtype=np.float64)
    present = reports > 0 if cohorts is None else (reports > 0) & cohorts
    if not present.any():
        raise DecodeError(
            f"metric {aggregate.metric!r} has no reports{_when(aggregate)}; "
            "choose a window with reports, or wait until its days are closed"
        )
    noise = BitNoise.of(params.mechanism)
    shares = debias(counts[present], reports[present], noise)
    random = RandomString(params.num_bits, params.num_hashes)
    symbols = params.scheme.symbols
    covariance = CohortNoise(noise, random, reports[present], repeats, symbols)
    return Observed(shares, positions if present.all() else positions[:, present], covariance)


def _when(aggregate: Aggregate) -> str:
    if aggregate.first_day is None:
        return " in this window"
    return f" from {aggregate.first_day} to {aggregate.last_day}"


def _settled(
    fit: Estimator, observed: Observed, options: DecodeOptions
) -> tuple[Observed, Estimate]:
    """Estimate; once more where the data show another repetition of the reports.

    One that is only bounded is lowered to what the noise in the data shows, plus two standard
    errors. One that nobody declared is raised to what the noise shows, where the sizes of the
    cohorts show it too; not where few cohorts alone are noisy, which are then left out.
    """
    estimate = fit(observed)
    if options.repeats is None and observed.noise.repetition == 1:
        if _few_are_odd(observed, estimate):
            return observed, estimate
        shown = undeclared_repetition(observed.noise, estimate.missing, estimate.excess)
        if shown > 1:
            observed = observed.repeated(shown)
            estimate = fit(observed)
        return observed, estimate
    left = (observed.centred.size - len(observed.centred)) * estimate.unfitted
    if options.repeats is not None or left < 1:
        return observed, estimate
    ratio = estimate.ratio * (1 + 2 * np.sqrt(2 / left))
    if ratio >= 1:
        return observed, estimate
    observed = observed.repeated(observed.noise.shown_repetition(ratio))
    return observed, fit(observed)


def _few_are_odd(observed: Observed, estimate: Estimate) -> bool:
    """Whether some cohorts, but not most of the reports, are far from what the others say."""
    odd = plainly_odd(cohort_scores(observed, estimate, observed.noise_of(estimate.shrunken)))
    reports = observed.noise.reports
    return len(odd) > 0 and may_be_left_out(odd, reports, float(reports.sum()))


def _estimator(
    params: RapporParams,
    candidates: Candidates,
    options: DecodeOptions,
    progress: Progress,
    warm_starts: WarmStarts | None,
    weights: Floats | None,
) -> Estimator:
    """The estimator that fits the encoding, the list and the choice of method."""
    if params.scheme.single_bit:
        return partial(by_boolean, level=options.level)
    if candidates.direct(params):
        return partial(by_bit, level=options.level)
    if RandomString(params.num_bits, params.num_hashes).variance == 0:
        raise DecodeError(
            f"{params.num_hashes} hashes into {params.num_bits} bits set every bit: no value can "
            "be told from another; collect with more bits or fewer hashes"
        )
    if options.method == "lasso":
        return partial(
            by_lasso, level=options.level, alpha=options.alpha, progress=progress, weights=weights
        )
    return partial(
        by_cavity,
        level=options.level,
        progress=progress,
        full=options.full_fit,
        warm_starts=warm_starts,
        weights=weights,
    )
