"""How metrics whose values are looked for in a list are planned: strings, categories, booleans."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from decoder.errors import PlanError
from metric_design.detection import PlanSetting, detectable_share, theory
from metric_design.kind_planner import KindPlanner
from metric_design.metric_plan import MetricPlan, MetricToPlan, Review, merged_sentence
from metric_design.metric_table import Labels
from metric_design.plan import Choice, choose
from metric_design.plan_sentences import (
    answer_sentence,
    because_sentence,
    supposed_sentence,
)
from metric_design.population import ExpectedShares, zipf_population
from metric_design.request import DEFAULTS, PlanRequest
from metric_design.solve_plan import is_declared, solve_metric
from metric_design.toml_text import toml_table
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric

USUAL_ZIPF = 1.0
_KEPT = {"kind", "description", "owner", "expires", "period", "categories", "fallback"}


class ListPlanner(KindPlanner):
    """The smallest share that is found, in a population that is expected."""

    asks = "share"
    extra_keys = frozenset(
        {"periods", "top", "candidates", "complete", "zipf", "values", "bytes", "power"}
    )

    def plan(self, question: MetricToPlan, review: Review) -> MetricPlan:
        """Solve as `rappor plan` does for one such metric; predict what one that is declared
        shows."""
        population = zipf_population(question.more.get("zipf", USUAL_ZIPF))
        if is_declared(question):
            return solve_metric(_Declared(question, population), question, review)
        choice = choose(_request(question), population, _labels(question), review=review)
        return _plan(question, choice, population)


class _Declared(KindPlanner):
    """A metric of which only the prediction is asked."""

    asks = "share"

    def __init__(self, question: MetricToPlan, population: ExpectedShares) -> None:
        self.question, self.population = question, population

    def designs(self, *_: object) -> Iterator[Mapping[str, Any]]:
        """None but what is declared."""
        return iter(())

    def precision(self, metric: Metric, devices: float) -> float:
        """The smallest share found 8 times in 10, 1 where none is."""
        setting = self._setting(metric, devices)
        given = theory(setting, self.population(setting.candidates))
        return detectable_share(setting, PlanRequest.power, given) or 1.0

    def _setting(self, metric: Metric, devices: float) -> PlanSetting:
        listed = metric.num_values or int(DEFAULTS["candidates"])
        candidates = int(self.question.more.get("candidates", listed))
        each = 1 if metric.max_reports == 1 else self.question.periods
        return PlanSetting(metric.params, devices, each, candidates)

    def finding(self, metric: Metric, precision: float) -> str:  # noqa: ARG002
        """The smallest share."""
        often = round(10 * PlanRequest.power)
        return f"see values of {100 * precision:.3g} % of the devices or more, {often} times in 10"

    def supposed(self, metric: Metric) -> str:
        """The population."""
        candidates = self._setting(metric, 1).candidates
        return f"{self.population.words} over {candidates:,} candidates"


def _request(question: MetricToPlan) -> PlanRequest:
    """What the question is to the planner of one such metric."""
    given, more = question.given, dict(question.more)
    for key in given.keys() - _KEPT:
        raise PlanError(
            f"{question.name}: {key} = {given[key]!r} is chosen by the plan: leave it out, or "
            "declare the whole metric"
        )
    more.pop("zipf", None)
    if not isinstance(more.get("complete", False), bool):
        raise PlanError(f"{question.name}: complete = {more['complete']!r} is not true or false")
    if "categories" in given:
        for key in {"candidates", "complete"} & more.keys():
            raise PlanError(f"{question.name}: {key} = {more[key]!r}: categories say it")
        names = given["categories"]
        if not isinstance(names, list) or not names:
            raise PlanError(f"{question.name}: categories = {names!r} is not a list of names")
        more |= {"candidates": len(names), "complete": True}
    if question.epsilon is not None:
        more["epsilon_life"] = question.epsilon
    kinds = {"kind": given["kind"], "period": given.get("period", PlanRequest.period)}
    numbers = {"share": question.target, "devices": question.devices, "periods": question.periods}
    return PlanRequest(**{**kinds, **numbers, **more})


def _labels(question: MetricToPlan) -> Labels:
    given = question.given
    return Labels(question.name, given["description"], given["owner"], given["expires"])


def _plan(question: MetricToPlan, choice: Choice, population: ExpectedShares) -> MetricPlan:
    chosen, given = choice.chosen, question.given
    (planned,) = tomllib.loads(choice.table)["metrics"].values()
    table = {**planned, **given}
    own = "fallback" not in given and "categories" in given
    if own and table.get("fallback") not in (None, *given["categories"]):
        table["fallback"] = given["categories"][-1]
    text = toml_table(question.name, table)
    metric = parse_metrics(text).declared[0]
    share = chosen.design.share or 1.0
    shares = population(chosen.design.setting.candidates)
    devices = int(chosen.design.setting.devices)
    merged = None if metric.max_reports == 1 else merged_sentence(metric, devices, 1)
    return MetricPlan(
        name=question.name,
        answer=answer_sentence(chosen, metric, int((shares >= share * (1 - 1e-9)).sum())),
        because=because_sentence(chosen, choice.other, metric, choice.warned),
        supposed=supposed_sentence(chosen.request, population),
        merged=merged,
        solved=chosen.solved,
        devices=devices,
        precision=share,
        metric=metric,
        table=text,
    )


PLANNER = ListPlanner()
