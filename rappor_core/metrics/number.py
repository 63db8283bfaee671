"""`Number`: the declared settings of a metric of kind `number`. Public and immutable.

Each cohort has one or a few public thresholds on the number line. Its devices report on which side
of the threshold, or between which thresholds, their number for the period lies.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

from rappor_core.errors import ParameterError, shown
from rappor_core.frozen import Frozen

OfPeriod = Literal["sum", "count", "mean", "median", "max", "last"]
Scale = Literal["linear", "log", "list"]
Ask = Literal["edges", "mean"]
NoData = Literal["apart", "zero"]
NumberMode = Literal["memo", "once"]

MAX_EDGES = 1_000
LARGEST = float(1 << 53)  # the largest absolute value of an edge
MAX_SPREAD = 1_000
NO_CUT = -math.inf  # the question "is there any data?", a threshold below every number


class Number(Frozen):
    """The settings that convert a number to one of g symbols.

    Raises ParameterError, which repeats the bad value.
    """

    unit: str  # the unit, for display
    # The statistic that a device computes from the numbers recorded in a period.
    of_period: OfPeriod
    # The edges, increasing (and whole if numbers are); for `ask = "mean"`, the ends of the strata.
    edges: tuple[float, ...]
    scale: Scale  # how the edges were declared; with `log`, means are means of logarithms
    whole: bool  # whether numbers are whole
    # `edges` (each cohort compares the number with one of them) or `mean` (each device compares it
    # with its own constant within a stratum, which makes means unbiased).
    ask: Ask
    # How a period without data counts: as a separate answer (`apart`) or as the number 0 (`zero`).
    none: NoData
    # `memo` (a report for each period, from at most two memoized answers) or `once` (one fresh
    # answer over the device's lifetime).
    mode: NumberMode
    # The number of periods over which devices spread their report in mode `once`, else 1.
    spread: int = 1

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ParameterError(
                    f"{name} = {shown(getattr(self, name))} is not one of {', '.join(choices)}"
                )
        if type(self.unit) is not str or not self.unit.strip() or len(self.unit) > 40:
            raise ParameterError(f"unit = {shown(self.unit)} is not a text of 1 to 40 characters")
        if type(self.whole) is not bool:
            raise ParameterError(f"whole = {shown(self.whole)} is not true or false")
        self._check_edges()
        self._check_together()

    def _check_edges(self) -> None:
        edges = self.edges
        if not 1 <= len(edges) <= MAX_EDGES or any(type(edge) is not float for edge in edges):
            raise ParameterError(f"edges = {shown(edges)} are not 1 to {MAX_EDGES:,} numbers")
        check_rising(edges)
        for edge in edges:
            if self.whole and self.ask == "edges" and not edge.is_integer():
                raise ParameterError(f"edge {edge!r} is not whole, and whole = true")

    def _check_together(self) -> None:
        longest = MAX_SPREAD if self.mode == "once" else 1
        if type(self.spread) is not int or not 1 <= self.spread <= longest:
            raise ParameterError(
                f"spread = {self.spread!r}: mode 'once' takes 1 to {MAX_SPREAD:,} periods, mode "
                "'memo' has none"
            )
        if not self.asked:
            raise ParameterError(
                f"edges = {list(self.edges)} ask nothing: all numbers are 0 or more"
            )
        if self.of_period == "mean" and self.whole:
            raise ParameterError("whole = true does not go with of_period = 'mean'")
        if self.of_period == "count" and not self.whole:
            raise ParameterError("of_period = 'count' needs whole = true: counts are whole")
        if self.ask == "mean" and (self.scale == "list" or len(self.edges) < 2):
            raise ParameterError("ask = 'mean' needs strata of one width: scale linear or log")
        if self.scale == "log" and self.edges[0] <= 0:
            raise ParameterError(f"edge {self.edges[0]!r}: a scale of logarithms begins above 0")

    @property
    def negative(self) -> bool:
        """Return whether numbers below 0 are valid, which is so if an edge is below 0."""
        return self.edges[0] < 0

    @property
    def questions(self) -> tuple[float, ...]:
        """Return all thresholds, increasing: the edges, after NO_CUT if `none` is `apart`.

        For `ask = "mean"` these are the lower ends of the strata; the last edge is a separate
        threshold without jitter.
        """
        return (NO_CUT, *self.edges) if self.none == "apart" else self.edges

    @property
    def asked(self) -> tuple[float, ...]:
        """Return `questions` without the lowest edge if every number reaches it.

        This is so if the lowest edge is 0, because numbers are then not negative.
        """
        questions = self.questions
        certain = 1 if self.none == "apart" else 0
        if self.ask == "edges" and questions[certain] == 0:
            return questions[:certain] + questions[certain + 1 :]
        return questions

    def stride(self, num_symbols: int) -> int:
        """Return the number of distinct threshold sets; cohort c has set c modulo this number."""
        return -(-len(self.asked) // (num_symbols - 1))

    def cuts(self, cohort: int, num_symbols: int) -> range:
        """Return which of the thresholds in `asked` a cohort's devices use.

        Args:
            cohort: The cohort, from 0.
            num_symbols: The number of symbols g.

        Returns:
            The g - 1 or g - 2 indices in `asked`, in increasing order.
        """
        stride = self.stride(num_symbols)
        return range(cohort % stride, len(self.asked), stride)

    def thresholds(self, cohort: int, num_symbols: int, jitter: float = 0.0) -> list[float]:
        """Return the thresholds with which a device in a cohort compares its number.

        Args:
            cohort: The cohort, from 0.
            num_symbols: The number of symbols g.
            jitter: The device's constant, in [0, 1). Private.

        Returns:
            The thresholds, increasing, in the metric's unit. Private if jittered.
        """
        all_cuts = self.asked
        cuts = [all_cuts[question] for question in self.cuts(cohort, num_symbols)]
        return cuts if self.ask == "edges" else [self._jittered(cut, jitter) for cut in cuts]

    def _jittered(self, cut: float, jitter: float) -> float:
        """Shift a stratum's lower end by a fraction of its width (logarithmic on a log scale)."""
        if cut in (NO_CUT, self.edges[-1]):
            return cut
        upper = self.edges[self.edges.index(cut) + 1]
        if self.scale == "log":
            low, high = math.log(cut), math.log(upper)
            return math.exp(low + jitter * (high - low))
        return cut + jitter * (upper - cut)

    def symbol(
        self, number: float | None, cohort: int, num_symbols: int, jitter: float = 0.0
    ) -> int:
        """Return how many of a device's thresholds are at or below a number.

        Args:
            number: The number in the metric's unit, or None for no data. Private.
            cohort: The cohort, from 0.
            num_symbols: The number of symbols g.
            jitter: The device's constant, in [0, 1). Private.

        Returns:
            The symbol, 0 to g - 1. Private.
        """
        if number is None:
            if self.none == "apart":
                return 0
            number = 0.0
        return bisect_right(self.thresholds(cohort, num_symbols, jitter), number)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values; `from_dict` reads them."""
        return {**self.to_fields(), "edges": list(self.edges)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Number:
        """Read the plain values that `to_dict` returns. Raises ParameterError if invalid."""
        if fields.keys() != set(cls.field_names):
            raise ParameterError(f"a number has unknown or missing keys: {sorted(fields)}")
        return cls(**{**fields, "edges": as_edges(fields["edges"])})


_CHOICES = {
    "of_period": get_args(OfPeriod),
    "scale": get_args(Scale),
    "ask": get_args(Ask),
    "none": get_args(NoData),
    "mode": get_args(NumberMode),
}


def as_edges(numbers: object) -> tuple[float, ...]:
    """Return a list of numbers as floats. Raises ParameterError if it is not such a list."""
    if not isinstance(numbers, list) or not all(type(n) in (int, float) for n in numbers):
        raise ParameterError(f"edges = {shown(numbers)} is not a list of numbers")
    try:
        return tuple(float(number) + 0.0 for number in numbers)  # turns -0.0 into 0.0
    except OverflowError:
        raise ParameterError(f"edges = {shown(numbers)} is not a list of doubles") from None


def check_rising(edges: Sequence[float]) -> None:
    """Require edges that are finite, within +-2^53 and increasing. Raises ParameterError."""
    for edge in edges:
        if not abs(edge) <= LARGEST:
            raise ParameterError(f"edge {edge!r} is not a number of at most 2^53")
    for low, high in pairwise(edges):
        if low >= high:
            raise ParameterError(f"edges must rise: {low!r} comes before {high!r}")


def made_edges(scale: str, first: float, last: float, bins: int) -> tuple[float, ...]:
    """Return the `bins` + 1 edges of a linear or logarithmic scale, from `first` to `last`.

    Logarithmic edges are rounded to six significant digits, so that they are equal on every
    computer.
    """
    steps: Sequence[float]
    if scale == "log":
        ratio = last / first
        steps = [float(f"{first * ratio ** (i / bins):.6g}") for i in range(bins + 1)]
    else:
        steps = [first + i * (last - first) / bins for i in range(bins + 1)]
    return (first, *steps[1:-1], last)


def whole_edges(edges: Sequence[float]) -> tuple[float, ...]:
    """Round edges up and drop duplicates, which changes no comparison with a whole number."""
    return tuple(dict.fromkeys(float(math.ceil(edge)) for edge in edges))
