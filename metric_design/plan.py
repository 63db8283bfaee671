"""`make_plan`: the answer to a request, with all that the page, the table and JSON show."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from decoder.errors import PlanError
from decoder.progress import Progress, silent
from decoder.typing import Floats
from metric_design.central_privacy import claim_sentences
from metric_design.design import Design, best_design, solve
from metric_design.detection import (
    detectable_share,
    detection,
    half_width,
    rough_sentence,
    theory,
)
from metric_design.metric_plan import (
    USUAL_LIFE,
    Review,
    budget_of,
    file_with,
    objection,
    reviewed,
    weak_sentence,
    with_budget,
)
from metric_design.metric_table import Labels, merged_periods, metric_table
from metric_design.plan_sentences import (
    SolvedPlan,
    answer_sentence,
    because_sentence,
    supposed_sentence,
)
from metric_design.population import ExpectedShares
from metric_design.request import PERIODS_A_YEAR, POWER, Mode, PlanRequest, Unknown
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.metrics.validation import APP
from rappor_core.risk import Risk, risk_of
from rappor_core.sequence_risk import risk_text, sequence_risk

POWERS = (0.5, 0.8, 0.9)
POOLED = (7, 28)  # periods that are decoded together


@dataclass(frozen=True)
class Plan:
    """The result of planning a metric. Shares are fractions of 1, epsilons in nats.

    answer: to what was asked, in one sentence; because: why this mode, what the other takes.
    supposed: what the prediction rests on.  merged: periods that are served as one.
    pooled: numbers of periods decoded together, with the smallest share found; () in mode `once`.
    half_width: of a 95 % interval of the smallest value seen.
    solved: the number that was not known.  table: for `metrics.toml`.
    detectable: smallest share found with each of `POWERS`; None: none is.
    expected, listed, unseen_values, unseen_share: of the population expected: how many are found
    on average, of how many, how many have less than an even chance, and their share together.
    rough: how far predictions may be off; None where simulations bear them out.
    weak: that the epsilon of a life promises next to nothing, and what less would show; or None.
    published: what readers of published counts learn, in sentences.
    budget, spent, left: of a device, all metrics; None where no budget is known.
    """

    request: PlanRequest
    answer: str
    because: str
    supposed: str
    merged: int
    pooled: tuple[tuple[int, float | None], ...]
    half_width: float
    solved: Unknown
    design: Design
    labels: Labels
    metric: Metric
    table: str
    detectable: tuple[float | None, ...]
    expected: float
    listed: int
    unseen_values: int
    unseen_share: float
    rough: str | None
    weak: str | None
    epsilon_year: float
    published: tuple[str, ...]
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

    @property
    def declared_budget(self) -> float:
        """The budget of a file with this metric alone: that given, or what the metric costs."""
        return budget_of(self.budget or self.risk.worst)

    @property
    def file_text(self) -> str:
        """A `metrics.toml` with this metric alone."""
        return f"budget = {self.declared_budget:g}\n\n{self.table}"

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, for JSON."""
        params = self.metric.params
        mechanism = params.to_dict()
        names = ("encoding", "num_bits", "num_hashes", "num_cohorts")
        return {
            "version": 1,
            "answer": self.answer,
            "because": self.because,
            "supposed": self.supposed,
            "mode": self.design.noise.mode,
            "mechanism": self.design.noise.name,
            "merged_periods": self.merged,
            "pooled": [{"periods": number, "share": share} for number, share in self.pooled],
            "half_width": self.half_width,
            "request": asdict(self.request),
            "solved_for": self.solved,
            "metric": self.metric.to_dict(),
            "metrics_toml": self.file_text,
            "design": {name: mechanism[name] for name in names}
            | {"kind": self.metric.kind, "bytes": params.report_bytes},
            "detectable_share": dict(zip(map(str, POWERS), self.detectable, strict=True)),
            "expected_found": self.expected,
            "expected_of": self.listed,
            "unseen_values": self.unseen_values,
            "unseen_share": self.unseen_share,
            "rough": self.rough,
            "weak": self.weak,
            "epsilon_report": self.risk.report,
            "epsilon_year_of_one_value": self.epsilon_year,
            "epsilon_life": self.risk.life,
            "epsilon_sequence": sequence_risk(self.metric).to_dict(),
            "risk": self.in_words,
            "published_counts": list(self.published),
            "budget": {"total": self.budget, "other_metrics": self.spent, "left": self.left},
        }


