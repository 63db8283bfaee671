"""The base class of a metric kind's review and plans (`KindDesign`), and a plan's `Question`.

To add a kind, write a subclass of `KindDesign`, its instance, and a line in `DESIGNS`. Devices do
not use this module."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from decoder.errors import PlanError
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.validation import APP, WEB, Platform

if TYPE_CHECKING:
    from metric_design.population import ExpectedShares

Level = Literal["error", "warning", "note"]

MAX_EPSILON = 10.0  # Nats per lifetime, at which a probability of 1 % may become 99.5 %
DEFAULT_CANDIDATES = 1_000
_SIGNIFICANT = 4  # Significant digits of a design's epsilon, rounded down
_RANGES: dict[str, tuple[float, float]] = {
    "share": (1e-9, 1),
    "error": (1e-9, 1e13),
    "devices": (1, 1e12),
    "candidates": (1, 1e9),
    "periods": (1, 1e6),
    "values": (1, 10_000),
    "epsilon": (1e-4, 1e5),
}


@dataclass(frozen=True)
class Question:
    """The question that a plan answers about a metric; an unknown number is None.

    Raises PlanError, with the bad value, if a number is invalid.

    Attributes:
        name: The name of the metric.
        given: The keys of its table in `metrics.toml` that are already decided.
        target: The target precision, in the unit of its kind.
        devices: The number of devices that report.
        epsilon: The nats per device lifetime, over all lifetimes of a browser's storage.
        periods: The number of periods decoded together, or of periods that need a map each.
        candidates: The number of candidates on a list.
        values: The number of listed values that a device may hold in its lifetime.
        expected: The shares of a list's values; None for Zipf's law.
        mode: The only mode to search; None for all.
    """

    name: str
    given: Mapping[str, Any]
    target: float | None = None
    devices: float | None = None
    epsilon: float | None = None
    periods: float | None = None
    candidates: float | None = None
    values: int | None = None
    expected: ExpectedShares | None = None
    mode: str | None = None

    def __post_init__(self) -> None:
        for name in ("devices", "candidates", "periods", "values", "epsilon"):
            check_number(name, getattr(self, name))

    @property
    def platforms(self) -> tuple[Platform, ...]:
        """Return the given platforms without unknown ones, or an app if none are given."""
        names = self.given.get("platforms", [APP])
        return tuple(p for p in (APP, WEB) if isinstance(names, list) and p in names)

    @property
    def lives(self) -> int:
        """Return the number of browser storage lifetimes that the budget covers, 1 by default."""
        lives = self.given.get("lives")
        return lives if WEB in self.platforms and isinstance(lives, int) and lives > 0 else 1

    @property
    def life(self) -> float:
        """Return the nats of one lifetime of the storage, rounded down."""
        return rounded_down((self.epsilon or MAX_EPSILON) / self.lives)

    @property
    def people(self) -> int:
        """Return the number of devices as a whole number."""
        return int(self.devices or 1)

    @property
    def listed(self) -> int:
        """Return the number of candidates."""
        return int(self.candidates or DEFAULT_CANDIDATES)

    @property
    def together(self) -> int:
        """Return the number of periods."""
        return int(self.periods or 1)

    def whole_of(self, key: str, default: int) -> int:
        """Return a given whole number above 0, or the default.

        The metric's reader reports an invalid number."""
        value = self.given.get(key)
        return value if type(value) is int and value > 0 else default

    def length_of(self, key: str) -> int:
        """Return the length of a given list, or 1 if the metric's reader will reject it."""
        value = self.given.get(key)
        return len(value) if isinstance(value, list | tuple) and value else 1


