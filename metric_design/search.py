"""The search of `rappor plan` over a kind's designs, with the review's predictor."""

import json
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from typing import Any

from decoder.errors import PlanError
from decoder.progress import Progress, silent
from metric_design.kind_design import DEFAULT_CANDIDATES, KindDesign, Question, check_number
from metric_design.review import Finding, check_metrics
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.risk import risk_of

USUAL_LIFE = 6.0  # Nats per lifetime, proposed instead of an epsilon that protects too little
ALIKE = 0.0152  # Difference of log precisions that counts as equal; the first design wins
_FIRST = "kind", "description", "owner", "expires"  # The first keys of a table
_SUPPOSED = {"epsilon": 2.0, "devices": 1e6}  # Stand-ins for unknown numbers
_DEFAULTS = {"candidates": float(DEFAULT_CANDIDATES), "periods": 1.0}
_LIMITS = {
    "devices": (100, 1e10), "epsilon": (0.01, 1e5), "candidates": (1, 1e9), "periods": (1, 3650),
}  # fmt: skip
_THOUSAND = 1_000  # The search step for epsilons is a thousandth
_PLACES = 10_000
_MORE = 1_000  # The maximum multiple of a given number that is useful as advice
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)  # TOML keys that need no quotes

Review = Callable[[MetricsFile, int], Iterable[Finding]]  # Maps a file and a population to findings


@dataclass(frozen=True)
class Candidate:
    """A metric that a plan may declare."""

    metric: Metric
    table: str
    file: MetricsFile
    rank: float  # The design's rank by its kind; lower is better


@dataclass(frozen=True)
class Solution:
    """The best candidate in a mode, with all numbers known."""

    found: Candidate
    question: Question
    precision: float  # The precision that it reaches
    cost: float  # The order among modes; lower is better


@dataclass(frozen=True)
class DesignSearch:
    """The search over the designs of a question, in its mode."""

    kind: KindDesign
    question: Question

    def best(self, **numbers: float) -> Candidate | MetricsFileError | str | None:
        """Return the best candidate without a review warning, or why there is none.

        The reason is an error in the table or the first warning; it is None if the kind has no
        design. Among equally good candidates, the first in the kind's order wins."""
        question = replace(self.question, **numbers)  # type: ignore[arg-type]
        candidates, error = self._candidates(question)
        alike, warned = list[Candidate](), None
        for candidate in sorted(candidates, key=lambda candidate: candidate.rank):
            if alike and candidate.rank > alike[0].rank + ALIKE:
                break
            name = candidate.metric.base_name
            warning = objection(with_budget(candidate.file), name, question.people, reviewed)
            if warning is None:
                alike.append(candidate)
            warned = warned or warning
        return min(alike, key=candidates.index) if alike else error or warned

    def reaches(self, target: float, **numbers: float) -> bool:
        """Return whether any design without a warning reaches the target precision."""
        best = self.best(**numbers)
        return isinstance(best, Candidate) and self._precision(best, numbers) <= target

    def solution(self, **numbers: float) -> Solution | None:
        """Return the best candidate as a solution, or None."""
        best = self.best(**numbers)
        if not isinstance(best, Candidate):
            return None
        precision = self._precision(best, numbers)
        question = replace(self.question, **numbers)  # type: ignore[arg-type]
        return Solution(best, question, precision, precision)

    def _precision(self, candidate: Candidate, numbers: Mapping[str, float]) -> float:
        question = replace(self.question, **numbers)  # type: ignore[arg-type]
        return self.kind.reached(candidate.metric, question)

    def _candidates(self, question: Question) -> tuple[list[Candidate], MetricsFileError | None]:
        """Return all candidates in the kind's order, and the first error if none is a metric."""
        candidates, refused = list[Candidate](), None
        tables = [toml_table(question.name, keys) for keys in self.tables(question)]
        for table in dict.fromkeys(tables):
            try:
                file = _parsed(table)
            except MetricsFileError as error:
                refused = refused or error
                continue
            metric = file.declared[0]
            candidates.append(Candidate(metric, table, file, self.kind.rank(metric, question)))
        return candidates, None if candidates else refused

    def tables(self, question: Question) -> Iterator[dict[str, Any]]:
        """Yield tables of `metrics.toml`; given keys win, for inline tables key by key."""
        keys = question.given
        for design in self.kind.designs(question):
            inner = {
                key: {**value, **keys[key]}
                for key, value in design.items()
                if isinstance(value, Mapping) and isinstance(keys.get(key), Mapping)
            }
            table = {**design, **keys, **inner}
            if question.mode in (None, self.kind.mode(table)):
                yield {key: table[key] for key in dict.fromkeys((*_FIRST, *table)) if key in table}


