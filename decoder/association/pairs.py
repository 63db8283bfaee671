"""`decode_pairs`: decode the aggregate of a pair metric to its joint table."""

from __future__ import annotations

import numpy as np

from decoder.association.pair_model import PairCounts, fit_pair, pair_independence
from decoder.association.table import Independence, JointTable, nearest_table, shrunk_table
from decoder.candidates.lists import Candidates, listed_positions, metric_candidates
from decoder.errors import DecodeError
from decoder.model.counts import debias
from decoder.model.noise import BitNoise
from decoder.model.repetition import repetition
from decoder.numerics.threads import one_thread
from decoder.options import DecodeOptions
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.pair import Pair

MAX_CELLS = 4_000  # the covariance of all cells has as many squares


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
        covariance = fit.covariance()
        independence = pair_independence(fit, options.alpha)
        estimate = fit.estimate.reshape(pair.shape)
        fitted = nearest_table(estimate, fit.curvature)
        shrunk = shrunk_table(estimate, covariance)
        variances = np.maximum(np.diag(covariance), 0.0).reshape(pair.shape)
    return JointTable(
        metric=aggregate.metric,
        of=pair.of,
        rows=pair.labels(0),
        columns=pair.labels(1),
        num_reports=aggregate.num_reports,
        estimate=estimate,
        covariance=covariance,
        variances=variances,
        fitted=fitted,
        shrunk=shrunk,
        independence=independence,
        level=options.level,
        warnings=tuple(table_warnings(estimate, variances, independence)),
        first_day=aggregate.first_day,
        last_day=aggregate.last_day,
        definition=aggregate.definition,
    )


def table_warnings(estimate: Floats, variances: Floats, independence: Independence) -> list[str]:
    """Warnings for the reader of a joint table."""
    warnings = []
    if not independence.rejected:
        warnings.append(
            f"independence is not rejected (p = {independence.p_value:.3g}): differences between "
            "rows may be noise; use the shrunk table (no interval is of it), a longer window, "
            "shorter lists or a larger epsilon"
        )
    told = int((estimate > 2 * np.sqrt(variances)).sum())
    if told * 4 < estimate.size:
        warnings.append(f"{told} of {estimate.size:,} cells are told from zero")
    return warnings


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
