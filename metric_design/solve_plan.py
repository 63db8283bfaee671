"""Solve a question about one metric: search the designs of its kind, by the review's predictor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from decoder.errors import PlanError
from metric_design.kinds import LISTED, KindDesign, kind_design, kind_designs
from metric_design.metric_plan import (
    USUAL_LIFE,
    WEAK,
    MetricPlan,
    MetricToPlan,
    Review,
    about,
    budget_of,
    file_with,
    merged_sentence,
    objection,
    reviewed,
    rounded_down,
    toml_table,
    with_budget,
)
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.metrics.validation import APP
from rappor_core.risk import risk_of

FEWEST, MOST = 100.0, 1e10  # devices
LEAST, LARGEST = 0.05, WEAK  # nats for life
ALIKE = 0.01  # of a precision: designs that tell as much; the first of them is taken
_STRIDE = 4.0  # of a search
_MAX_NUMBER = 1e13
_EPSILONS = {"epsilon", "epsilon_infinity", "epsilon_one", "prob_f"}  # keys that decide it
_FIRST = "kind", "description", "owner", "expires"  # keys of a table
_SUPPOSED = 2.0, 1e6  # nats and devices, where nobody says


@dataclass(frozen=True)
class Candidate:
    """A metric that a plan may declare, and the error that is predicted of it."""

    metric: Metric
    table: str
    file: MetricsFile
    precision: float


@dataclass(frozen=True)
class ModeSolution:
    """A candidate of a mode, for so many devices, and what makes it dearer than another."""

    found: Candidate
    mode: object
    devices: int
    cost: float


@dataclass(frozen=True)
class DesignSearch:
    """The designs of a question, of one mode. mode: None where a kind has none."""

    kind: KindDesign
    question: MetricToPlan
    mode: object = None

    @property
    def given(self) -> dict[str, Any]:
        """The keys that are decided."""
        return {**self.kind.usual, **self.question.given}

    def of_modes(self) -> list[DesignSearch]:
        """A search for each mode in which the kind has designs."""
        epsilon, devices = self.question.epsilon, self.question.devices
        asked = epsilon or _SUPPOSED[0], devices or _SUPPOSED[1]
        found = dict.fromkeys(keys.get("mode") for keys in self._tables(*asked))
        return [replace(self, mode=mode) for mode in found]

    def best(self, epsilon: float, devices: float) -> Candidate | MetricsFileError | str | None:
        """The most precise candidate of which the review warns of nothing; else why there is none:
        an error of the table, or what the review warns of. None where the kind has no design.
        """
        found, error = self._candidates(epsilon, devices)
        warned: str | None = None
        for one in found:
            name = one.metric.base_name
            told = objection(with_budget(one.file), name, int(devices), reviewed)
            if told is None:
                return one
            warned = warned or told
        return error or warned

    def reaches(self, epsilon: float, devices: float, target: float) -> bool:
        """Whether some design that the review warns of nothing of is as precise as asked."""
        one = self.best(epsilon, devices)
        return isinstance(one, Candidate) and one.precision <= target

    def _candidates(
        self, epsilon: float, devices: float
    ) -> tuple[list[Candidate], MetricsFileError | None]:
        """The most precise first, of those alike in the order of the kind; why none is a metric."""
        found, refused = list[Candidate](), None
        tables = [keys for keys in self._tables(epsilon, devices) if keys.get("mode") == self.mode]
        for table in dict.fromkeys(toml_table(self.question.name, keys) for keys in tables):
            try:
                file = parse_metrics(table)
            except MetricsFileError as error:
                refused = refused or error
                continue
            metric = file.declared[0]
            precision = self.kind.precision(metric, devices)
            found.append(Candidate(metric, table, file, precision))
        found.sort(key=lambda one: round(math.log(one.precision) / ALIKE))
        return found, None if found else refused

    def _tables(self, epsilon: float, devices: float) -> Iterator[dict[str, Any]]:
        """Tables of `metrics.toml`. What is given stays; of an inline table each key."""
        given, nats = self.given, rounded_down(epsilon / self.question.lives)
        for design in self.kind.designs(given, nats, int(devices), self.question.periods):
            inner = {
                key: {**value, **given[key]}
                for key, value in design.items()
                if isinstance(value, Mapping) and isinstance(given.get(key), Mapping)
            }
            table = {**design, **given, **inner}
            yield {key: table[key] for key in dict.fromkeys((*_FIRST, *table)) if key in table}


def question_of(
    kind: str,
    name: str,
    given: Mapping[str, Any],
    target: Mapping[str, float | None],
    devices: float | None,
    periods: float | None,
) -> tuple[KindDesign, MetricToPlan]:
    """Make the question about a metric without a list of values, and find its kind.

    Args:
        kind: name of the kind.
        name: of the metric.
        given: keys of its table in `metrics.toml` that are decided.
        target: precision wanted by its key, `error` or `share`; None if not given.
        devices: that report; None: solved for.
        periods: of which a map each is wanted; None: one.

    Raises:
        PlanError: If the kind is not planned, or a number has no use for it.
    """
    design = kind_design(kind)
    if design.asks is None:
        planned = [one for one in kind_designs() if kind_design(one).asks or one in LISTED]
        raise PlanError(
            f"kind = {kind!r} is not planned; planned are {', '.join(planned)}. Metrics that a "
            "device has already are given with --metrics"
        )
    for key, value in target.items():
        if value is not None and key != design.asks:
            raise PlanError(
                f"{name}: {key} = {value!r} is not asked of kind {kind!r}; give {design.asks}"
            )
    for key, value in {**target, "devices": devices, "periods": periods}.items():
        if value is not None and not 0 < value < _MAX_NUMBER:
            raise PlanError(f"{name}: {key} = {value!r} is not a number above 0")
    if periods is not None and not design.asks_periods:
        raise PlanError(f"{name}: periods = {periods!r} has no use for kind {kind!r}")
    if periods is not None and periods != int(periods):
        raise PlanError(f"{name}: periods = {periods:g} is not a whole number")
    for key in _EPSILONS & given.keys():
        raise PlanError(f"{name}: {key} = {given[key]!r} is chosen by the plan: give --epsilon")
    wanted = target.get(design.asks)
    return design, MetricToPlan(name, given, wanted, devices, None, int(periods or 1))


def plan_metric(
    kind: KindDesign,
    question: MetricToPlan,
    budget: float | None,
    existing: MetricsFile | None = None,
    review: Review = reviewed,
) -> MetricPlan:
    """Plan a metric within the budget of a device.

    With devices and a target the metric takes what it needs; else all that is left of the budget.

    Args:
        kind: of the metric.
        question: about it.
        budget: for life, of all metrics of a device; None: what the metric takes.
        existing: metrics that the device has already.
        review: the whole of `rappor metrics check`, asked of what is recommended.

    Raises:
        PlanError: If the question cannot be answered, or the budget does not hold the metric.
    """
    known = MetricsFile({}) if existing is None else existing
    if question.name in {metric.base_name for metric in known.declared}:
        raise PlanError(f"metric {question.name!r} is in the file already; choose another name")
    if question.devices is None or question.target is None:
        question = replace(question, epsilon=_room(question, budget, known))
    plan = solve_metric(kind, question, review)
    whole = file_with(known, [plan.metric]).lifetime_epsilon
    spent = float(known.lifetime_epsilon)
    if budget is not None and whole > budget * (1 + 1e-9):
        raise PlanError(
            f"budget = {budget:g}: the metrics take {whole:.3g} ({plan.name} {plan.epsilon:.3g}; "
            f"others {spent:.3g}); ask for less, or raise the budget (devices that began with a "
            "smaller one keep it without new consent)"
        )
    budget = budget_of(budget or whole)
    return replace(plan, budget=budget, spent=spent, left=budget - whole)


def _room(question: MetricToPlan, budget: float | None, known: MetricsFile) -> float:
    """Return what is left of the budget on the platform with the least."""
    if budget is None:
        raise PlanError(
            f"epsilon is not known for {question.name}: give --epsilon for the life of a device, "
            "or --devices and the precision wanted"
        )
    room = min(budget - known.lifetime_epsilon_on(p) for p in question.platforms or (APP,))
    if room <= 0:
        raise PlanError(
            f"budget = {budget:g}: other metrics take {budget - room:.3g}, and nothing is left for "
            f"{question.name}"
        )
    return rounded_down(room)


def solve_metric(kind: KindDesign, question: MetricToPlan, review: Review) -> MetricPlan:
    """Solve for the number that a question leaves out, in each mode; take the cheapest.

    Args:
        kind: of the metric.
        question: with two of devices, epsilon and target, or all.
        review: of the whole of `rappor metrics check`, asked of what is recommended.

    Raises:
        PlanError: where nothing will do, with what would.
        MetricsFileError: a key that no such metric has.
    """
    solved = _unknown(kind, question)
    solutions, refused = list[ModeSolution](), list[str]()
    for search in DesignSearch(kind, question).of_modes():
        found = _solved(search)
        if isinstance(found, ModeSolution):
            solutions.append(found)
        elif found:
            refused.append(found)
    if not solutions:
        raise PlanError("; ".join(dict.fromkeys(refused)) or "no design")
    solutions.sort(key=lambda one: one.cost)
    warned = {id(one): _warned(one, review) for one in solutions}
    decided = "mode" in question.given
    chosen = next((one for one in solutions if decided or warned[id(one)] is None), None)
    if chosen is None:
        raise PlanError(
            f"`rappor metrics check` warns of every plan: {warned[id(solutions[0])]}; with `mode` "
            "given it is planned all the same"
        )
    others = [(one, warned[id(one)]) for one in solutions if one is not chosen]
    return _plan(kind, question, solved, chosen, others)


def _warned(one: ModeSolution, review: Review) -> str | None:
    name = one.found.metric.base_name
    return objection(with_budget(one.found.file), name, one.devices, review)


def _unknown(kind: KindDesign, question: MetricToPlan) -> str:
    """Return which number is solved for: the precision if both others are known."""
    asks = str(kind.asks)
    known = {asks: question.target, "devices": question.devices, "epsilon": question.epsilon}
    missing = [name for name, value in known.items() if value is None]
    if len(missing) > 1:
        raise PlanError(
            f"{question.name}: {' and '.join(missing)} are not known: one of {asks}, "
            "devices and epsilon can be solved for, give the other two"
        )
    return missing[0] if missing else asks


def _solved(search: DesignSearch) -> ModeSolution | str:
    """The solution in one mode; or why there is none, and what would reach the target."""
    question = search.question
    target = math.inf if question.target is None else question.target
    epsilon, devices = question.epsilon, question.devices
    if epsilon is not None and devices is not None:
        return _solution(search, epsilon, devices, target) or _impossible(
            search, epsilon, devices, "with these numbers"
        )
    if epsilon is not None:
        nats = epsilon
        found = least(lambda number: search.reaches(nats, number, target), FEWEST, MOST)
        if found is None:
            return _impossible(search, nats, MOST, "by any number of devices")
        made = _solution(search, nats, found, target)
    else:
        people = devices or 1
        found = least(lambda number: search.reaches(number, people, target), LEAST, LARGEST)
        if found is None:
            return _impossible(search, LARGEST, people, "by any epsilon")
        made = _solution(search, found, people, target)
    assert made is not None  # noqa: S101 (the search has seen it)
    return replace(made, cost=found)


def _solution(
    search: DesignSearch, epsilon: float, devices: float, target: float
) -> ModeSolution | None:
    one = search.best(epsilon, devices)
    if not isinstance(one, Candidate) or one.precision > target:
        return None
    return ModeSolution(one, search.mode, int(devices), one.precision)


def _impossible(search: DesignSearch, epsilon: float, devices: float, how: str) -> str:
    """Why a target is not reached, and what would reach it."""
    question, kind = search.question, search.kind
    one = search.best(epsilon, devices)
    if isinstance(one, MetricsFileError):  # whatever the mode: it is said once
        return str(one)
    mode = "" if search.mode is None else f" in mode {search.mode!r}"
    if not isinstance(one, Candidate):
        return f"{question.name}: no plan{mode} for {about(devices)} devices: {one}"
    target = question.target
    assert target is not None  # noqa: S101 (without one any design will do)
    reached = (
        f"{kind.asks} = {target:g} is not reached {how}{mode}: with {about(devices)} devices "
        f"and {risk_of(one.metric).for_life} you "
        f"{kind.finding(one.metric, one.precision)}"
    )
    ways = []
    usual = question.epsilon or USUAL_LIFE
    if question.devices is not None:
        more = least(lambda number: search.reaches(usual, number, target), devices, MOST)
        ways += [f"{about(more)} devices with epsilon {usual:g}"] if more else []
    if question.devices is not None and question.epsilon is not None:
        nats = least(lambda number: search.reaches(number, devices, target), epsilon, LARGEST)
        ways += [f"epsilon {nats:.3g} with these devices"] if nats else []
    would = f"{' or '.join(ways)} would reach it" if ways else "ask for less"
    return f"{reached}; {would}"


def least(enough: Callable[[float], bool], low: float, high: float) -> float | None:
    """The least number of three digits that is enough, between bounds; None where none is."""
    value = short = low
    while not enough(value):
        if value >= high:
            return None
        short, value = value, min(_rounded_up(value * _STRIDE), high)
    while True:
        middle = _rounded_up(math.sqrt(short * value))
        if not short < middle < value:
            return value
        short, value = (short, middle) if enough(middle) else (middle, value)


def _rounded_up(value: float) -> float:
    places = 2 - math.floor(math.log10(value))
    return round(math.ceil(value * 10.0**places - 1e-6) / 10.0**places, max(places, 0))


def _plan(
    kind: KindDesign,
    question: MetricToPlan,
    solved: str,
    chosen: ModeSolution,
    others: list[tuple[ModeSolution, str | None]],
) -> MetricPlan:
    metric, precision = chosen.found.metric, chosen.found.precision
    devices, life = f"{about(chosen.devices)} devices", risk_of(metric).for_life
    asked = precision if question.target is None else question.target
    told = kind.finding(metric, precision if solved == kind.asks else asked)
    if solved == "devices":
        answer = f"To {told}, with {life} you need {devices}."
    elif solved == "epsilon":
        answer = f"To {told}, with {devices} you need {life}."
    else:
        answer = f"With {devices} and {life} you {told}."
    parts = [_often(metric), *(_other(kind, solved, *one) for one in others)]
    return MetricPlan(
        name=question.name,
        answer=answer,
        because=f"{'; '.join(parts)}.",
        supposed=f"Supposed: {kind.supposed(metric)}.",
        merged=merged_sentence(metric, chosen.devices, kind.turns(metric)),
        solved=solved,
        devices=chosen.devices,
        precision=precision,
        metric=metric,
        table=chosen.found.table,
    )


def _often(metric: Metric) -> str:
    """How often devices report."""
    if metric.max_reports == 1:
        return "Each device reports once in its life, so that this report has the whole epsilon"
    if metric.params.mechanism.has_permanent_round:
        return f"Each device reports every {metric.period}, from a permanent response"
    return f"Each device sends a fresh report now and then, {metric.max_reports} at most"


def _other(kind: KindDesign, solved: str, other: ModeSolution, warned: str | None) -> str:
    """What another mode would take, and whether the check warns of it."""
    metric = other.found.metric
    takes = {
        "devices": f"takes {about(other.devices)} devices",
        "epsilon": f"takes {risk_of(metric).for_life}",
    }.get(solved, f"would {kind.finding(metric, other.found.precision)}")
    said = "" if warned is None else f", and `rappor metrics check` warns of it: {warned}"
    series = ", as a series over time needs," if metric.max_reports != 1 else ""
    return f"mode = {other.mode!r}{series} {takes}{said}"
