"""Findings of `rappor metrics check` about an association. Not needed on a device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from rappor_core.metrics.association import Association
from rappor_core.metrics.metric import Metric

Level = Literal["warning", "note"]

Z = 1.96
USELESS = 0.1  # half-width of the interval of a cell, above which the table says little


def findings(one: Association, population: int | None) -> Iterator[tuple[Level, str]]:
    """Yield (level, message) about an association. population: devices that report both metrics
    in a period."""
    first, second = one.metrics
    total = first.lifetime_epsilon + second.lifetime_epsilon
    k1, k2 = one.shape
    yield (
        "note",
        f"links the reports of {first.name!r} and {second.name!r}: no more epsilon than both cost "
        f"(up to {total:.2f} for life together), but who sees a linked report sees {k1 + k2} bits "
        "of one device at once",
    )
    if one.cohort_of_second is not None:
        yield (
            "note",
            f"devices answer {second.name!r} in their cohort of {first.name!r}: a device that "
            f"answered {second.name!r} before is charged for the same values once more",
        )
    if population is None:
        return
    yield from _tracking(one, population)
    yield _precision(one, population)


def permanent_entropy(metric: Metric) -> float:
    """Bits of information in a metric's permanent response, if it may be reported again."""
    if metric.max_reports == 1:
        return 0.0
    lie = metric.params.mechanism.q1 / (1 << 16)
    if not 0 < lie < 1:
        return 0.0
    return metric.params.num_bits * -(lie * math.log2(lie) + (1 - lie) * math.log2(1 - lie))


def _tracking(one: Association, population: int) -> Iterator[tuple[Level, str]]:
    """Warn where the permanent responses of both, seen together, single a device out."""
    crowd = max(population / one.num_cohorts, 2)
    each = [permanent_entropy(metric) for metric in one.metrics]
    enough = math.log2(crowd)
    if min(each) > 0 and sum(each) > enough:
        yield (
            "warning",
            f"the permanent responses of both carry about {sum(each):.0f} bits that tell devices "
            f"apart ({each[0]:.0f} and {each[1]:.0f}), and a cohort of {crowd:,.0f} needs only "
            f"{enough:.0f}: series of linked reports could be linked to one device; use fewer "
            "num_bits, more noise in the permanent response, or max_reports = 1",
        )


def _precision(one: Association, population: int) -> tuple[Level, str]:
    """How well a rare cell is known from one report of each device."""
    spread = math.prod(_bit_variance(metric) for metric in one.metrics)
    cell = Z * math.sqrt(spread / population)
    message = (
        f"{population:,} linked reports: the share of a rare pair of values is known to about "
        f"{100 * cell:.2g} points either way"
    )
    if cell <= USELESS:
        return "note", message
    return "warning", f"{message}; a metric of kind 'pair' tells more at the same total epsilon"


def _bit_variance(metric: Metric) -> float:
    params = metric.params
    spread = params.p_star * (1 - params.p_star) / (params.q_star - params.p_star) ** 2
    return spread / params.num_hashes
