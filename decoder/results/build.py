"""Build a `Decoding` (table, summary, diagnostics, warnings) from the numbers of its steps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from decoder.decoded_window import window_fields
from decoder.estimation.estimate import Estimate
from decoder.model.counts import Observed
from decoder.results.selective_intervals import EVEN_ODDS, forged
from decoder.results.tables import CandidateTable, Decoding, Diagnostics, Summary
from decoder.results.warnings import StepResults, left_out, plain_warnings, why_nothing
from decoder.typing import Floats

POWER = 0.8  # the power of the test at the detectable share


def assemble(steps: StepResults) -> Decoding:
    """Build the decoding from the results of the steps."""
    aggregate, estimate = steps.aggregate, steps.estimate
    noise = steps.observed.noise_of(estimate.shrunken)
    cohort_z = np.full(len(aggregate.reports_per_cohort), np.nan)
    present = np.array(aggregate.reports_per_cohort) > 0
    cohort_z[present] = cohort_scores(steps.observed, estimate, noise)
    diagnostics = Diagnostics(
        method=estimate.method,
        shrunk=estimate.prior is not None,
        cohort_z=cohort_z,
        unlisted_squared=estimate.missing,
        unlisted_error=estimate.missing_error,
        excess=estimate.excess,
        freedom=estimate.freedom,
        iterations=estimate.iterations,
        converged=estimate.converged,
        full_fit=estimate.full,
        penalty=estimate.penalty,
    )
    decoding = Decoding(
        **window_fields(aggregate),
        options=steps.options,
        candidates=_table(steps),
        summary=_summary(steps, noise),
        diagnostics=diagnostics,
        warnings=(),
        reason=None,
        notes=str(steps.candidates.notes),
    )
    reason = None if decoding.summary.num_detected else why_nothing(decoding.summary)
    return replace(decoding, warnings=plain_warnings(steps, decoding), reason=reason)


def with_left_out(decoding: Decoding, scores: Mapping[int, float]) -> Decoding:
    """Add to a decoding which cohorts were excluded, and how much they differ.

    `scores` are the sizes of their residuals before they were excluded."""
    if not scores:
        return decoding
    cohort_z = decoding.diagnostics.cohort_z.copy()
    cohort_z[list(scores)] = list(scores.values())
    diagnostics = replace(decoding.diagnostics, cohort_z=cohort_z, left_out=tuple(sorted(scores)))
    warning = left_out(diagnostics.left_out, decoding.summary)
    return replace(decoding, diagnostics=diagnostics, warnings=(warning, *decoding.warnings))


def notes_of(steps: StepResults) -> NDArray[np.uint8]:
    """Return indices into `NOTES`, (G,), for intervals that reach 0 or exclude their estimate."""
    shares, printed = steps.estimate.shares, steps.estimate.shrunken
    detected = steps.decision.detected
    reaches = detected & ~(steps.intervals[0] > 0)
    weak = steps.estimate.p_values > (1 - steps.options.level) / 2
    above = (shares > 1) | (detected & (printed > 1))
    notes = np.where(shares < 0, 1, np.where(above, 2, 0))
    unlikely = steps.estimate.local_fdr > EVEN_ODDS
    reasons = np.select([weak, unlikely], [3, 5], 4)
    return np.where(reaches, reasons, notes).astype(np.uint8)


def _table(steps: StepResults) -> CandidateTable:
    estimate, group, decision = steps.estimate, steps.group, steps.decision
    low, high = steps.intervals
    columns: dict[str, NDArray[Any]] = {
        "estimate": estimate.shares,
        "std_error": estimate.std_errors,
        "low": estimate.low,
        "high": estimate.high,
        "shrunken": estimate.shrunken,
        "z": estimate.z,
        "p_value": estimate.p_values,
        "p_adjusted": decision.adjusted,
        "local_fdr": estimate.local_fdr,
        "detected": decision.detected,
        "selected_low": low,
        "selected_high": high,
        **forged(steps.observed, estimate, decision.detected, low),
        "note": notes_of(steps),
    }
    if decision.weights is not None:
        columns["weight"] = decision.weights
    first = group == np.arange(len(group))
    if not first.all():  # avoid copies if all differ
        back = (np.cumsum(first) - 1)[group]  # the index of a candidate's group
        columns = {name: column[back] for name, column in columns.items()}
    values = [value.decode() for value in steps.candidates.values]
    return CandidateTable(values=values, group=group, **columns)


def cohort_scores(observed: Observed, estimate: Estimate, noise: Floats) -> Floats:
    """Return the size of each cohort's residual as a normal deviate, (m,).

    `noise` is the covariance (m, k, k) of the cohorts at the estimated shares. The quadratic form
    is approximately chi-squared; Wilson and Hilferty (1931) make it normal. The result is NaN if
    the fit leaves no degrees of freedom."""
    covariance = noise + estimate.missing * observed.noise.random.covariance_matrix
    residual = observed.bit_shares - estimate.fitted
    scale, freedom = estimate.excess * estimate.unfitted, observed.rows // len(residual)
    if scale <= 0:
        return np.full(len(residual), np.nan)
    solved = np.linalg.solve(covariance, residual[:, :, None])[:, :, 0]
    size = np.maximum((residual * solved).sum(axis=1), 0.0) / scale  # negative only by rounding
    spread = 2 / (9 * freedom)
    return np.asarray(((size / freedom) ** (1 / 3) - (1 - spread)) / np.sqrt(spread))


def _summary(steps: StepResults, noise: Floats) -> Summary:
    params, observed, estimate = steps.aggregate.params, steps.observed, steps.estimate
    options, decision, random = steps.options, steps.decision, observed.noise.random
    if observed.noise.symbols:  # exclude the term that makes it invertible
        noise = observed.noise.covariance(observed.positions, estimate.shrunken)
    # the threshold that the rule actually applied
    threshold = options.alpha / decision.listed(np.arange(len(estimate.shares))).sum()
    if options.correction == "none":
        threshold = options.alpha
    elif options.correction not in ("bonferroni", "fdr-eb"):
        threshold = max(min(decision.cutoff, decision.most), threshold)
    threshold = min(threshold, options.largest_p, 0.5)
    detectable = (float(ndtri(POWER)) - float(ndtri(threshold))) * np.median(estimate.std_errors)
    # The parts of sum (y - a)^2: expected noise, the explained part, and the remainder.
    total, fit = (float((x**2).sum()) for x in (observed.centered, estimate.fitted - random.mean))
    noisy = min(float(np.trace(noise, axis1=1, axis2=2).sum()) / total, 1.0) if total else 1.0
    explained = min(fit / total, 1.0 - noisy) if total else 0.0
    signal = fit + estimate.missing * random.variance * estimate.fitted.size
    return Summary(
        num_candidates=len(steps.candidates),
        num_groups=len(estimate.shares),
        num_detected=int(decision.detected.sum()),
        num_reports=steps.aggregate.num_reports,
        num_cohorts=params.num_cohorts,
        empty_cohorts=params.num_cohorts - len(observed.bit_shares),
        allocated_share=float(estimate.shrunken[decision.detected].sum()),
        explained=explained,
        missing=1.0 - noisy - explained,
        noise=noisy,
        signal_explained=fit / signal if signal > 0 else None,
        detectable_share=min(1.0, float(detectable)),
        epsilon_infinity=params.epsilon_infinity,
        epsilon_one=params.epsilon_one,
        repetition=observed.noise.repetition,
    )
