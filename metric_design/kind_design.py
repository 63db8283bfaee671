"""`KindDesign`: the metrics of one kind before they ship; and `Question`, what a plan is asked.

A new kind is a subclass of `KindDesign`, its instance, and a line in `DESIGNS`. None of it is
needed on a device.
"""

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

MAX_EPSILON = 10.0  # nats of a life above which 1 % likely may become 99.5 %
DEFAULT_CANDIDATES = 1_000
_SIGNIFICANT = 4  # digits of an epsilon of a design, rounded down
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
    """What a plan is asked of a metric. None: not known, and perhaps solved for.

    name: of the metric.  given: keys of its table in `metrics.toml` that are decided.
    target: the precision wanted, in the unit of its kind.  devices: that report.
    epsilon: nats for life, over all lives of a browser's storage.
    periods: decoded together, or of which a map each is wanted.  candidates: looked for in a list.
    values: of a list that a device may hold for life.
    expected: shares of the values of a list; None: by Zipf's law.
    mode: in which designs are looked for; None for each.

    Raises PlanError with the bad value.
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
        """Check each number alone."""
        for name in ("devices", "candidates", "periods", "values", "epsilon"):
            check_number(name, getattr(self, name))

    @property
    def platforms(self) -> tuple[Platform, ...]:
        """Those that are given, without unknown ones; of a table that does not say, an app."""
        names = self.given.get("platforms", [APP])
        return tuple(p for p in (APP, WEB) if isinstance(names, list) and p in names)

    @property
    def lives(self) -> int:
        """Lives of a browser's storage over which the budget is counted; 1 if none are declared."""
        lives = self.given.get("lives")
        return lives if WEB in self.platforms and isinstance(lives, int) and lives > 0 else 1

    @property
    def life(self) -> float:
        """Nats of one life of the storage, rounded down."""
        return rounded_down((self.epsilon or MAX_EPSILON) / self.lives)

    @property
    def people(self) -> int:
        """Devices as a whole number."""
        return int(self.devices or 1)

    @property
    def listed(self) -> int:
        """Number of candidates."""
        return int(self.candidates or DEFAULT_CANDIDATES)

    @property
    def together(self) -> int:
        """Number of periods."""
        return int(self.periods or 1)

    def whole_of(self, key: str, default: int) -> int:
        """Return a whole number above 0 that is given, else the default.

        The metric's reader refuses an invalid number, and names it.
        """
        value = self.given.get(key)
        return value if type(value) is int and value > 0 else default

    def length_of(self, key: str) -> int:
        """Return the length of a list that is given; 1 if the metric's reader will refuse it."""
        value = self.given.get(key)
        return len(value) if isinstance(value, list | tuple) and value else 1


def check_number(name: str, value: object) -> None:
    """Check a number of a question; None is not checked. Raises PlanError."""
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
    """The review and the plans of the metrics of one kind. Without state.

    A kind is planned if `asks` is set. Its planning methods may load numerical libraries, which the
    review does without.

    asks: how a question states the precision wanted; None if the kind is not planned.
    options: numbers of a question that the kind has a use for, alongside devices and epsilon.
    further: those of them that are solved for where all else is known.
    usual: keys of `metrics.toml` where a question does not say.
    """

    asks: Literal["error", "share"] | None = None
    options: tuple[str, ...] = ()
    further: tuple[str, ...] = ()
    usual: ClassVar[Mapping[str, Any]] = {}

    def findings(self, metric: Metric, population: int | None) -> Iterator[tuple[Level, str]]:  # noqa: ARG002
        """Levels and messages for `rappor metrics check`.

        population: devices that report in a period, where it is known.
        """
        return iter(())

    def completed(self, question: Question) -> Question:
        """Check a question together, and fill in what follows from it. Raises PlanError."""
        return question

    def designs(self, question: Question) -> Iterator[Mapping[str, Any]]:
        """Yield ways to fill in a table of `metrics.toml`; the first of equally precise ones wins.

        question: with devices and an epsilon, and the usual keys among those given.
        """
        raise NotImplementedError

    def mode(self, table: Mapping[str, Any]) -> str | None:
        """Return the mode of a design; None if the kind has none."""
        return table.get("mode")

    def precision(self, metric: Metric, devices: float) -> float:
        """Predict the metric's error, in the unit of `asks`; less is better.

        This is the predictor of `rappor metrics check`: a plan uses the same.
        """
        raise NotImplementedError

    def reached(self, metric: Metric, question: Question) -> float:
        """The precision with the numbers of a question; infinite where nothing is detected."""
        return self.precision(metric, question.devices or 1)

    def rank(self, metric: Metric, question: Question) -> float:
        """What the best design has least of: the logarithm of its precision, or about that."""
        return math.log(self.reached(metric, question))

    def max_epsilon(self, question: Question) -> float:  # noqa: ARG002
        """Return the largest epsilon of a life that is tried, in nats."""
        return MAX_EPSILON

    def finding(self, metric: Metric, precision: float, question: Question) -> str:
        """Say what an analyst finds at a precision, as words that follow "you will"."""
        raise NotImplementedError

    def supposed(self, metric: Metric, question: Question) -> str:
        """Name the shape of the data for which the error is predicted, to follow "Supposed:"."""
        raise NotImplementedError

    def limit(self, metric: Metric, question: Question) -> str:  # noqa: ARG002
        """Say what bounds the precision of a metric; "" if only the numbers do."""
        return ""


DESIGNS = {  # kind: where its instance is, loaded when it is first asked for
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
    """Return what is reviewed and planned of a kind; nothing for a kind without an entry."""
    if name not in DESIGNS:
        return KindDesign()
    module, _, instance = DESIGNS[name].partition(":")
    design: KindDesign = getattr(import_module(module), instance)
    return design


def rounded_down(value: float) -> float:
    """Round down to a few digits, so that the declared number is the one that counts."""
    scale = 10.0 ** (_SIGNIFICANT - 1 - math.floor(math.log10(value)))
    return math.floor(value * scale + 1e-9) / scale
