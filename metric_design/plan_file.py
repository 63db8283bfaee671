"""A plan of several metrics that share a budget: a `metrics.toml` with blanks.

Each table `[metrics.NAME]` says what is asked. Keys that are given stay; those that are missing are
chosen. Beside the keys of `metrics.toml` a table says how well the metric is to be told (`error` or
`share`, as its kind asks), of how many `periods` a picture each is wanted, `epsilon_life`, and what
else its kind needs for a plan. Of a table that is complete the plan says what it tells.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from decoder.errors import PlanError
from decoder.progress import Progress, silent
from metric_design.kind_planner import KindPlanner
from metric_design.kinds import kind_design, kind_designs
from metric_design.metric_plan import (
    MetricPlan,
    MetricToPlan,
    Review,
    budget_of,
    file_with,
    reviewed,
)
from metric_design.noise import rounded_down
from metric_design.plan_sentences import about
from metric_design.solve_plan import decides_epsilon
from rappor_core.errors import toml_problem
from rappor_core.metrics.metrics_file import MetricsFile, read_budget
from rappor_core.metrics.validation import APP
from rappor_core.text import counted


@dataclass(frozen=True)
class Asked:
    """A question, and the planner of its kind."""

    planner: KindPlanner
    question: MetricToPlan


@dataclass(frozen=True)
class FilePlan:
    """The plan of all questions.

    answer: to all together.  plans: of each, in the order asked.  budget: of a device, nats.
    spent: by metrics that a device has already.  left: of the budget.
    """

    answer: str
    plans: tuple[MetricPlan, ...]
    budget: float
    spent: float
    left: float

    @property
    def epsilon(self) -> float:
        """Of a life, by the planned metrics together."""
        return file_with(None, (plan.metric for plan in self.plans)).lifetime_epsilon

    @property
    def tables(self) -> str:
        """The tables of the planned metrics, for `metrics.toml`."""
        return "\n".join(plan.table for plan in self.plans)

    @property
    def text(self) -> str:
        """A `metrics.toml` with the planned metrics alone."""
        return f"budget = {self.budget:g}\n\n{self.tables}"

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, for JSON."""
        return {
            "version": 1,
            "answer": self.answer,
            "metrics_toml": self.text,
            "epsilon_life": self.epsilon,
            "budget": {
                "total": self.budget,
                "other_metrics": self.spent,
                "left": self.left,
            },
            "questions": [plan.to_dict() for plan in self.plans],
        }


