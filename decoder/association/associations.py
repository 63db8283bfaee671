"""`decode_association`: the joint table of two metrics from linked reports."""

from __future__ import annotations

from dataclasses import replace

from decoder.association.em import GAP, likeliest_table
from decoder.association.linked import LinkedReports, Side, co_occurrences
from decoder.association.moments import Moments, fit_moments, moments_independence
from decoder.association.table import MAX_CELLS, JointTable, joint_table
from decoder.errors import DecodeError
from decoder.numerics.threads import one_thread
from decoder.options import DecodeOptions
from decoder.typing import Floats

MOST_STEPS = 600


def decode_association(
    reports: LinkedReports,
    first: Side,
    second: Side,
    options: DecodeOptions | None = None,
    *,
    likelihood: bool = True,
) -> JointTable:
    """Decode the joint table of two metrics from linked reports: by moments, with intervals and
    a test, and by EM.

    Args:
        reports: one a device; a device that reports twice makes intervals too narrow.
        first, second: the metrics, with `with_unlisted` where the list may be incomplete.
        options: level and alpha count.
        likelihood: whether EM runs, too. It has no intervals of its own.

    Raises:
        DecodeError: cohorts that are not in the designs, or more than 4,000 cells.
    """
    options = options or DecodeOptions()
    num_cohorts = len(first.designs)
    if len(second.designs) != num_cohorts:
        raise DecodeError(
            f"{first.name!r} has {num_cohorts} cohorts and {second.name!r} {len(second.designs)}: "
            "linked reports share one; give both as many"
        )
    for cohort in (reports.cohorts.min(), reports.cohorts.max()):
        if not 0 <= cohort < num_cohorts:
            raise DecodeError(
                f"a report has cohort {cohort}, but the cohorts are 0 to {num_cohorts - 1}: give "
                "reports of this association"
            )
    table = decode_counts(co_occurrences(reports, num_cohorts), first, second, options)
    return with_likelihood(table, reports, first, second) if likelihood else table


def with_likelihood(
    table: JointTable, reports: LinkedReports, first: Side, second: Side
) -> JointTable:
    """Add the table of most likelihood, which has no intervals of its own, to one by moments."""
    with one_thread():
        best = likeliest_table(reports, first, second, MOST_STEPS)
    warnings = list(table.warnings)
    if best.gap > GAP:
        warnings.append(
            f"EM stopped after {best.steps} steps, at most {best.gap:.3g} nats below the largest "
            "likelihood: its table still depends on where it began"
        )
    return replace(table, likelihood=best.table, warnings=tuple(warnings))


def decode_counts(
    counts: Floats, first: Side, second: Side, options: DecodeOptions, repetition: float = 1.0
) -> JointTable:
    """The joint table by moments from co-occurrence counters alone.

    Args:
        counts: as `co_occurrences` returns them.
        first, second: the metrics.
        options: level and alpha count.
        repetition: rho = sum r^2 / sum r over devices, 1 where each reports once.

    Raises:
        DecodeError: no reports, or more than 4,000 cells.
        ImproperError: two values that have the same bits in every cohort.
    """
    cells = len(first.values) * len(second.values)
    if cells > MAX_CELLS:
        raise DecodeError(f"{cells:,} cells, {MAX_CELLS:,} at most: give shorter lists")
    with one_thread():
        moments = Moments.of(counts, first, second, repetition)
        fit = fit_moments(moments)
        covariance = fit.covariance()
        independence = moments_independence(moments, fit.estimate, options.alpha)
        return joint_table(
            f"{first.name} and {second.name}",
            (first.name, second.name),
            (first.values, second.values),
            round(float(counts[:, 0, 0].sum())),
            fit.estimate,
            covariance,
            fit.curvature,
            independence,
            options.level,
        )
