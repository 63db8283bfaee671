"""What a plan is asked of one metric, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from metric_design.review import Finding, check_metrics, reports_to_serve
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.metrics.validation import APP, WEB, Platform
from rappor_core.risk import risk_of
from rappor_core.text import counted

WEAK = 10.0  # nats of a life from which on 1 % likely may become 99.5 %
USUAL_LIFE = 6.0  # nats of a life, where another epsilon protects too little

Review = Callable[[MetricsFile, int], Iterable[Finding]]  # of a file and a population


@dataclass(frozen=True)
class MetricToPlan:
    """A metric that is to be planned.

    name: of the metric.  given: keys of its table in `metrics.toml` that are decided.
    target: how well it is to be told, in the unit of its planner; None: as well as it can be.
    devices: that report; None: solved for.  epsilon: nats for life, over all lives of a browser's
    storage; None: solved for.
    periods: of which a picture each is wanted.  more: keys that only a plan has (`extra_keys`).
    """

    name: str
    given: Mapping[str, Any]
    target: float | None = None
    devices: float | None = None
    epsilon: float | None = None
    periods: int = 1
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def platforms(self) -> tuple[Platform, ...]:
        """Those that are given, without what is none; of a table that does not say, an app."""
        given = self.given.get("platforms", [APP])
        return tuple(p for p in (APP, WEB) if isinstance(given, list) and p in given)

    @property
    def lives(self) -> int:
        """Of a browser's storage, over which a budget counts what one of them may tell; or 1."""
        lives = self.given.get("lives")
        return lives if WEB in self.platforms and isinstance(lives, int) and lives > 0 else 1


@dataclass(frozen=True)
class MetricPlan:
    """The plan of one metric.

    answer: in one sentence; because: how often devices report, what other modes would take.
    supposed: what the prediction rests on.  merged: which periods are served as one; None: none.
    table: for `metrics.toml`.  solved: `devices`, `epsilon` or the key of the precision.
    precision: that is reached, in the unit of the planner of the kind.
    """

    name: str
    answer: str
    because: str
    supposed: str
    merged: str | None
    solved: str
    devices: int
    precision: float
    metric: Metric
    table: str

    @property
    def epsilon(self) -> float:
        """For life, in nats: what a budget counts, so over all lives of a browser's storage."""
        return risk_of(self.metric).worst

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, for JSON."""
        return {
            "name": self.name,
            "answer": self.answer,
            "because": self.because,
            "supposed": self.supposed,
            "merged": self.merged,
            "weak": weak_sentence(self.epsilon),
            "solved_for": self.solved,
            "devices": self.devices,
            "precision": self.precision,
            "epsilon_life": self.epsilon,
            "metric": self.metric.to_dict(),
        }


def reviewed(file: MetricsFile, population: int) -> Iterable[Finding]:
    """The review of a file, without the attacks of `rappor metrics check` on what devices send, and
    what depends on the day."""
    return check_metrics(file, today=None, population=population)


def file_with(existing: MetricsFile | None, planned: Iterable[Metric]) -> MetricsFile:
    """The metrics that a device has, and those that are planned: what a budget must hold."""
    known = {} if existing is None else dict(existing.metrics)
    return MetricsFile(known | {metric.name: metric for metric in planned})


def with_budget(file: MetricsFile) -> MetricsFile:
    """A file whose budget is what its metrics cost, where it has none."""
    budget = file.lifetime_epsilon if file.budget is None else file.budget
    return MetricsFile(file.metrics, budget)


def budget_of(epsilon: float) -> float:
    """The `budget` of a file that costs so many nats, rounded up."""
    return math.ceil(1e3 * epsilon - 1e-6) / 1e3


def objection(file: MetricsFile, name: str, population: int, review: Review) -> str | None:
    """What a review warns of because of one metric, or of the file as a whole; None for nothing."""
    found = review(file, population)
    return next((f.message for f in found if f.level != "note" and f.metric in (name, "")), None)


def merged_sentence(metric: Metric, devices: float, turns: int) -> str | None:
    """Say how many periods are served as one; None where each is served by itself.

    turns: over so many groups and periods the reports of a picture are spread.
    """
    needed, each = reports_to_serve(metric), devices / turns
    together = -int(-needed // each)
    if together <= 1:
        return None
    return (
        f"{counted(together, metric.period)} are served as one: {devices:,.0f} devices send "
        f"{each:,.0f} reports in each, and it takes about {needed:,} until all "
        f"{metric.params.num_cohorts} cohorts hold min_reports_per_cohort = {metric.cohort_floor}"
    )


def weak_sentence(epsilon: float) -> str | None:
    """Say that an epsilon for life protects hardly at all; None where it does."""
    if epsilon <= WEAK:
        return None
    return f"An epsilon of {epsilon:.3g} a life promises next to nothing."