@lru_cache(maxsize=2048)
def _parsed(table: str) -> MetricsFile:
    return parse_metrics(table)


def reviewed(file: MetricsFile, population: int) -> Iterable[Finding]:
    """Return the findings of a review without attacks and without checks of the date."""
    return check_metrics(file, today=None, population=population)


def with_budget(file: MetricsFile) -> MetricsFile:
    """Return the file; if it has no budget, with one that equals its metrics' epsilon."""
    budget = file.lifetime_epsilon if file.budget is None else file.budget
    return MetricsFile(file.metrics, budget)


def objection(file: MetricsFile, name: str, population: int, review: Review) -> str | None:
    """Return the first warning about one metric or the file as a whole, or None."""
    findings = review(file, population)
    return next((f.message for f in findings if f.level != "note" and f.metric in (name, "")), None)


def complete(kind: KindDesign, question: Question) -> tuple[Question, str]:
    """Fill in the numbers that have a default, and name the number that is solved for.

    Raises:
        PlanError: More than one of target, devices and epsilon is missing.
    """
    asks = str(kind.asks)
    check_number(asks, question.target)
    table = {**kind.usual, **question.given}
    mode = table.get("mode", question.mode)
    question = kind.completed(replace(question, given=table, mode=mode))
    numbers = {asks: question.target, "devices": question.devices, "epsilon": question.epsilon}
    missing = [name for name, value in numbers.items() if value is None]
    if len(missing) > 1:
        raise PlanError(
            f"{question.name}: {' and '.join(missing)} are missing: give two of {asks}, devices "
            "and epsilon"
        )
    further = [name for name in kind.further if getattr(question, name) is None]
    solved = (missing or further or [asks])[0]
    filled = {name: _DEFAULTS[name] for name in further if name != solved}
    return replace(question, **filled), solved  # type: ignore[arg-type]


def solve(
    kind: KindDesign, question: Question, review: Review = reviewed, progress: Progress = silent
) -> tuple[str, list[tuple[Solution, str | None]]]:
    """Solve for the number that a question omits, in each mode.

    Args:
        kind: The design of the metric's kind.
        question: The question, with at most one deciding number missing.
        review: The full review of `rappor metrics check`, applied to the recommended metric.
        progress: A callback, called occasionally with (stage, done, total).

    Returns:
        The name of the number, and the solutions, each with its warning or None; the recommended
        solution is first.

    Raises:
        PlanError: There is no solution. The error suggests numbers that have a solution.
        MetricsFileError: A key is invalid for this kind of metric.
    """
    question, solved = complete(kind, question)
    solutions, refused = list[Solution](), list[str]()
    modes = [question.mode] if question.mode else _modes(kind, question)
    for number, mode in enumerate(modes):
        progress("planning", number, len(modes))
        result = _solved(DesignSearch(kind, replace(question, mode=mode)), solved)
        if isinstance(result, Solution):
            solutions.append(result)
        elif result:
            refused.append(result)
    progress("planning", len(modes), len(modes))
    if not solutions:
        raise PlanError("; ".join(dict.fromkeys(refused)) or "no design")
    solutions.sort(key=lambda item: (item.cost, item.precision))
    if len(modes) == 1:
        return solved, [(solutions[0], None)]
    warned = [(solution, _warned(solution, review)) for solution in solutions]
    warned.sort(key=lambda pair: pair[1] is not None)
    if warned[0][1] is not None:
        raise PlanError(
            f"`rappor metrics check` warns about every plan: {warned[0][1]}; use --mode "
            f"{warned[0][0].question.mode} to plan it anyway"
        )
    return solved, warned


def _warned(solution: Solution, review: Review) -> str | None:
    file = with_budget(solution.found.file)
    return objection(file, solution.question.name, solution.question.people, review)


def _modes(kind: KindDesign, question: Question) -> list[str | None]:
    unknown = {key: value for key, value in _SUPPOSED.items() if getattr(question, key) is None}
    supposed = replace(question, **unknown)  # type: ignore[arg-type]
    return list(dict.fromkeys(map(kind.mode, DesignSearch(kind, supposed).tables(supposed))))


