"""`decode`: from an aggregate and a list of candidates to a decoding. Reads like the paper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decoder.assemble import Answer, Grouping, assemble
from decoder.bit_tensor import Positions
from decoder.candidates import Candidates, in_bit_order
from decoder.debias import debias
from decoder.design_matrix import same_positions
from decoder.errors import DecodeError
from decoder.estimators import Estimate, Observed, by_bit, by_boolean, by_cavity, by_lasso
from decoder.inference import decide, p_values
from decoder.noise import BitNoise, CohortNoise, RandomString
from decoder.options import DecodeOptions, repetition
from decoder.progress import Progress, silent
from decoder.results import Decoding
from decoder.selected import selected_intervals
from decoder.threads import one_thread
from rappor_core.aggregate import Aggregate
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.params import RapporParams

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def decode(
    aggregate: Aggregate,
    candidates: Candidates,
    options: DecodeOptions | None = None,
    progress: Progress = silent,
) -> Decoding:
    """Estimate the share of each candidate among the reports, and say which are really there.

    progress: told of each stage as it moves.

    Deterministic: the same input gives the same output to the last bit, whatever the number of
    threads. Raises DecodeError where the counts cannot answer (no reports, shapes that do not
    fit); finding nothing is a result, not an error.
    """
    options = options or DecodeOptions()
    with one_thread():
        candidates = in_bit_order(candidates, aggregate)
        tensor = candidates.positions(aggregate.params, progress)
        group = same_positions(tensor, aggregate.params.num_bits)
        leaders, back = np.unique(group, return_inverse=True)
        distinct = tensor if len(leaders) == len(tensor) else tensor[leaders]
        observed = observe(aggregate, distinct, repetition(aggregate, options.repeats))
        observed, estimate = _settled(aggregate.params, observed, options, progress)
        p = p_values(estimate.tail.deviate(estimate.z))
        decision = decide(
            p, estimate.local_fdr, options.correction, options.alpha, options.largest_p
        )
        selected = selected_intervals(estimate, decision, options)
        answer = Answer(observed, estimate, p, decision, *selected)
        return assemble(aggregate, candidates, options, answer, Grouping(group, back))


def observe(
    aggregate: Aggregate,
    positions: Positions,
    repeats: float,
    cohorts: NDArray[np.bool_] | None = None,
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
            f"metric {aggregate.metric!r} has no reports in this window; "
            "choose a window with reports, or wait until its days are closed"
        )
    noise = bit_noise(params.mechanism)
    shares = debias(counts[present], reports[present], noise)
    random = RandomString(params.num_bits, params.num_hashes)
    symbols = params.encoding == "symbol"
    covariance = CohortNoise(noise, random, reports[present], repeats, symbols)
    return Observed(shares, positions[:, present], covariance)


def bit_noise(mechanism: TwoRoundMechanism) -> BitNoise:
    """The mechanism's integers over 2**16 as probabilities."""
    rounds = (mechanism.p1, mechanism.q1, mechanism.p2, mechanism.q2)
    return BitNoise(*(value / PROBABILITY_SCALE for value in rounds))


def _settled(
    params: RapporParams, observed: Observed, options: DecodeOptions, progress: Progress
) -> tuple[Observed, Estimate]:
    """Estimate; where repeated reports are only bounded and the data are quieter, once more.

    The repetition is lowered to what the noise in the data shows, plus two standard errors.
    """
    estimate = _estimate(params, observed, options, progress)
    left = (observed.centred.size - len(observed.centred)) * estimate.unfitted
    if options.repeats is not None or observed.noise.repetition == 1 or left < 1:
        return observed, estimate
    ratio = estimate.ratio * (1 + 2 * np.sqrt(2 / left))
    if ratio >= 1:
        return observed, estimate
    observed = observed.repeated(observed.noise.shown_repetition(ratio))
    return observed, _estimate(params, observed, options, progress)


def _estimate(
    params: RapporParams, observed: Observed, options: DecodeOptions, progress: Progress
) -> Estimate:
    """The estimator that fits the encoding and the choice of method."""
    if params.encoding == "boolean":
        return by_boolean(observed, options.level)
    if params.encoding == "one_hot" or _own_bits(observed.positions, params):
        return by_bit(observed, options.level)
    if options.method == "lasso":
        return by_lasso(observed, options.level, options.alpha, progress)
    return by_cavity(observed, options.level, progress, full=options.full_fit)


def _own_bits(positions: Positions, params: RapporParams) -> bool:
    """Whether a map gives each candidate one bit of its own (basic RAPPOR in google's files)."""
    if params.num_hashes != 1 or len(positions) > params.num_bits:
        return False
    ranked = np.sort(positions[:, :, 0], axis=0)
    return bool((np.diff(ranked, axis=0) > 0).all())
