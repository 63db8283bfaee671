"""`decode`, which decodes an aggregate with a candidate list, step by step as in the paper."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from decoder.candidates.lists import Candidates, in_bit_order
from decoder.errors import ConvergenceError, DecodeError
from decoder.estimation.estimate import Estimate, by_bit, by_boolean, by_cavity, by_lasso
from decoder.estimation.leave_one_out import WarmStarts
from decoder.inference.diagnostics import (
    PLAINLY,
    forged_cohorts,
    may_be_left_out,
    odd_cohorts,
    undeclared_repetition,
)
from decoder.inference.multiple_testing import decide
from decoder.model.counts import Observed, observe, repetition, same_positions
from decoder.numerics.bit_tensor import Positions, one_thread
from decoder.options import DecodeOptions
from decoder.progress import Progress, silent
from decoder.results.build import assemble, cohort_scores, with_left_out
from decoder.results.selective_intervals import selected_intervals
from decoder.results.tables import Decoding
from decoder.results.warnings import StepResults
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate


def decode(
    aggregate: Aggregate,
    candidates: Candidates,
    options: DecodeOptions | None = None,
    progress: Progress = silent,
    warm_starts: WarmStarts | None = None,
) -> Decoding:
    """Estimate the share of each candidate among the reports, and test which are present.

    The result is deterministic to the last bit, regardless of the number of threads. Cohorts whose
    counts clearly differ from the others' are excluded, and the first warning names them.

    Args:
        aggregate: The aggregate of a window.
        candidates: The values to look for.
        options: The method, correction, level and other options.
        progress: A callback, called with (stage, done, total).
        warm_starts: One object for many windows of the same candidates. Each fit then starts from
            the fit of a similar window, which is faster and moves most scores by less than a tenth
            of their standard errors.

    Raises:
        DecodeError: The counts cannot answer. Detecting nothing is a result, not an error.
    """
    options = options or DecodeOptions()
    whole = aggregate.without(options.without_cohorts)
    with _arithmetic():
        candidates = in_bit_order(candidates, whole)
        positions = candidates.positions(whole.params, progress)

        def decode_cohorts(rest: Aggregate) -> Decoding:
            return _decoded(rest, candidates, positions, options, progress, warm_starts)

        return _without_odd_cohorts(whole, decode_cohorts)


def _decoded(
    aggregate: Aggregate,
    candidates: Candidates,
    positions: Positions,
    options: DecodeOptions,
    progress: Progress,
    warm_starts: WarmStarts | None,
) -> Decoding:
    """Debias, fit, test each candidate, correct for their number, and compute intervals."""
    observed = observe(aggregate, positions, repetition(aggregate, options.repeats))
    group = same_positions(observed.positions, aggregate.params.num_bits)
    first, weights = group == np.arange(len(group)), None
    if not first.all():  # merge candidates that set the same bits in every cohort
        observed = replace(observed, positions=observed.positions[first])
    if options.weights is not None:
        weights = options.weights.among(candidates.values, group)

    def fit(some: Observed) -> Estimate:
        return _fitted(some, aggregate, candidates, options, weights, progress, warm_starts)

    observed, estimate = _with_repetition(observed, fit, options)
    reserved = np.arange(len(candidates)) >= len(candidates) - candidates.reserved
    decision = decide(
        estimate.p_values,
        estimate.local_fdr,
        options.correction,
        options.alpha,
        options.largest_p,
        weights,
        null_p=estimate.null_p_values if options.correction == "fdr" else None,
        careful=estimate.has_few_cohorts,
        alone=reserved[first],
    )
    intervals = selected_intervals(estimate, decision, options)
    inputs = aggregate, candidates, options, group
    return assemble(StepResults(*inputs, observed, estimate, decision, intervals))


def _fitted(
    observed: Observed,
    aggregate: Aggregate,
    candidates: Candidates,
    options: DecodeOptions,
    weights: Floats | None,
    progress: Progress,
    warm_starts: WarmStarts | None,
) -> Estimate:
    """Estimate the shares by the estimator that suits the encoding, the list and the method."""
    if aggregate.params.scheme.single_bit:
        return by_boolean(observed, options.level)
    if candidates.direct(aggregate.params):
        return by_bit(observed, options.level)
    if observed.positions.shape[1:] == (1, 1) and not candidates.complete:
        # The bits do not reveal the share of unlisted strings, so intervals and tests do not keep
        # their level. Complete lists are not affected.
        raise DecodeError(
            f"the reports of {aggregate.metric!r} are in one cohort and set one bit each: "
            "shares of strings cannot be told apart from those of unlisted strings; collect "
            "with num_hashes = 2 or more, or with more cohorts"
        )
    if options.method == "lasso":
        return by_lasso(observed, options.level, options.alpha, progress, weights)
    return by_cavity(observed, options.level, progress, full=options.full_fit,
                     warm_starts=warm_starts, weights=weights)  # fmt: skip


def _with_repetition(
    observed: Observed, fit: Callable[[Observed], Estimate], options: DecodeOptions
) -> tuple[Observed, Estimate]:
    """Fit, and fit once more if the data indicate a different repetition of the reports."""
    estimate = fit(observed)
    if options.repeats is not None:
        return observed, estimate
    if observed.noise.repetition == 1:  # raise it if cohort sizes agree and few cohorts are odd
        scores = cohort_scores(observed, estimate, observed.noise_of(estimate.shrunken))
        odd, reports = odd_cohorts(scores, PLAINLY), observed.noise.reports
        few_are_odd = len(odd) and may_be_left_out(odd, reports, float(reports.sum()))
        rho = undeclared_repetition(observed.noise, estimate.missing, estimate.excess)
        differs = rho > 1 and not few_are_odd
    else:  # lower a bound to the repetition that the noise shows, plus two standard errors
        freedom = (observed.centered.size - len(observed.centered)) * estimate.unfitted
        ratio = estimate.ratio * (1 + 2 * np.sqrt(2 / freedom)) if freedom >= 1 else 1.0
        differs = ratio < 1
        rho = min(observed.noise.repetition_of(ratio), observed.noise.repetition)
    if not differs:
        return observed, estimate
    observed = observed.repeated(rho)
    return observed, fit(observed)


def _without_odd_cohorts(whole: Aggregate, decode: Callable[[Aggregate], Decoding]) -> Decoding:
    """Decode, and decode again without cohorts whose counts clearly differ from the others'.

    If each value has a separate bit, all cohorts are kept: a bad one affects only the mean."""
    left_out: dict[int, float] = {}  # cohorts, with the sizes of their residuals
    while True:
        rest = whole.without(left_out)
        decoding = decode(rest)
        scores, repeats = decoding.diagnostics.cohort_z, decoding.summary.repetition
        reports, counts = (np.array(x, float) for x in (rest.reports_per_cohort, rest.bit_counts))
        odd = forged_cohorts(rest.params, reports, counts, repeats, scores)
        too_many = not may_be_left_out(odd, reports, whole.num_reports)
        if decoding.diagnostics.method == "direct" or too_many or not len(odd):
            return with_left_out(decoding, left_out)
        left_out |= {int(cohort): float(scores[cohort]) for cohort in odd}


@contextmanager
def _arithmetic() -> Iterator[None]:
    """Run linear algebra on one thread and raise ConvergenceError for NaN and infinity."""
    try:
        with one_thread(), np.errstate(divide="raise", over="raise", invalid="raise"):
            yield
    except (FloatingPointError, np.linalg.LinAlgError) as error:
        raise ConvergenceError(
            f"the arithmetic of doubles failed ({error}): check that the counts, the parameters "
            "and the candidates belong together, and that the reports have noise"
        ) from error
