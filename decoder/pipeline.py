"""`decode`: from an aggregate and a list of candidates to a decoding. Reads like the paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from decoder.candidates.lists import Candidates, in_bit_order
from decoder.errors import ConvergenceError, DecodeError
from decoder.estimation.estimate import by_bit, by_boolean, by_cavity, by_lasso
from decoder.estimation.leave_one_out import WarmStarts
from decoder.inference.multiple_testing import decide_apart
from decoder.model.counts import observe
from decoder.numerics.bit_tensor import Positions
from decoder.numerics.threads import one_thread
from decoder.options import DecodeOptions
from decoder.progress import Progress, silent
from decoder.results.build import StepResults, assemble
from decoder.results.selective_intervals import selected_intervals
from decoder.results.tables import Decoding
from decoder.steps import (
    AlikeCandidates,
    CandidateWeights,
    DecodingProblem,
    Fit,
    Forgeries,
    Repeats,
    ReservedValues,
    Step,
    without_odd_cohorts,
)
from rappor_core.aggregate import Aggregate

# Besides the method of the paper, in this order; `without_odd_cohorts` is about all of it.
BESIDES: tuple[Step, ...] = (
    Repeats(),
    AlikeCandidates(),
    ReservedValues(),
    CandidateWeights(),
    Forgeries(),
)


def decode(
    aggregate: Aggregate,
    candidates: Candidates,
    options: DecodeOptions | None = None,
    progress: Progress = silent,
    warm_starts: WarmStarts | None = None,
) -> Decoding:
    """Estimate the share of each candidate among the reports, and say which are really there.

    progress: called with (stage, done, total).  warm_starts: one for many windows of the same
    candidates: each fit starts from that of a similar window before it, if there is one, which is
    quicker, and moves most scores by less than a tenth of their standard errors.

    Cohorts whose counts were plainly not made as the others were are left out, and the first
    warning names them. Deterministic: the same input gives the same output to the last bit,
    whatever the number of threads. Raises DecodeError where the counts cannot answer (no reports,
    shapes that do not fit); finding nothing is a result, not an error.
    """
    options = options or DecodeOptions()
    whole = aggregate.without(options.without_cohorts)
    with _arithmetic():
        candidates = in_bit_order(candidates, whole)
        direct = candidates.direct(whole.params)
        positions = candidates.positions(whole.params, progress)

        def decode_cohorts(rest: Aggregate) -> Decoding:
            problem = _problem(rest, candidates, positions, options, direct=direct)
            return _answer(problem, _estimator(problem, progress, warm_starts))

        return without_odd_cohorts(whole, decode_cohorts)


def _problem(
    aggregate: Aggregate,
    candidates: Candidates,
    positions: Positions,
    options: DecodeOptions,
    *,
    direct: bool,
) -> DecodingProblem:
    """Unbiased shares of set bits, and what is asked of them."""
    observed = observe(aggregate, positions)
    problem = DecodingProblem.of(aggregate, candidates, options, observed, direct=direct)
    for step in BESIDES:
        problem = step.before_fit(problem)
    return problem


def _answer(problem: DecodingProblem, fit: Fit) -> Decoding:
    """Fit, test each candidate, correct for their number, and give intervals."""
    estimate = fit(problem.observed)
    for step in BESIDES:
        problem, estimate = step.after_fit(problem, estimate, fit)
    p, observed, options = estimate.p_values, problem.observed, problem.options
    decision = decide_apart(
        problem.reserved,
        p,
        estimate.local_fdr,
        options.correction,
        options.alpha,
        options.largest_p,
        problem.weights,
        null_p=estimate.null_p_values if options.correction == "fdr" else None,
    )
    intervals = selected_intervals(estimate, decision, options)
    answer = StepResults(observed, estimate, p, decision, intervals)
    for step in BESIDES:
        answer = step.after_intervals(answer)
    return assemble(problem.aggregate, problem.candidates, options, answer, problem.grouping)


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


def _check_identified(problem: DecodingProblem) -> None:
    """Refuse one cohort with one hash: each candidate is then one bit that others may share.

    The bits do not say how much of them unlisted strings hold, so that neither shares nor tests
    hold their level. Lists of all values, and values with a bit of their own, are not concerned.
    """
    observed = problem.observed
    if observed.positions.shape[1:] == (1, 1) and not problem.candidates.complete:
        raise DecodeError(
            f"the reports of {problem.aggregate.metric!r} are in one cohort and set one bit each: "
            "shares of strings cannot be told from those of strings that are not listed; collect "
            "with num_hashes = 2 or more, or with more cohorts"
        )


def _estimator(problem: DecodingProblem, progress: Progress, warm_starts: WarmStarts | None) -> Fit:
    """The estimator that fits the encoding, the list and the choice of method."""
    options, level, weights = problem.options, problem.options.level, problem.weights
    if problem.aggregate.params.scheme.single_bit:
        return partial(by_boolean, level=level)
    if problem.direct:
        return partial(by_bit, level=level)
    _check_identified(problem)
    if options.method == "lasso":
        return partial(
            by_lasso, level=level, alpha=options.alpha, progress=progress, weights=weights
        )
    return partial(
        by_cavity,
        level=level,
        progress=progress,
        full=options.full_fit,
        warm_starts=warm_starts,
        weights=weights,
    )
