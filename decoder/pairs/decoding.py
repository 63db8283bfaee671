"""`decode_pairs`: decode the aggregate of a pair metric to its joint table."""

from __future__ import annotations

import numpy as np

from decoder.candidates.lists import Candidates, listed_positions, metric_candidates
from decoder.errors import DecodeError
from decoder.model.counts import debias
from decoder.model.noise import BitNoise
from decoder.model.repetition import repetition
from decoder.numerics.threads import one_thread
from decoder.options import DecodeOptions
from decoder.pairs.model import PairCounts, fit_pair, pair_independence
from decoder.pairs.table import MAX_CELLS, JointTable, joint_table
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.pair_kind import Pair


def decode_pairs(aggregate: Aggregate, options: DecodeOptions | None = None) -> JointTable:
    """The joint table of a pair metric, with margins, conditional shares and a test.

    Args:
        aggregate: of a metric of kind `pair`, with its definition.
        options: level and repeats and alpha, the level of the test, count.

    Raises:
        DecodeError: the metric is no pair, has no reports, or has more than 4,000 pairs.
    """
    options = options or DecodeOptions()
    aggregate = aggregate.without(options.without_cohorts)
    pair = _pair(aggregate)
    counts = _counts(aggregate, pair, options)
    with one_thread():
        fit = fit_pair(counts)
        return joint_table(
            aggregate,
            pair,
            fit.estimate.reshape(pair.shape),
            fit.covariance(),
            fit.curvature,
            pair_independence(fit, options.alpha),
            options.level,
        )


def _pair(aggregate: Aggregate) -> Pair:
    details = aggregate.definition.get("details")
    if not isinstance(details, dict) or set(details) != {"of", "values"}:
        raise DecodeError(
            f"metric {aggregate.metric!r} is no pair, or its definition is not in the aggregate"
        )
    pair = Pair.from_dict(details)
    if pair.num_pairs > MAX_CELLS:
        raise DecodeError(
            f"metric {aggregate.metric!r} has {pair.num_pairs:,} pairs, {MAX_CELLS:,} at most: "
            "merge rare values into one"
        )
    return pair


def _counts(aggregate: Aggregate, pair: Pair, options: DecodeOptions) -> PairCounts:
    params, reports = aggregate.params, np.array(aggregate.reports_per_cohort, dtype=np.float64)
    present = reports > 0
    if not present.any():
        raise DecodeError(f"metric {aggregate.metric!r} has no reports in this window")
    noise = BitNoise.of(params.mechanism)
    counts = np.array(aggregate.bit_counts, dtype=np.float64)[present]
    shares = debias(counts, reports[present], noise)
    candidates: Candidates = metric_candidates(aggregate)
    positions = (
        candidates.positions(params)
        if params.scheme.hashed
        else listed_positions(pair.num_pairs, params)
    )
    bits = np.asarray(positions)[:, present, 0]  # one hash
    designs = (bits.T[:, None, :] == np.arange(params.num_bits)[None, :, None]).astype(np.float64)
    repeats = repetition(aggregate, options.repeats)
    return PairCounts(shares, reports[present], designs, pair.shape, noise, repeats)