def make_plan(
    request: PlanRequest,
    population: ExpectedShares,
    labels: Labels,
    existing: MetricsFile | None = None,
    progress: Progress = silent,
    review: Review = reviewed,
) -> Plan:
    """Solve for the missing number, and work out all that follows for the metric: epsilons,
    risks.

    Args:
        request: with at most one deciding number missing.
        population: the shares expected, from the number of candidates.
        labels: for `metrics.toml`.
        existing: metrics that the device has already, and its budget.
        progress: called with (stage, done, total) now and then.
        review: of the whole file, asked of a mode before it is recommended.

    Raises:
        PlanError: where nothing will do, with what bounds it.
        MetricsFileError: a name that no metric has.
    """
    choice = choose(request, population, labels, existing, progress, review)
    chosen, other, table, metric = choice.chosen, choice.other, choice.table, choice.metric
    request, design, solved = chosen
    setting, given = design.setting, design.theory
    shares = population(setting.candidates)
    chances = detection(setting, shares, given)
    detectable = tuple(detectable_share(setting, power, given) for power in POWERS)
    unseen = chances < 0.5
    budget = None if existing is None else existing.budget
    spent = 0.0 if existing is None else existing.lifetime_epsilon
    memo = design.noise.mode == "memo"
    merged = merged_periods(setting.devices, metric.params.num_cohorts) if memo else 1
    seen = int((shares >= (design.share or 1.0) * (1 - 1e-9)).sum())
    return Plan(
        request=request,
        answer=answer_sentence(chosen, metric, seen),
        because=because_sentence(chosen, other, metric, choice.warned),
        supposed=supposed_sentence(request, population),
        merged=merged,
        pooled=_pooled(chosen, merged, shares) if memo else (),
        half_width=half_width(setting, design.share or 1.0, given),
        solved=solved,
        design=design,
        labels=labels,
        metric=metric,
        table=table,
        detectable=detectable,
        expected=float(chances.sum()),
        listed=min(len(shares), setting.candidates),
        unseen_values=int(unseen.sum()),
        unseen_share=float(shares[unseen].sum()),
        rough=rough_sentence(setting),
        weak=_weak(request, metric, population),
        epsilon_year=metric.params.epsilon_n(PERIODS_A_YEAR[request.period])
        if memo
        else metric.lifetime_epsilon,
        published=tuple(claim_sentences(metric, int(setting.devices))),
        budget=budget,
        spent=spent,
        left=_left(budget, existing, metric),
    )


class Choice(NamedTuple):
    """What is recommended, its table and metric; the solution in the other mode, if there is one.

    warned: what the review warns of in that other, where it would be the cheaper one; else None.
    """

    chosen: SolvedPlan
    other: SolvedPlan | None
    table: str
    metric: Metric
    warned: str | None = None


def choose(
    request: PlanRequest,
    population: ExpectedShares,
    labels: Labels,
    existing: MetricsFile | None = None,
    progress: Progress = silent,
    review: Review = reviewed,
) -> Choice:
    """Solve in each mode that is allowed; take the cheapest that the review warns of nothing of.

    A mode that is asked for is taken without the review. Raises PlanError as `make_plan`.
    """
    choices = _choices(request, population, labels, progress)
    if request.mode != "auto":
        return choices[0]
    warnings = list[str]()
    for one in choices:
        devices = int(one.chosen.design.setting.devices)
        file = MetricsFile({} if existing is None else existing.metrics)
        file = with_budget(MetricsFile({**file.metrics, one.metric.name: one.metric}))
        told = objection(file, one.metric.name, devices, review)
        if told is None:
            return one._replace(warned=warnings[0] if warnings else None)
        warnings.append(told)
    mode = choices[0].chosen.design.noise.mode
    raise PlanError(
        f"`rappor metrics check` warns of every plan: {warnings[0]}; --mode {mode} plans it all "
        "the same"
    )