def read_questions(
    text: str, labels: Mapping[str, Any], devices: float | None
) -> tuple[list[Asked], float | None]:
    """Read the questions of a plan file, and its budget.

    Args:
        text: TOML.
        labels: description, owner and expires of a table that has none.
        devices: that report.

    Raises:
        PlanError: with the key and the value.
        MetricsFileError: a budget that is none.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"not TOML that can be read: {toml_problem(ValueError(error))}") from None
    tables = document.pop("metrics", None)
    budget = document.pop("budget", None)
    for key in document:
        raise PlanError(f"unknown key {key}: a plan has `budget` and tables [metrics.NAME]")
    if not isinstance(tables, dict) or not tables:
        raise PlanError("there is no [metrics.NAME] table")
    asked = [asked_of(name, _table(name, labels, table), devices) for name, table in tables.items()]
    return asked, read_budget(budget)


def _table(name: str, labels: Mapping[str, Any], table: object) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise PlanError(f"metrics.{name} = {table!r} is not a table [metrics.NAME]")
    return {**labels, **table}


def asked_of(name: str, table: Mapping[str, Any], devices: float | None) -> Asked:
    """The question of one table. Raises PlanError for a kind that is not planned."""
    planner = planner_of(table.get("kind"))
    given = dict(table)
    for other in {"error", "share"} - {planner.asks}:
        if other in given:
            raise PlanError(
                f"{name}: {other} = {given[other]!r} is not asked of kind {given['kind']!r}; give "
                f"{planner.asks}"
            )
    target, periods, epsilon = (
        given.pop(key, None) for key in (planner.asks, "periods", "epsilon_life")
    )
    more = {key: given.pop(key) for key in planner.extra_keys & given.keys()}
    numbers = {planner.asks: target, "periods": periods, "epsilon_life": epsilon}
    for key, value in (numbers | {"devices": devices}).items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e13:
            raise PlanError(f"{name}: {key} = {value!r} is not a number above 0")
    if periods is not None and "periods" not in planner.extra_keys:
        raise PlanError(f"{name}: periods = {periods!r} has no use for kind {given['kind']!r}")
    if periods is not None and periods != int(periods):
        raise PlanError(f"{name}: periods = {periods:g} is not a whole number")
    question = MetricToPlan(name, given, target, devices, epsilon, int(periods or 1), more)
    return Asked(planner, question)


def planner_of(kind: object) -> KindPlanner:
    """The planner of a kind. Raises PlanError where it has none."""
    planner = kind_design(kind).planner() if isinstance(kind, str) else None
    if planner is None:
        planned = [name for name in kind_designs() if kind_design(name).planner() is not None]
        raise PlanError(
            f"kind = {kind!r} is not planned; planned are {', '.join(planned)}. Metrics that a "
            "device has already are given with --metrics"
        )
    return planner


def plan_questions(
    asked: Sequence[Asked],
    budget: float | None,
    existing: MetricsFile | None = None,
    review: Review = reviewed,
    progress: Progress = silent,
) -> FilePlan:
    """Plan several metrics that share a budget for life.

    Those whose epsilon is decided, and those that say of known devices how well they are to be
    told, take what they need; the others share what is left evenly.

    Args:
        asked: the questions, with a name each.
        budget: for life, of all metrics of a device; None: what they take.
        existing: metrics that the device has already.
        review: of the whole of `rappor metrics check`, asked of what is recommended.
        progress: called with (stage, done, total) for each metric.

    Raises:
        PlanError: where a question cannot be answered, or the budget does not hold them all.
    """
    for name in {one.question.name for one in asked} & _names(existing):
        raise PlanError(f"metric {name!r} is in the file already; choose another name")
    plans: dict[str, MetricPlan] = {}

    def solve(one: Asked, **changes: Any) -> None:
        progress("planning", len(plans), len(asked))
        question = replace(one.question, **changes)
        plans[question.name] = one.planner.plan(question, review)

    rest = [one for one in asked if not _takes_what_it_needs(one.question)]
    for one in asked:
        if one not in rest:
            solve(one)
    if rest:
        taken = file_with(existing, (plan.metric for plan in plans.values()))
        each = _share(rest, budget, taken)
        for one in rest:
            solve(one, epsilon=each)
    needed = max(plans.values(), key=lambda plan: plan.devices)
    for one in asked:  # planned again for the devices that another metric needs
        if plans[one.question.name].devices < needed.devices:
            solve(one, devices=needed.devices, epsilon=plans[one.question.name].epsilon)
    progress("planning", len(asked), len(asked))
    return _file_plan([plans[one.question.name] for one in asked], needed, budget, existing)


def _names(existing: MetricsFile | None) -> set[str]:
    return set() if existing is None else {metric.base_name for metric in existing.declared}


def _takes_what_it_needs(question: MetricToPlan) -> bool:
    if question.epsilon is not None or decides_epsilon(question):
        return True
    return question.devices is not None and question.target is not None


def _share(rest: Sequence[Asked], budget: float | None, other: MetricsFile) -> float:
    """What is left of the budget for each, where least is.

    other: metrics that a device has, and those that take what they need.
    """
    names = ", ".join(one.question.name for one in rest)
    if budget is None:
        raise PlanError(
            f"epsilon is not known for {names}: give --epsilon for the life of a device, or "
            "--devices and how well each metric is to be told"
        )
    on = [one.question.platforms or (APP,) for one in rest]
    rooms = {p: budget - other.lifetime_epsilon_on(p) for p in chain.from_iterable(on)}
    if min(rooms.values()) <= 0:
        taken = budget - min(rooms.values())
        raise PlanError(
            f"budget = {budget:g}: other metrics take {taken:.3g}, and nothing is left for {names}"
        )
    each = min(room / sum(p in one for one in on) for p, room in rooms.items())
    return rounded_down(each)


def _file_plan(
    plans: Sequence[MetricPlan],
    needed: MetricPlan,
    budget: float | None,
    existing: MetricsFile | None,
) -> FilePlan:
    metrics = [plan.metric for plan in plans]
    total = file_with(None, metrics).lifetime_epsilon
    whole = file_with(existing, metrics).lifetime_epsilon
    spent = 0.0 if existing is None else existing.lifetime_epsilon
    if budget is not None and whole > budget * (1 + 1e-9):
        costs = ", ".join(f"{plan.name} {plan.epsilon:.3g}" for plan in plans)
        raise PlanError(
            f"budget = {budget:g}: the metrics take {whole:.3g} ({costs}; others "
            f"{spent:.3g}); ask for less of one, or raise the budget (devices that began with a "
            "smaller one keep it without new consent)"
        )
    answer = plans[0].answer
    if len(plans) > 1:
        who = f" ({needed.name} needs most)" if needed.solved == "devices" else ""
        answer = (
            f"{counted(len(plans), 'metric')} together cost a device epsilon {total:.3g} for life, "
            f"with {about(needed.devices)} devices{who}."
        )
    budget = budget_of(budget or whole)
    return FilePlan(answer, tuple(plans), budget, spent, budget - whole)
