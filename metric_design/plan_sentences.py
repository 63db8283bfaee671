"""Sentences that answer what a plan was asked."""

from __future__ import annotations

from typing import NamedTuple

from decoder.tables.format import percent
from metric_design.design import Design
from metric_design.metric_plan import about
from metric_design.population import ExpectedShares
from metric_design.request import ALPHA, POWER, PlanRequest, Unknown
from rappor_core.metrics.metric import Metric
from rappor_core.risk import risk_of
from rappor_core.text import counted

_OFTEN = f"{10 * POWER:g} times in 10"


class SolvedPlan(NamedTuple):
    """A request with every number, its design, and which number was solved for."""

    request: PlanRequest
    design: Design
    solved: Unknown

    @property
    def value(self) -> float:
        """The number that was solved for."""
        name = "epsilon_life" if self.solved == "epsilon" else self.solved
        return float(getattr(self.request, name))

    @property
    def cost(self) -> tuple[float, float]:
        """What makes a solution dearer than another of the same question."""
        value = self.value if self.solved != "share" else self.design.share or 1.0
        return -value if self.solved == "candidates" else value, self.design.share or 1.0


def answer_sentence(chosen: SolvedPlan, metric: Metric, seen: int) -> str:
    """Answer the question of a plan in one sentence.

    Args:
        chosen: what was solved.
        metric: as planned.
        seen: values of the expected population that are found with the power asked for.
    """
    request, design = chosen.request, chosen.design
    devices = f"{about(request.devices or 1)} devices"
    life = risk_of(metric).for_life
    often = f"each {_OFTEN}"
    limit = f"of {percent(design.share or 1.0)} or more"
    if seen:
        what = (
            f"the {seen:,} values {limit}, {often}"
            if seen > 1
            else f"the one value {limit}, {_OFTEN}"
        )
    else:
        what = f"none of the values expected, but would see one {limit}, {_OFTEN}"
    if chosen.solved == "share":
        return f"With {devices} and {life} you will see {what}."
    needs = {
        "devices": f"with {life} you need {devices}",
        "epsilon": f"with {devices} you need {life}",
        "candidates": f"with {devices} and {life} look for {about(chosen.value)} values at most",
        "periods": f"with {devices} and {life} decode {counted(int(chosen.value), request.period)} "
        "together",
    }[chosen.solved]
    return f"To see {what}, {needs}."


def because_sentence(
    chosen: SolvedPlan, other: SolvedPlan | None, metric: Metric, warned: str | None = None
) -> str:
    """Say how often devices report, and why: what the other mode would take.

    warned: what the review warns of in the other mode, which would be cheaper; None: it is dearer.
    """
    period = chosen.request.period
    ways = {
        "once": "Each device reports once in its life, so that this report has the whole epsilon",
        "memo": f"Each device reports every {period}, from a permanent response "
        f"({metric.max_memoized_values} values for life)",
    }
    said = ways[chosen.design.noise.mode]
    if other is None:
        return f"{said}."
    takes = {
        "share": f"shows values of {percent(other.design.share or 1.0)} or more",
        "devices": f"takes {about(other.value)} devices",
        "epsilon": f"takes epsilon {other.value:.3g}",
        "candidates": f"allows {about(other.value)} candidates",
        "periods": f"takes {counted(int(other.value), period)}",
    }[chosen.solved]
    mode = other.design.noise.mode
    series = (
        f"a report every {period}, which a series over time needs,"
        if mode == "memo"
        else "one report for life"
    )
    if warned is not None:
        return (
            f"{said}; {series} {takes} (--mode {mode}), and `rappor metrics check` warns of it: "
            f"{warned}."
        )
    return f"{said}; it is the cheapest: {series} {takes} (--mode {mode})."


def supposed_sentence(request: PlanRequest, population: ExpectedShares) -> str:
    """Name the assumptions of a prediction."""
    return (
        f"Supposed: {population.words} over {about(request.candidates or 1)} candidates "
        f"(--shares), decoded by --correction fdr (at most {percent(ALPHA)} of the list false)."
    )