def _choices(
    request: PlanRequest, population: ExpectedShares, labels: Labels, progress: Progress
) -> list[Choice]:
    """The solutions in the modes that are allowed, the cheapest first."""
    modes: tuple[Mode, ...] = ("once", "memo") if request.mode == "auto" else (request.mode,)
    found, refused = [], list[PlanError]()
    for mode in modes:
        try:
            found.append(SolvedPlan(*solve(replace(request, mode=mode), population, progress)))
        except PlanError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    found.sort(key=lambda one: one.cost)
    others = [found[1], found[0]] if len(found) > 1 else [None]
    choices = []
    for one, other in zip(found, others, strict=True):
        design = one.design
        table = metric_table(labels, one.request, design.kind, design.setting, design.noise)
        metric = next(iter(parse_metrics(table).metrics.values()))
        choices.append(Choice(one, other, table, metric))
    return choices


def _pooled(
    chosen: SolvedPlan, merged: int, shares: Floats
) -> tuple[tuple[int, float | None], ...]:
    """What one block shows, and what several of them together."""
    setting = chosen.design.setting
    told = []
    for number in sorted({merged, *(days for days in POOLED if days > merged)}):
        several = replace(setting, reports_each=number)
        told.append((number, detectable_share(several, POWER, theory(several, shares))))
    return tuple(told)


def _weak(request: PlanRequest, metric: Metric, population: ExpectedShares) -> str | None:
    """Say that an epsilon protects hardly at all, and what a usual one would show."""
    said = weak_sentence(metric.lifetime_epsilon)
    if said is None:
        return None
    usual = replace(request, epsilon_life=USUAL_LIFE, share=None)
    design = best_design(usual, population)
    share = None if design is None else design.share
    seen = "no share" if share is None else f"{100 * share:.3g} % or more"
    return (
        f"{said} With --epsilon {USUAL_LIFE:g} the same devices show {seen}; more devices, "
        "fewer candidates or more periods show smaller shares at the same epsilon."
    )


def _left(budget: float | None, existing: MetricsFile | None, metric: Metric) -> float | None:
    """What the new metric leaves of a budget. Raises PlanError where it does not hold it."""
    if budget is None:
        return None
    left = budget - file_with(existing, [metric]).lifetime_epsilon
    if left < 0:
        if existing is not None and existing.lifetime_epsilon > budget:
            raise PlanError(
                f"budget = {budget:g}: other metrics take {existing.lifetime_epsilon:.3g} already; "
                "retire one, or raise the budget"
            )
        spent = 0.0 if existing is None else existing.lifetime_epsilon_on(APP)
        raise PlanError(
            f"budget = {budget:g}: other metrics take {spent:.3g} in an app, and {metric.name!r} "
            f"would cost {metric.lifetime_epsilon:.3g}; give --epsilon "
            f"{max(budget - spent, 0):.3g} or less, or retire a metric, or raise the budget "
            "(devices that began with a smaller one keep it without new consent)"
        )
    return left


def curve(plan: Plan, factors: Floats) -> list[tuple[float, float | None]]:
    """Numbers of devices with the smallest share seen at each, with the power asked for: for a
    picture."""

    given = plan.design.theory
    points = []
    for devices in (plan.design.setting.devices * factors).tolist():
        setting = replace(plan.design.setting, devices=max(devices, 1.0))
        points.append((devices, detectable_share(setting, POWER, given)))
    return points


FACTORS = np.logspace(-2, 2, 33)
