"""The plan that answers a question (`make_plan`), with all data for the page and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from decoder.errors import PlanError
from decoder.progress import Progress, silent
from metric_design.cohorts import reports_to_serve
from metric_design.kind_design import (
    DESIGNS,
    MAX_EPSILON,
    KindDesign,
    Question,
    kind_design,
    rounded_down,
)
from metric_design.search import (
    USUAL_LIFE,
    DesignSearch,
    Review,
    Solution,
    about,
    reviewed,
    solve,
)
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.metrics.validation import APP
from rappor_core.risk import risk_of
from rappor_core.sequence_risk import risk_text, sequence_risk
from rappor_core.text import counted

if TYPE_CHECKING:
    from metric_design.list_forecast import ListForecast

_CHOSEN_BY_THE_PLAN = {"epsilon", "epsilon_infinity", "epsilon_one", "prob_f"}


@dataclass(frozen=True)
class Plan:
    """The plan of one metric, with shares as fractions of 1 and epsilons in nats.

    Attributes:
        question: The question, with every number filled in.
        solved: The name of the number that was solved for.
        metric: The declared metric.
        table: Its table in `metrics.toml`.
        precision: The metric's precision, in the unit of the kind.
        because: How often devices report, and what other modes would require.
        weak: A warning that the epsilon offers little protection, or None.
        budget: The budget of a device for all metrics.
        spent: The part of the budget that other metrics spend.
        left: The part of the budget that remains.
    """

    question: Question
    solved: str
    metric: Metric
    table: str
    precision: float
    because: str
    weak: str | None
    budget: float
    spent: float
    left: float

    @property
    def kind(self) -> KindDesign:
        """Return the design of the metric's kind."""
        return kind_design(self.metric.kind)

    @property
    def answer(self) -> str:
        """Return the answer to the question in one sentence."""
        question, life = self.question, risk_of(self.metric).for_life
        devices = f"{about(question.people)} devices"
        target = question.target
        if target is None or self.solved == self.kind.asks:
            target = self.precision
        see = self.kind.finding(self.metric, target, question)
        needs = {
            "devices": f"with {life} you need {devices}",
            "epsilon": f"with {devices} you need {life}",
            "candidates": f"with {devices} and {life} look for {about(question.listed)} values at "
            "most",
            "periods": f"with {devices} and {life} decode "
            f"{counted(question.together, self.metric.period)} together",
        }
        if self.solved in needs:
            return f"To {see}, {needs[self.solved]}."
        return f"With {devices} and {life} you will {see}."

    @property
    def supposed(self) -> str:
        """Return the assumptions of the prediction as a sentence."""
        return f"Assumed: {self.kind.supposed(self.metric, self.question)}."

    @property
    def merged(self) -> str | None:
        """Return a sentence on the number of periods served as one, or None if it is 1."""
        return merged_sentence(self.metric, self.question.people)

    @property
    def risk(self) -> str:
        """Return text on what a device reveals with one answer and with all its answers."""
        return risk_text(self.metric)

    @property
    def epsilon(self) -> float:
        """Return the lifetime epsilon in nats that a budget counts, over all storage lifetimes."""
        return risk_of(self.metric).worst

    @property
    def file_text(self) -> str:
        """Return a `metrics.toml` with only this metric."""
        return f"budget = {self.budget:g}\n\n{self.table}"

    @cached_property
    def forecast(self) -> ListForecast | None:
        """Return the forecast of a list metric, or None for kinds without a list."""
        if not self.kind.further:
            return None
        result: ListForecast = import_module("metric_design.list_forecast").forecast(
            self.metric, self.question, self.precision
        )
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, for JSON."""
        return {
            "version": 1,
            "name": self.question.name,
            "answer": self.answer,
            "because": self.because,
            "supposed": self.supposed,
            "merged": self.merged,
            "weak": self.weak,
            "solved_for": self.solved,
            "mode": self.kind.mode(self.metric.to_dict()) or self.question.mode,
            "devices": self.question.people,
            "candidates": self.question.candidates,
            "periods": self.question.together,
            "precision": self.precision,
            "epsilon_report": risk_of(self.metric).report,
            "epsilon_life": self.epsilon,
            "epsilon_sequence": sequence_risk(self.metric).to_dict(),
            "risk": self.risk,
            "metric": self.metric.to_dict(),
            "metrics_toml": self.file_text,
            "budget": {"total": self.budget, "other_metrics": self.spent, "left": self.left},
            **({} if self.forecast is None else self.forecast.to_dict()),
        }


def check_question(question: Question, target: dict[str, float | None]) -> Question:
    """Check that the question's kind uses the given numbers.

    Args:
        question: The question, whose keys include `kind`.
        target: The given `share` and `error`.

    Returns:
        The question with its target.

    Raises:
        PlanError: The kind is not planned, or it does not use a given number.
    """
    kind, name = question.given["kind"], question.name
    if kind not in DESIGNS or kind_design(kind).asks is None:
        planned = ", ".join(item for item in DESIGNS if kind_design(item).asks)
        raise PlanError(
            f"kind = {kind!r} is not planned; planned are {planned}. Use --metrics for the "
            "metrics that devices already have"
        )
    design = kind_design(kind)
    for key, value in target.items():
        if value is not None and key != design.asks:
            raise PlanError(
                f"{name}: {key} = {value!r} does not apply to kind {kind!r}; give {design.asks}"
            )
    for key in ("candidates", "periods", "expected"):
        if getattr(question, key) is not None and key not in design.options:
            value = getattr(question, key)
            raise PlanError(f"{name}: {key} = {value!r} does not apply to kind {kind!r}")
    for key in _CHOSEN_BY_THE_PLAN & question.given.keys():
        value = question.given[key]
        raise PlanError(f"{name}: {key} = {value!r} is chosen by the plan: give --epsilon")
    return replace(question, target=target.get(str(design.asks)))


def make_plan(
    question: Question,
    existing: MetricsFile | None = None,
    review: Review = reviewed,
    progress: Progress = silent,
) -> Plan:
    """Plan a metric within a device's budget.

    If devices and a target are given, the metric uses only the epsilon that it needs; otherwise, it
    uses all of the remaining budget.

    Args:
        question: The question, with at most one deciding number missing.
        existing: The device's existing metrics, and its budget.
        review: The full review of `rappor metrics check`, applied to the recommended metric.
        progress: A callback, called occasionally with (stage, done, total).

    Raises:
        PlanError: The question cannot be answered, or the metric exceeds the budget.
        MetricsFileError: A key or a name is invalid for this kind of metric.
    """
    file = MetricsFile({}) if existing is None else existing
    if question.name in {metric.base_name for metric in file.declared}:
        raise PlanError(f"metric {question.name!r} is already in the file; choose another name")
    kind = kind_design(question.given["kind"])
    spent = float(file.lifetime_epsilon)
    budget = file.budget
    if question.epsilon is not None:
        budget = min(question.epsilon + spent, math.inf if budget is None else budget)
    open_numbers = [name for name in kind.further if getattr(question, name) is None]
    is_asked = question.devices is not None and question.target is not None
    if not is_asked or (question.epsilon is not None and open_numbers):
        question = replace(question, epsilon=_room(question, budget, file))
    else:
        question = replace(question, epsilon=None)
    solved, (chosen, *others) = solve(kind, question, review, progress)
    metric = chosen[0].found.metric
    whole = file_with(file, [metric]).lifetime_epsilon
    if budget is not None and whole > budget * (1 + 1e-9):
        raise PlanError(
            f"budget = {budget:g} is too small: the metrics need {whole:.3g} ({question.name} "
            f"{risk_of(metric).worst:.3g}; others {spent:.3g}); ask for less, or raise the "
            "budget (existing devices keep theirs until the user consents again)"
        )
    budget = _rounded_up(budget or whole)
    parts = [_often(metric), *(_other(kind, solved, *pair) for pair in others)]
    return Plan(
        question=chosen[0].question,
        solved=solved,
        metric=metric,
        table=chosen[0].found.table,
        precision=chosen[0].precision,
        because=f"{'; '.join(parts)}.",
        weak=_weak(kind, chosen[0]),
        budget=budget,
        spent=spent,
        left=budget - whole,
    )


def file_with(existing: MetricsFile, planned: Iterable[Metric]) -> MetricsFile:
    """Return the existing and the planned metrics together, which a budget must cover."""
    return MetricsFile(dict(existing.metrics) | {metric.name: metric for metric in planned})


def _room(question: Question, budget: float | None, file: MetricsFile) -> float:
    """Return the remaining budget on the platform where it is smallest."""
    if budget is None:
        asks = kind_design(question.given["kind"]).asks
        missing = {asks: question.target, "devices": question.devices}
        absent = [str(name) for name, value in missing.items() if value is None]
        raise PlanError(
            f"{' and '.join([*absent, 'epsilon'])} are missing for {question.name}: give "
            f"--epsilon for a device lifetime, or --devices and --{asks}"
        )
    room = min(budget - file.lifetime_epsilon_on(p) for p in question.platforms or (APP,))
    if room <= 0:
        raise PlanError(
            f"budget = {budget:g}: other metrics use {budget - room:.3g}, and nothing is left "
            f"for {question.name}"
        )
    return rounded_down(room)


def _rounded_up(epsilon: float) -> float:
    return math.ceil(1e3 * epsilon - 1e-6) / 1e3


def _often(metric: Metric) -> str:
    if metric.max_reports == 1:
        return "Each device reports once in its lifetime, so this report has the whole epsilon"
    if metric.params.mechanism.has_permanent_round:
        return f"Each device reports every {metric.period}, from a permanent response"
    return f"Each device sends fresh reports from time to time, {metric.max_reports} at most"


def _other(kind: KindDesign, solved: str, other: Solution, warned: str | None) -> str:
    """Describe the requirements of a different mode, and whether the check warns of it."""
    metric, question = other.found.metric, other.question
    takes = {
        "devices": f"takes {about(question.people)} devices",
        "epsilon": f"takes {risk_of(metric).for_life}",
        "candidates": f"allows {about(question.listed)} candidates",
        "periods": f"takes {counted(question.together, metric.period)}",
    }.get(solved, f"would {kind.finding(metric, other.precision, question)}")
    warning = "" if warned is None else f", and `rappor metrics check` warns about it: {warned}"
    series = " (needed for a series over time)" if metric.max_reports != 1 else ""
    return f"mode = {question.mode!r}{series} {takes}{warning}"


def merged_sentence(metric: Metric, devices: float) -> str | None:
    """Return a sentence on the number of periods served as one, or None if it is 1."""
    if metric.max_reports == 1 and metric.location is None and metric.rules.details is None:
        return None  # One report in the lifetime of a device is not a series
    needed, each = reports_to_serve(metric), devices / metric.rules.turns(metric)
    together = -int(-needed // each)
    if together <= 1:
        return None
    return (
        f"{counted(together, metric.period)} are served as one: {devices:,.0f} devices send "
        f"{each:,.0f} reports in each, and about {needed:,} are needed until all "
        f"{metric.params.num_cohorts} cohorts have min_reports_per_cohort = {metric.cohort_floor}"
    )


def _weak(kind: KindDesign, chosen: Solution) -> str | None:
    """Return a warning that an epsilon hardly protects, with the result of a usual epsilon."""
    epsilon = risk_of(chosen.found.metric).worst
    if epsilon <= MAX_EPSILON:
        return None
    text = f"An epsilon of {epsilon:.3g} per lifetime offers almost no protection."
    usual = DesignSearch(kind, chosen.question).solution(epsilon=USUAL_LIFE)
    if usual is None or not math.isfinite(usual.precision):
        return f"{text} With --epsilon {USUAL_LIFE:g} the same devices show nothing."
    see = kind.finding(usual.found.metric, usual.precision, usual.question)
    return f"{text} With --epsilon {USUAL_LIFE:g} the same devices let you {see}."
