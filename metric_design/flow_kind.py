"""The design of `flow` metrics: their review, plans and TypeScript."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from decoder.flows.detection import FOUND_OFTEN, reach
from metric_design.cohorts import numbers_of_cohorts, reports_to_serve
from metric_design.kind_design import KindDesign, Level, Question
from rappor_core.errors import InformationLostError
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.flow import COHORT_STEP, MAX_SYMBOLS, Flow, question_of
from rappor_core.metrics.metric import Metric

ALPHA = 0.05  # The decoder's default level for detecting a flow
LARGE_BAND = 0.25  # The share of people in the band whose standard error is reported
AS_GOOD = 1.1  # A ratio of variances that counts as equal
OTHER_BANDS = 3  # Own cell, beyond the last edge, other


def question_share(question: str) -> float:
    """Return the share of the cohorts that answer a question of `QUESTIONS`."""
    questions = [question_of(cohort) for cohort in range(COHORT_STEP)]
    return questions.count(question) / COHORT_STEP


def class_variance(num_symbols: int, keep: float) -> float:
    """Return the variance of one rare class's share, times the reports of its question.

    With local hashing (Wang et al. 2017) every other class has the same symbol in 1 of g cohorts.
    `keep` is P(a device reports its own symbol)."""
    others = 1 / num_symbols
    return others * (1 - others) / (keep - others) ** 2


def band_variance(num_symbols: int, keep: float, share: float) -> float:
    """Return the variance of a distance band's share, times the reports of its question.

    Bands are sent without a hash. `share` is the share of people in the band."""
    lie = (1 - keep) / (num_symbols - 1)
    rate = lie + (keep - lie) * share
    return rate * (1 - rate) / (keep - lie) ** 2


def _symbols(metric: Metric) -> tuple[Level, str]:
    """Return a finding that compares the number of symbols with alternatives."""
    params, epsilon = metric.params, metric.epsilon_one
    bands = metric.details.num_classes("distance")
    here = class_variance(params.num_bits, params.prob_q)
    best = best_symbols(epsilon, bands)
    tried = sorted({max(params.num_bits // 2, bands), best, min(2 * params.num_bits, MAX_SYMBOLS)})
    costs = {}
    for symbols in tried:
        try:
            keep = TwoRoundMechanism.one_symbol(symbols, epsilon).p2 / (1 << 16)
        except InformationLostError:
            continue
        costs[symbols] = class_variance(symbols, keep)
    costs.pop(params.num_bits, None)
    listed = ", ".join(f"{size}: {cost:.2g}" for size, cost in costs.items())
    message = (
        f"num_symbols = {params.num_bits}: the variance of one flow is {here:.2g} divided by the "
        f"reports about its question; with other numbers {listed}"
    )
    if costs.get(best, here) * AS_GOOD >= here:
        return "note", message
    return "warning", f"{message}; use num_symbols = {best}"


def best_symbols(epsilon: float, bands: int) -> int:
    """Return the best number of symbols, at least one for each of `bands` distance bands."""
    return min(max(round(math.exp(epsilon) + 1), bands, 2), MAX_SYMBOLS)


def class_error(metric: Metric, question: str, reports: float) -> float:
    """Return the standard error of a rare class's share, from the reports of one question.

    `question` is `pair` for a flow or `zones` for a pair of zones; `reports` counts all questions.
    """
    variance = class_variance(metric.params.num_bits, metric.params.prob_q)
    return math.sqrt(variance / (question_share(question) * reports))


def least_flow(metric: Metric, reports: float) -> float:
    """Return the smallest flow that question `pair` alone detects 8 times in 10, as a share."""
    errors = reach(ALPHA, len(metric.details.cells))
    return min(1.0, errors * class_error(metric, "pair", reports))


def _errors(metric: Metric, reports: int) -> str:
    """Describe each question's standard errors, and the smallest detected flow."""
    params = metric.params
    flow_error, zone_error = (class_error(metric, name, reports) for name in ("pair", "zones"))
    band = band_variance(params.num_bits, params.prob_q, LARGE_BAND)
    band_error = math.sqrt(band / (question_share("distance") * reports))
    return (
        f"standard error {100 * flow_error:.2g} points for a flow, {100 * zone_error:.2g} for a "
        f"pair of zones, {100 * band_error:.2g} for a distance band with a quarter of all, each "
        "from its own question (using all five is more accurate); a flow of "
        f"{100 * least_flow(metric, reports):.2g} % is detected {FOUND_OFTEN * 10:.0f} times in "
        "10"
    )


