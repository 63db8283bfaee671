"""`make_plan`: the answer to a request, with all that the page, the table and JSON show."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any

import numpy as np

from decoder.errors import PlanError
from decoder.progress import Progress, silent
from decoder.typing import Floats
from metric_design.central_claim import MONTH, CentralClaim, claims
from metric_design.comparison import Alternative, compare
from metric_design.design import Design, best_design, solve
from metric_design.detection import detection, rough_sentence, visible_share
from metric_design.few_cohorts import few_cohorts_sentence
from metric_design.metric_table import metric_table
from metric_design.population import Population
from metric_design.request import PERIODS_A_YEAR, PlanRequest, Unknown
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.risk import Risk, risk_of
from rappor_core.sequence_risk import risk_text, sequence_risk

POWERS = (0.5, 0.8, 0.9)
WEAK = 10.0  # nats of a life from which on 1 % likely may become 99.5 %
USUAL_LIFE = 6.0


@dataclass(frozen=True)
class Labels:
    """Name, description, owner and expiry of the planned metric, for `metrics.toml`."""

    name: str
    description: str
    owner: str
    expires: date


@dataclass(frozen=True)
class Trust:
    """Assumptions behind the claim against readers of published counts. delta: chance that it
    fails.

    forged: share of a cohort's reports that an attacker may have made.
    """

    delta: float = 1e-6
    forged: float = 0.1

    def __post_init__(self) -> None:
        """Refuse what is no chance, and no share. Raises PlanError."""
        if not 1e-11 <= self.delta < 1:
            raise PlanError(f"delta = {self.delta:g} is not from 1e-11 to below 1; 1e-6 is usual")
        if not 0 <= self.forged < 1:
            raise PlanError(f"forged = {self.forged:g} is not a share from 0 to below 1")


@dataclass(frozen=True)
class Plan:
    """The result of planning a metric. Shares are fractions of 1, epsilons in nats.

    solved: the number that was not known.  table: for `metrics.toml`.
    visible: smallest share found with each of `POWERS`; None: none is.
    expected, listed, unseen_values, unseen_share: of the population expected: how many are found
    on average, of how many, how many have less than an even chance, and their share together.
    few_cohorts: which values are not found whatever their share; None where next to none.
    rough: how far predictions may be off; None where simulations bear them out.
    weak: that the epsilon of a life promises next to nothing, and what less would show; or None.
    claims: against readers of published counts; no_claim says why there is none.
    budget, spent, left: of a device, all metrics; None where no budget is known.
    """

    request: PlanRequest
    solved: Unknown
    design: Design
    labels: Labels
    metric: Metric
    table: str
    visible: tuple[float | None, ...]
    expected: float
    listed: int
    unseen_values: int
    unseen_share: float
    few_cohorts: str | None
    rough: str | None
    weak: str | None
    epsilon_year: float
    alternatives: tuple[Alternative, ...]
    claims: tuple[CentralClaim, ...]
    no_claim: str | None
    budget: float | None
    spent: float
    left: float | None

    @property
    def risk(self) -> Risk:
        """How much a device's reports can tell about it, as a Risk."""
        return risk_of(self.metric)

    @property
    def in_words(self) -> str:
        """Say in words how much a device tells by one answer, in its life, and by the whole
        sequence of answers."""
        return risk_text(self.metric)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, for JSON."""
        params = self.metric.params
        mechanism = params.to_dict()
        names = ("encoding", "num_bits", "num_hashes", "num_cohorts")
        return {
            "version": 1,
            "request": asdict(self.request),
            "solved_for": self.solved,
            "metric": self.metric.to_dict(),
            "metrics_toml": self.table,
            "design": {name: mechanism[name] for name in names}
            | {"kind": self.metric.kind, "prob_f": params.prob_f}
            | {"prob_p": params.prob_p, "prob_q": params.prob_q, "bytes": params.report_bytes},
            "visible_share": dict(zip(map(str, POWERS), self.visible, strict=True)),
            "expected_found": self.expected,
            "expected_of": self.listed,
            "unseen_values": self.unseen_values,
            "unseen_share": self.unseen_share,
            "few_cohorts": self.few_cohorts,
            "rough": self.rough,
            "weak": self.weak,
            "epsilon_report": self.risk.report,
            "epsilon_year_of_one_value": self.epsilon_year,
            "epsilon_life": self.risk.life,
            "epsilon_sequence": sequence_risk(self.metric).to_dict(),
            "risk": self.in_words,
            "alternatives": [asdict(row) for row in self.alternatives],
            "central_claims": [asdict(row) for row in self.claims],
            "no_central_claim": self.no_claim,
            "budget": {"total": self.budget, "other_metrics": self.spent, "left": self.left},
        }


def make_plan(
    request: PlanRequest,
    population: Population,
    labels: Labels,
    trust: Trust,
    existing: MetricsFile | None = None,
    budget: float | None = None,
    progress: Progress = silent,
) -> Plan:
    """Solve for the missing number, and work out all that follows for the metric: epsilons,
    risks, comparison.

    Args:
        request: with at most one deciding number missing.
        population: the shares expected, from the number of candidates.
        labels: for `metrics.toml`.
        trust: conditions of the claim against readers of published counts.
        existing: metrics that the device has already.
        budget: of a device for all metrics; None: that of `existing`, if it has one.
        progress: called with (stage, done, total) now and then.

    Raises:
        PlanError: where nothing will do, with what bounds it; a budget that is none.
        MetricsFileError: a name that no metric has.
    """
    if budget is not None and not 0 < budget < math.inf:
        raise PlanError(f"budget = {budget:g} is not a number of nats above 0")
    request, design, solved = solve(request, population, progress)
    table = metric_table(
        labels.name, labels.description, labels.owner, labels.expires, request, design
    )
    metric = next(iter(parse_metrics(table).metrics.values()))
    shares = population(design.setting.candidates)
    theory = design.unlisted, design.clear
    chances = detection(design.setting, shares, *theory)
    visible = tuple(visible_share(design.setting, power, *theory) for power in POWERS)
    unseen = chances < 0.5
    bounds, no_claim = _claims(metric, request, trust)
    budget = budget if budget is not None or existing is None else existing.budget
    spent = 0.0 if existing is None else existing.lifetime_epsilon
    return Plan(
        request=request,
        solved=solved,
        design=design,
        labels=labels,
        metric=metric,
        table=table,
        visible=visible,
        expected=float(chances.sum()),
        listed=min(len(shares), design.setting.candidates),
        unseen_values=int(unseen.sum()),
        unseen_share=float(shares[unseen].sum()),
        few_cohorts=few_cohorts_sentence(metric.params, design.clear),
        rough=rough_sentence(design.setting),
        weak=_weak(request, metric, population),
        epsilon_year=metric.params.epsilon_n(PERIODS_A_YEAR[request.period]),
        alternatives=tuple(compare(request, design, population, progress)),
        claims=bounds,
        no_claim=no_claim,
        budget=budget,
        spent=spent,
        left=_left(budget, spent, metric),
    )


def _weak(request: PlanRequest, metric: Metric, population: Population) -> str | None:
    """Say that an epsilon protects hardly at all, and what a usual one would show."""
    if metric.lifetime_epsilon <= WEAK:
        return None
    usual = replace(
        request, epsilon_report=None, epsilon_year=None, epsilon_life=USUAL_LIFE, share=None
    )
    design = best_design(usual, population)
    share = None if design is None else design.share
    seen = "no share" if share is None else f"{100 * share:.3g} % or more"
    return (
        f"An epsilon of {metric.lifetime_epsilon:.3g} a life promises next to nothing. With "
        f"--epsilon-life {USUAL_LIFE:g} the same devices show {seen}; more devices, fewer "
        "candidates or more periods show smaller shares at the same epsilon."
    )


def _left(budget: float | None, spent: float, metric: Metric) -> float | None:
    if budget is None:
        return None
    left = budget - spent - metric.lifetime_epsilon
    if left < 0:
        raise PlanError(
            f"budget = {budget:g}: other metrics take {spent:.3g}, and {metric.name!r} would cost "
            f"{metric.lifetime_epsilon:.3g}; give epsilon_life = {max(budget - spent, 0):.3g} or "
            "less, or retire a metric, or raise the budget (devices that began with a smaller one "
            "keep it without new consent)"
        )
    return left


def _claims(
    metric: Metric, request: PlanRequest, trust: Trust
) -> tuple[tuple[CentralClaim, ...], str | None]:
    """One report, a month, a year; or why nothing is claimed."""
    counts = sorted({1, MONTH, PERIODS_A_YEAR[request.period]})
    devices = float(request.devices or 1)
    return claims(metric, counts, devices, delta=trust.delta, forged=trust.forged)


def curve(plan: Plan, factors: Floats) -> list[tuple[float, float | None]]:
    """Numbers of devices with the smallest share seen at each, with the power asked for: for a
    picture."""

    power, theory = plan.request.power, (plan.design.unlisted, plan.design.clear)
    points = []
    for devices in (plan.design.setting.devices * factors).tolist():
        setting = replace(plan.design.setting, devices=max(devices, 1.0))
        points.append((devices, visible_share(setting, power, *theory)))
    return points


FACTORS = np.logspace(-2, 2, 33)