def check_number(name: str, value: object) -> None:
    """Check a number of a question unless it is None. Raises PlanError if invalid."""
    if value is None:
        return
    least, most = _RANGES[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # type: ignore[operator]
        text = f"{value:g}" if isinstance(value, float) else repr(value)
        raise PlanError(f"{name} = {text} is not from {least:g} to {most:g}")
    if name in ("devices", "candidates", "periods", "values") and value != int(value):  # type: ignore[call-overload]
        raise PlanError(f"{name} = {value:g} is not a whole number")


class KindDesign:
    """The stateless base class for the review and the plans of one metric kind.

    A kind is planned if `asks` is set. Its planning methods may load numerical libraries, which the
    review does not need.

    Attributes:
        asks: How a question states the target precision; None if the kind is not planned.
        options: The numbers in a question that the kind uses, except devices and epsilon.
        further: The numbers among `options` that a plan solves for if all others are known.
        usual: The default keys of `metrics.toml`.
    """

    asks: Literal["error", "share"] | None = None
    options: tuple[str, ...] = ()
    further: tuple[str, ...] = ()
    usual: ClassVar[Mapping[str, Any]] = {}

    def findings(self, metric: Metric, population: int | None) -> Iterator[tuple[Level, str]]:  # noqa: ARG002
        """Yield levels and messages for `rappor metrics check`.

        `population` is the number of devices that report in a period, if known."""
        return iter(())

    def completed(self, question: Question) -> Question:
        """Validate a complete question and fill in derived values. Raises PlanError if invalid."""
        return question

    def designs(self, question: Question) -> Iterator[Mapping[str, Any]]:
        """Yield candidate tables for `metrics.toml`; among equally precise ones, the first wins.

        `question` has devices and an epsilon, and its given keys include the usual ones."""
        raise NotImplementedError

    def mode(self, table: Mapping[str, Any]) -> str | None:
        """Return the mode of a design, or None if the kind has no modes."""
        return table.get("mode")

    def precision(self, metric: Metric, devices: float) -> float:
        """Predict the metric's error in the unit of `asks`; lower is better.

        `rappor metrics check` and plans use the same prediction."""
        raise NotImplementedError

    def reached(self, metric: Metric, question: Question) -> float:
        """Return the precision that a metric reaches with a question's numbers; inf if none."""
        return self.precision(metric, question.devices or 1)

    def rank(self, metric: Metric, question: Question) -> float:
        """Return the number that the best design minimizes: roughly the log of its precision."""
        return math.log(self.reached(metric, question))

    def max_epsilon(self, question: Question) -> float:  # noqa: ARG002
        """Return the largest epsilon per lifetime to try, in nats."""
        return MAX_EPSILON

    def finding(self, metric: Metric, precision: float, question: Question) -> str:
        """Describe an analyst's results at a precision, as text that follows "you will"."""
        raise NotImplementedError

    def supposed(self, metric: Metric, question: Question) -> str:
        """Describe the assumed shape of the data, as text that follows "Supposed:"."""
        raise NotImplementedError

    def limit(self, metric: Metric, question: Question) -> str:  # noqa: ARG002
        """Explain what bounds the precision of a metric; "" if only the question's numbers do."""
        return ""


DESIGNS = {  # Kind: the import path of its instance, which is loaded on first use
    "string": "metric_design.list_design:LISTED",
    "category": "metric_design.list_design:LISTED",
    "boolean": "metric_design.list_design:LISTED",
    "number": "metric_design.number_kind:NUMBER",
    "pair": "metric_design.pair_kind:PAIR",
    "discover": "metric_design.discover_kind:DISCOVER",
    "location": "metric_design.location_kind:LOCATION",
    "flow": "metric_design.flow_kind:FLOW",
}


def kind_design(name: str) -> KindDesign:
    """Return the design of a kind, or an empty design for a kind without an entry."""
    if name not in DESIGNS:
        return KindDesign()
    module, _, instance = DESIGNS[name].partition(":")
    design: KindDesign = getattr(import_module(module), instance)
    return design


def rounded_down(value: float) -> float:
    """Round down to four digits, so that the declared and computed numbers are equal."""
    scale = 10.0 ** (_SIGNIFICANT - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale + 1e-9) / scale