def _solved(search: DesignSearch, solved: str) -> Solution | str:
    """Return the solution in one mode, or why there is none and how to reach the target."""
    question = search.question
    target = math.inf if question.target is None else question.target
    if solved == search.kind.asks:
        solution = search.solution()
        if solution is None or solution.precision > target or not math.isfinite(solution.precision):
            return _impossible(search, "with these numbers")
        return solution
    numbers, most = _numbers(search, solved), solved == "candidates"
    enough = bisect_left(
        numbers, True, key=lambda number: search.reaches(target, **{solved: number}) != most
    )
    place = enough - 1 if most else enough
    if not 0 <= place < len(numbers):
        return _impossible(search, f"by any {solved}", **{solved: numbers[0 if most else -1]})
    solution = search.solution(**{solved: numbers[place]})
    assert solution is not None  # noqa: S101 (the search found it)
    return replace(solution, cost=-numbers[place] if most else numbers[place])


def _numbers(search: DesignSearch, solved: str) -> list[float]:
    low, high = _LIMITS[solved]
    if solved == "epsilon":
        high = search.kind.max_epsilon(search.question)
    scale = _THOUSAND if solved == "epsilon" else 1
    numbers = (_of_three_digits(place) / scale for place in range(1, _PLACES))
    return [number for number in numbers if low <= number <= high]


def _of_three_digits(place: int) -> int:
    """Return the `place`-th whole number with at most three significant digits, from 0."""
    if place < _THOUSAND:
        return place
    power, digits = divmod(place - _THOUSAND, 900)
    return int((100 + digits) * 10 ** (power + 1))


def _impossible(search: DesignSearch, how: str, **numbers: float) -> str:
    """Explain why a target is not reached, and how to reach it."""
    question, kind = replace(search.question, **numbers), search.kind  # type: ignore[arg-type]
    best = search.best(**numbers)
    if isinstance(best, MetricsFileError):  # Independent of the mode, so reported only once
        return str(best)
    mode = "" if question.mode is None else f" in mode {question.mode!r}"
    if not isinstance(best, Candidate):
        return f"{question.name}: no plan{mode} for {about(question.people)} devices: {best}"
    why, target = kind.limit(best.metric, question), question.target
    if why or target is None:
        return why
    reached = (
        f"{kind.asks} = {target:g} is not reached {how}{mode}: with {about(question.people)} "
        f"devices and {risk_of(best.metric).for_life} you will "
        f"{kind.finding(best.metric, kind.reached(best.metric, question), question)}"
    )
    ways, usual = list[str](), search.question.epsilon or USUAL_LIFE
    original = search.question
    if original.devices is not None:
        more = _least(search, "devices", target, epsilon=usual)
        ways += [f"{about(more)} devices with epsilon {usual:g}"] if more else []
    if original.devices is not None and original.epsilon is not None:
        nats = _least(search, "epsilon", target)
        ways += [f"epsilon {nats:.3g} with these devices"] if nats else []
    would = f"{' or '.join(ways)} would reach it" if ways else "ask for less"
    return f"{reached}; {would}"


def _least(search: DesignSearch, name: str, target: float, **others: float) -> float | None:
    """Return the smallest value of number `name` that reaches a target, or None."""
    now = getattr(search.question, name)
    numbers = [number for number in _numbers(search, name) if now < number <= _MORE * now]

    def enough(number: float) -> bool:
        return search.reaches(target, **{**others, name: number})

    if not numbers or not enough(numbers[-1]):
        return None
    return numbers[bisect_left(numbers, True, key=enough)]


def about(number: float) -> str:
    """Format a number to three digits."""
    if number < _THOUSAND:
        return f"{number:.4g}"
    digits = len(f"{number:.0f}") - 3
    return f"{round(number / 10**digits) * 10**digits:,.0f}"


def toml_table(name: str, keys: Mapping[str, Any]) -> str:
    """Return the table `[metrics.NAME]` with one line per key."""
    lines = [f"[metrics.{toml_key(name)}]"]
    lines += [f"{toml_key(key)} = {toml_value(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def toml_key(name: str) -> str:
    """Return a key, quoted if necessary."""
    return name if _BARE.fullmatch(name) else json.dumps(name)


def toml_value(value: Any) -> str:
    """Format text, numbers, dates, lists and inline tables as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        parts = ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {parts} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return f"{value!r}"
