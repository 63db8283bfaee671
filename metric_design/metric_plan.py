"""What `rappor plan` is asked of one metric, what it answers, and its table of `metrics.toml`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from metric_design.review import Finding, check_metrics, reports_to_serve
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.metrics.validation import APP, WEB, Platform
from rappor_core.risk import risk_of
from rappor_core.text import counted

WEAK = 10.0  # nats of a life from which on 1 % likely may become 99.5 %
USUAL_LIFE = 6.0  # nats of a life, where another epsilon protects too little

_SIGNIFICANT = 4  # digits of an epsilon of a design, rounded down
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)  # keys of TOML that need no quotes

Review = Callable[[MetricsFile, int], Iterable[Finding]]  # of a file and a population


@dataclass(frozen=True)
class MetricToPlan:
    """A metric that is to be planned.

    name: of the metric.  given: keys of its table in `metrics.toml` that are decided.
    target: the precision wanted, in the unit of its kind; None: the best there is.
    devices: that report; None: solved for.  epsilon: nats for life, over all lives of a browser's
    storage; None: solved for.
    periods: of which a map each is wanted.
    """

    name: str
    given: Mapping[str, Any]
    target: float | None = None
    devices: float | None = None
    epsilon: float | None = None
    periods: int = 1

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
    precision: that is reached, in the unit of the kind.
    budget: of a device, nats.  spent: by metrics that it has already.  left: of the budget.
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
    budget: float = math.inf
    spent: float = 0.0
    left: float = math.inf

    @property
    def file_text(self) -> str:
        """A `metrics.toml` with this metric alone."""
        return f"budget = {self.budget:g}\n\n{self.table}"

    @property
    def epsilon(self) -> float:
        """For life, in nats: what a budget counts, so over all lives of a browser's storage."""
        return risk_of(self.metric).worst

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, for JSON."""
        question = {
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
        budget = {"total": self.budget, "other_metrics": self.spent, "left": self.left}
        return {
            "version": 1,
            "answer": self.answer,
            "metrics_toml": self.file_text,
            "epsilon_life": file_with(None, [self.metric]).lifetime_epsilon,
            "budget": budget,
            "questions": [question],
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


def rounded_down(value: float) -> float:
    """Round down to a few digits, so that the declared number is the one that counts."""
    scale = 10.0 ** (_SIGNIFICANT - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale + 1e-9) / scale


def about(number: float) -> str:
    """A number to three digits."""
    if number < 1_000:
        return f"{number:.4g}"
    digits = len(f"{number:.0f}") - 3
    return f"{round(number / 10**digits) * 10**digits:,.0f}"


def toml_table(name: str, keys: Mapping[str, Any]) -> str:
    """The table `[metrics.NAME]` with these keys, a line each."""
    lines = [f"[metrics.{toml_key(name)}]"]
    lines += [f"{toml_key(key)} = {toml_value(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def toml_key(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else json.dumps(name)


def toml_value(value: Any) -> str:
    """Text, numbers, dates, lists and inline tables."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        parts = ", ".join(f"{toml_key(key)} = {toml_value(one)}" for key, one in value.items())
        return f"{{ {parts} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return f"{value!r}"