def _cohorts(metric: Metric, population: int) -> Iterator[tuple[Level, str]]:
    """Warn of cohorts that never get enough reports, or that need several periods for them."""
    cohorts, floor = metric.params.num_cohorts, metric.cohort_floor
    if population < floor * cohorts:
        few = max(COHORT_STEP, population // (2 * floor) // COHORT_STEP * COHORT_STEP)
        yield (
            "warning",
            f"{population / cohorts:.0f} reports in each of {cohorts} cohorts are below "
            f"min_reports_per_cohort = {floor}: nothing is served until more devices report; "
            f"use num_cohorts = {few}",
        )
        return
    turns = metric.rules.turns(metric)
    if population < reports_to_serve(metric) * turns:
        yield (
            "note",
            f"{population / cohorts / turns:.0f} reports per {metric.period} in each of "
            f"{cohorts} cohorts are too few for min_reports_per_cohort = {floor} in all of "
            f"them: several {metric.period}s are served as one",
        )


class FlowDesign(KindDesign):
    """The design of flow metrics."""

    asks = "share"
    usual = {  # noqa: RUF012 (never changed)
        "grid": "quadkey",
        "from": "night 22-6",
        "to": "work 9-17 weekdays",
        "bands_km": [1, 2, 5, 10, 20],
        "period": "month",
        "mode": "once",
    }

    def designs(self, question: Question) -> Iterator[Mapping[str, Any]]:
        """Yield designs with each useful number of symbols and cohorts, most cohorts first."""
        each = question.life / question.whole_of("max_reports", 1)
        bands = question.length_of("bands_km") + OTHER_BANDS
        for symbols in sorted({best_symbols(each, 2), best_symbols(each, bands)}):
            for cohorts in numbers_of_cohorts(question.people, COHORT_STEP):
                yield {"epsilon": each, "num_symbols": symbols, "num_cohorts": cohorts}

    def precision(self, metric: Metric, devices: float) -> float:
        """Return the smallest share of a flow that is detected."""
        return least_flow(metric, devices)

    def finding(self, metric: Metric, precision: float, question: Question) -> str:  # noqa: ARG002
        """Return, as text, the smallest flow that is detected at this precision."""
        cells = len(metric.details.cells)
        return (
            f"detect a flow of {100 * precision:.3g} % of the devices, among {cells:,} cells, "
            f"{10 * FOUND_OFTEN:.0f} times in 10"
        )

    def supposed(self, metric: Metric, question: Question) -> str:  # noqa: ARG002
        """Return, as text, the assumption that distance does not explain the flow."""
        return (
            "the flow is detected from its own question alone, and distance does not explain it; "
            "with five such flows at once, simulations detected about 7 in 10"
        )

    def findings(self, metric: Metric, population: int | None) -> Iterator[tuple[Level, str]]:
        """Yield findings on the number of symbols and on the errors for this number of devices."""
        yield _symbols(metric)
        flow: Flow = metric.details
        if flow.lag:
            yield (
                "note",
                f"lag = {flow.lag}: a device stores its first usual cell in its state file for "
                f"{flow.lag} {metric.period}s, until it has answered; results show the share "
                "that moved, and how far, but hardly a matrix of moves",
            )
        if population is None or not population:
            return
        turns = metric.rules.turns(metric)
        over = f" over {turns:,} {metric.period}s" if turns > 1 else ""
        yield "note", f"{population:,} devices{over}: {_errors(metric, population)}"
        yield from _cohorts(metric, population)


FLOW = FlowDesign()
