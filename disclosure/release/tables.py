"""The tables of a release, before and after the policy, with rounded estimates and intervals.

A table has one metric, one stratum and one window; its rows are values, or cells of a map. Numbers
are rounded to the nearest multiple of a decimal step, interval ends outward. A rounded
number is the float nearest to the multiple, so it contains no low bits of the original."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, with_config

from disclosure.errors import TableError
from disclosure.files import LENIENT
from disclosure.typing import Booleans, Floats, Strata
from rappor_core.errors import shown

TableKey: TypeAlias = tuple[str, Strata, date, date]
NUMBERS = ("estimate", "std_error", "low", "high")  # columns of a table
MAX_REPORTS = 10**15  # of a table; exact in every format
_SINGLE = 1e-6  # files of decodings have seven digits
_FAR = 10  # standard errors, beyond any random deviation
_MAX_ERROR = 100  # the error of a share; not reached even with few reports and an epsilon near 0
PARTITION = "between"  # a stratum that divides values, not people: flows between zones or cells


def round_nearest(values: Floats, step: Decimal) -> Floats:
    """Return the nearest multiples of `step`, with ties to even; NaN stays NaN."""
    return _multiples(np.rint(values / float(step)), step)


def round_down(values: Floats, step: Decimal) -> Floats:
    """Return the largest multiples of `step` that are not above; multiples do not change."""
    near = np.rint(values / float(step))
    below = np.where(_multiples(near, step) <= values, near, near - 1)
    return _multiples(below, step)


def round_up(values: Floats, step: Decimal) -> Floats:
    """Return the smallest multiples of `step` that are not below; multiples do not change."""
    above: Floats = 0.0 - round_down(0.0 - values, step)
    return above


def decimals(step: Decimal) -> int:
    """Return the number of digits after the point of every multiple of a step."""
    exponent = step.normalize().as_tuple().exponent
    return max(0, -int(exponent))


def _multiples(counts: Floats, step: Decimal) -> Floats:
    """Return counts * step, correctly rounded: the step is a whole number over a power of ten."""
    places = decimals(step)
    whole = float(step.scaleb(places))
    multiples: Floats = counts * whole / 10.0**places + 0.0
    return multiples


def numbers_or_none(values: Floats) -> list[float | None]:
    """Return the numbers of a column, with None for NaN."""
    return [None if value != value else value for value in values.tolist()]


def _floats(values: Any) -> Floats:
    if not isinstance(values, list) or not all(type(v) in (int, float, type(None)) for v in values):
        raise ValueError("a list of numbers and nulls is needed")
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def stratum_key(strata: Mapping[str, str]) -> Strata:
    """Return the strata as pairs of name and value, sorted by name."""
    return tuple(sorted(strata.items()))


def _pairs(strata: Any) -> Any:
    return stratum_key(strata) if isinstance(strata, dict) else strata


# The formats of number columns and strata in release.json.
_Numbers = Annotated[Floats, PlainValidator(_floats), PlainSerializer(numbers_or_none)]
_Strata = Annotated[Strata, BeforeValidator(_pairs), PlainSerializer(dict)]


class InRows(NamedTuple):
    """The publication of a metric as synthetic rows, from a first to a last day."""

    metric: str
    first_day: date
    last_day: date

    def meets(self, metric: str, first: date, last: date) -> bool:
        """Return whether this publication contains the metric on any day of the window."""
        return metric == self.metric and first <= self.last_day and self.first_day <= last


@dataclass(frozen=True)
class KeyedTable:
    """The identity of a table: metric, stratum and window."""

    metric: str
    strata: _Strata  # Name and value of each stratum of the reports, sorted by name
    first_day: date
    last_day: date

    @property
    def key(self) -> TableKey:
        """The identity of the same table in other releases."""
        return self.metric, self.strata, self.first_day, self.last_day

    @property
    def name(self) -> str:
        """The name of the table in messages and headings."""
        return table_name(self.key)


@dataclass(frozen=True)
class CellTable(KeyedTable):
    """Decoded estimates before a policy is applied. Arrays are (n,), shares are fractions of 1.

    Raises TableError, with the table, the cell and its numbers, if invalid. A rare string that is
    not shown is not listed, because its name alone may reveal something about a person."""

    num_reports: int
    cells: Sequence[str]  # Distinct values
    estimate: Floats
    std_error: Floats
    low: Floats
    high: Floats
    detected: Booleans  # Tested to be above zero, corrected for the number of tests
    complete: bool = False  # The cells cover everyone, so their shares sum to 1
    level: float = 0.95  # The level of the intervals
    max_correlation: float = 1.0  # Bound on the correlation of two estimates
    listed: bool = True  # Whether a cell that is not shown is listed with a symbol
    shapes: Mapping[str, Any] = field(default_factory=dict)  # GeoJSON geometries of cells
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # Cells by merged cell
    unbiased: Floats | None = None  # Summable estimates if `estimate` is shrunken

    def __post_init__(self) -> None:
        ends = {"lower end": self.low, "upper end": self.high}
        columns = self._estimates | {"standard error": self.std_error} | ends
        arrays = [*columns.values(), self.detected]
        if any(np.shape(array) != (len(self.cells),) for array in arrays):
            raise TableError(f"{self.name}: its columns have different lengths")
        if len(set(self.cells)) != len(self.cells):
            raise TableError(f"{self.name}: a cell appears twice")
        if not 0 <= self.num_reports <= MAX_REPORTS:
            raise TableError(
                f"{self.name}: {shown(self.num_reports)} reports are not in 0 to {MAX_REPORTS}"
            )
        if self.first_day > self.last_day:
            raise TableError(f"{self.name}: its first day is after its last")
        if not 0 < self.level < 1:
            raise TableError(f"{self.name}: level = {self.level} must lie in (0, 1)")
        if list(self.strata) != sorted(dict(self.strata).items()):
            raise TableError(f"{self.name}: strata must be sorted, each named once")
        for name, values in columns.items():
            self._check(np.isfinite(values), f"{name} {{}} is not finite", values)
        self._check_intervals()

    @property
    def _estimates(self) -> dict[str, Floats]:
        more = {} if self.unbiased is None else {"unbiased estimate": self.unbiased}
        return {"estimate": self.estimate} | more

    def _check_intervals(self) -> None:
        """Check that intervals contain their estimates, clipped to [0, 1] as the ends may be."""
        low, high, error = self.low, self.high, self.std_error
        self._check(low <= high, "the interval {} to {} has its ends swapped", low, high)
        share = self.estimate if self.unbiased is None else self.unbiased
        # Without noise, the share of a value that no one or everyone has is known exactly.
        exact = (error == 0) & ((share <= 0) | (share >= 1))
        self._check((error > 0) | exact, "standard error {} is not above 0", error)
        least, most = low.clip(0, 1) - _SINGLE, high.clip(0, 1) + _SINGLE
        for name, values in self._estimates.items():
            inside = (least <= values.clip(0, 1)) & (values.clip(0, 1) <= most)
            reason = f"{name} {{}} lies outside its interval, {{}} to {{}}"
            self._check(inside, reason, values, low, high)

    def check_shares(self) -> None:
        """Raise TableError if estimates are farther outside [0, 1] than chance explains.

        For hidden cells, which may be outside because counts do not fit the parameters, only
        extreme estimates are rejected. Do not use this for a table with the sum of its cells, which
        may each have been clipped at 0."""
        error, chance = self.std_error, _FAR * self.std_error
        for name, values in self._estimates.items():
            outside = np.abs(values - values.clip(0, 1))
            reason = f"{name} {{}} with standard error {{}} is no share of the reports"
            self._check(outside <= np.maximum(chance, 1), reason, values, error)
        may_be_shown = self.detected & (self.low > 0)
        good = (self.estimate <= 1 + chance) & (error <= _MAX_ERROR)
        reason = "estimate {} with standard error {} is no share of the reports"
        self._check(good | ~may_be_shown, reason, self.estimate, error)

    def _check(self, good: Booleans, reason: str, *numbers: Floats) -> None:
        """Raise TableError for the first cell that is not `good`; `reason` shows its `numbers`."""
        bad = np.flatnonzero(~good)
        if len(bad):
            first = int(bad[0])
            why = reason.format(*(f"{values[first]:g}" for values in numbers))
            raise TableError(f"{self.name}: {shown(self.cells[first])}: {why}")


class Row(NamedTuple):
    """A row of a released table; numbers are NaN if there is a symbol."""

    kind: str
    estimate: float
    std_error: float
    low: float
    high: float
    symbol: str  # "" if the numbers are shown


@with_config(LENIENT)
@dataclass(frozen=True)
class ReleasedTable(KeyedTable):
    """A table of a release. Arrays are (n,), with NaN where there is a symbol."""

    reports: int | None  # Rounded down; None if the whole table is withheld
    level: float
    cells: tuple[str, ...]
    # `cell`, `merged` (of `members`) or `total` (of all cells, shown or not)
    kinds: tuple[str, ...]
    estimate: _Numbers
    std_error: _Numbers
    low: _Numbers
    high: _Numbers
    symbols: tuple[str, ...]  # "" if the numbers are shown
    complete: bool = False  # As in `CellTable`
    withheld: str = ""  # The symbol of the whole table, or ""
    shapes: Annotated[Mapping[str, Any], Field(exclude=True)] = field(default_factory=dict)
    # The members of each merged cell, if all cells are listed
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)  # Number of cells in each merged cell

    def __post_init__(self) -> None:
        columns = (self.kinds, self.symbols, *(getattr(self, name) for name in NUMBERS))
        if any(len(column) != len(self.cells) for column in columns):
            raise TableError(f"{self.name}: its columns have different lengths")

    @property
    def is_shown(self) -> Booleans:
        """Flags of the rows with numbers, (n,)."""
        return np.array([not symbol for symbol in self.symbols], dtype=bool)

    def rows(self) -> dict[str, Row]:
        """Return the rows by cell."""
        numbers = (getattr(self, name).tolist() for name in NUMBERS)
        rows = map(Row, self.kinds, *numbers, self.symbols)
        return dict(zip(self.cells, rows, strict=True))

    def with_rows(self, rows: Mapping[str, Row], **changes: Any) -> "ReleasedTable":
        """Return a copy of the table with these rows (by cell), and with changed fields."""
        kinds, *numbers, symbols = zip(*rows.values(), strict=True) if rows else ((),) * 6
        columns: dict[str, Any] = {
            name: np.array(values, dtype=float)
            for name, values in zip(NUMBERS, numbers, strict=True)
        }
        return replace(self, cells=tuple(rows), kinds=kinds, symbols=symbols, **(columns | changes))


def table_name(key: TableKey) -> str:
    """Return the metric, strata and window of a table in one line that is safe for terminals."""
    metric, strata, first, last = key
    parts = [metric, *(f"{name}={value}" for name, value in strata), f"{first} to {last}"]
    return ", ".join(shown(part)[1:-1] for part in parts)
