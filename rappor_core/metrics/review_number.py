"""What a reviewer should know of a metric of numbers. Not needed on a device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric

Z = 1.96
USELESS_CURVE = 0.25  # half-width of an interval of a share, above which a curve says little
WIDE_MEAN = 0.1  # of the range


def findings(metric: Metric, population: int | None) -> Iterator[tuple[str, str]]:
    """Levels and messages. population: devices that report in a period, where it is known."""
    number, params = metric.details, metric.params
    replicates = params.num_cohorts // number.stride(params.num_bits)
    if number.mode == "memo" and replicates < 2:
        message = (
            "one cohort for each question: windows of several periods, and changes between them, "
            f"get intervals by a bound, not a measurement; use num_cohorts = {4 * replicates} "
            f"times {number.stride(params.num_bits)}"
        )
        yield "warning", message
    if population is None:
        return
    reports = max(1, population // number.spread)
    spread = params.q_star - params.p_star
    questions = len(number.asked) / (params.num_bits - 1)
    if number.ask == "mean":
        yield _mean(metric, reports, spread)
        return
    half = Z * math.sqrt(0.25 * questions / reports) / spread
    level = "warning" if half > USELESS_CURVE else "note"
    message = (
        f"{reports:,} reports a period over {len(number.asked)} questions: the share at or above "
        f"an edge is known to about {100 * half:.1f} points either way"
    )
    if level == "warning":
        message += "; use fewer edges, a larger epsilon, or a longer window"
    yield level, message


def _mean(metric: Metric, reports: int, spread: float) -> tuple[str, str]:
    """What is known of a mean: the bound (hi - lo) / (2 d sqrt(N)), which holds for all strata."""
    number = metric.details
    ends = [number.edges[0], number.edges[-1]]
    half = Z / (2 * spread * math.sqrt(reports))
    if number.scale == "log":
        factor = (ends[1] / ends[0]) ** half
        said = f"the geometric mean is known to a factor of about {factor:.2f}"
    else:
        said = f"the mean is known to about {half * (ends[1] - ends[0]):.4g} {number.unit}"
    message = f"{reports:,} reports a period: {said} either way"
    if half <= WIDE_MEAN:
        return "note", message
    return "warning", f"{message}, {100 * half:.0f} % of the range; lower `to`, or raise epsilon"
