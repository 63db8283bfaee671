"""Tables of a release, before and after the policy: cells with estimates and intervals, rounded.

A table is of one metric, one stratum and one window; its rows are values, or cells of a map.
Numbers are rounded to the nearest multiple of a decimal step, ends of an interval outwards. A
rounded number is the multiple itself, as near as a float can be: the last bits of the number that
was rounded are not in it.
"""

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
MAX_REPORTS = 10**15  # of a table, which numbers of every format hold
_SINGLE = 1e-6  # files of decodings have seven digits
_FAR = 10  # standard errors: further off than chance takes an estimate
_MAX_ERROR = 100  # of a share, which few reports and an epsilon near 0 do not reach
PARTITION = "between"  # a stratum that divides values, not people: flows between zones or cells


def round_nearest(values: Floats, step: Decimal) -> Floats:
    """Return the nearest multiple of `step`, ties to even ones. NaN stays NaN."""
    return _multiples(np.rint(values / float(step)), step)


def round_down(values: Floats, step: Decimal) -> Floats:
    """Return the largest multiple of `step` that is not above. A multiple stays as it is."""
    near = np.rint(values / float(step))
    below = np.where(_multiples(near, step) <= values, near, near - 1)
    return _multiples(below, step)


def round_up(values: Floats, step: Decimal) -> Floats:
    """Return the smallest multiple of `step` that is not below. A multiple stays as it is."""
    above: Floats = 0.0 - round_down(0.0 - values, step)
    return above


def decimals(step: Decimal) -> int:
    """Return the number of digits after the point of every multiple of a step."""
    exponent = step.normalize().as_tuple().exponent
    return max(0, -int(exponent))


def _multiples(counts: Floats, step: Decimal) -> Floats:
    """counts * step, correctly rounded: the step is a whole number over a power of ten."""
    places = decimals(step)
    whole = float(step.scaleb(places))
    multiples: Floats = counts * whole / 10.0**places + 0.0
    return multiples


def numbers_or_none(values: Floats) -> list[float | None]:
    """Return the numbers of a column, None where it has none."""
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


# How columns of numbers, and strata, are written in release.json.
_Numbers = Annotated[Floats, PlainValidator(_floats), PlainSerializer(numbers_or_none)]
_Strata = Annotated[Strata, BeforeValidator(_pairs), PlainSerializer(dict)]


class InRows(NamedTuple):
    """A publication as synthetic rows: of a metric, from a first to a last day."""

    metric: str
    first_day: date
    last_day: date

    def meets(self, metric: str, first: date, last: date) -> bool:
        """Return whether this publication is of the given metric and shares a day with the given
        window."""
        return metric == self.metric and first <= self.last_day and self.first_day <= last


@dataclass(frozen=True)
class KeyedTable:
    """The identity of a table: metric, stratum and window.

    strata: name and value of each stratum that the reports were split by, sorted by name.
    """

    metric: str
    strata: _Strata
    first_day: date
    last_day: date

    @property
    def key(self) -> TableKey:
        """The identity by which the same table is found in other releases."""
        return self.metric, self.strata, self.first_day, self.last_day

    @property
    def name(self) -> str:
        """Name of the table in messages and headings."""
        return table_name(self.key)


@dataclass(frozen=True)
class CellTable(KeyedTable):
    """Decoded estimates, as they are before a policy is applied. Arrays are (n,), shares of 1.

    cells: distinct values.  detected: tested to be above zero, corrected for how many were tried.
    complete: whether the cells hold everybody, so that their shares are known to add up to 1.
    level: of the intervals.  max_correlation: bound on the correlation of two estimates.
    listed: whether a cell that is not shown is listed, with a symbol; a rare string is not, as its
    name alone may reveal about somebody.
    shapes: GeoJSON geometry of cells, where they have a place.
    members: cells that a merged one holds.
    unbiased: estimates that may be added up, where `estimate` is shrunken; None: `estimate`.
    """

    num_reports: int
    cells: Sequence[str]
    estimate: Floats
    std_error: Floats
    low: Floats
    high: Floats
    detected: Booleans
    complete: bool = False
    level: float = 0.95
    max_correlation: float = 1.0
    listed: bool = True
    shapes: Mapping[str, Any] = field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unbiased: Floats | None = None

    def __post_init__(self) -> None:
        """Check. Raises TableError that names the table, the cell and its numbers."""
        ends = {"lower end": self.low, "upper end": self.high}
        columns = self._estimates | {"standard error": self.std_error} | ends
        arrays = [*columns.values(), self.detected]
        if any(np.shape(array) != (len(self.cells),) for array in arrays):
            raise TableError(f"{self.name}: columns of several lengths")
        if len(set(self.cells)) != len(self.cells):
            raise TableError(f"{self.name}: a cell appears twice")
        if not 0 <= self.num_reports <= MAX_REPORTS:
            raise TableError(
                f"{self.name}: {shown(self.num_reports)} reports, where 0 to {MAX_REPORTS} can be"
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
        """What is shown, and what is added up, by what they are called."""
        more = {} if self.unbiased is None else {"unbiased estimate": self.unbiased}
        return {"estimate": self.estimate} | more

    def _check_intervals(self) -> None:
        """An interval holds its estimates, as far as they are in [0, 1], to which ends may be
        cut."""
        low, high, error = self.low, self.high, self.std_error
        self._check(low <= high, "the interval {} to {} is upside down", low, high)
        share = self.estimate if self.unbiased is None else self.unbiased
        # Without noise, the share of a value that nobody or everybody has is known exactly.
        exact = (error == 0) & ((share <= 0) | (share >= 1))
        self._check((error > 0) | exact, "standard error {} is not above 0", error)
        least, most = low.clip(0, 1) - _SINGLE, high.clip(0, 1) + _SINGLE
        for name, values in self._estimates.items():
            inside = (least <= values.clip(0, 1)) & (values.clip(0, 1) <= most)
            reason = f"{name} {{}} lies outside its interval, {{}} to {{}}"
            self._check(inside, reason, values, low, high)

    def check_shares(self) -> None:
        """Refuse a table with estimates that cannot be shares: further outside [0, 1] than chance
        takes them.

        Of a cell that is not shown, which counts that do not fit the parameters may put outside,
        only what is far off. Not of a table with the sum of its cells, each of which may have been
        cut at 0.

        Raises:
            TableError: with the table, the cell and its numbers.
        """
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
        """Raise TableError for the first cell that is not good. reason: why not, with a place for
        each of its numbers."""
        bad = np.flatnonzero(~good)
        if len(bad):
            first = int(bad[0])
            why = reason.format(*(f"{values[first]:g}" for values in numbers))
            raise TableError(f"{self.name}: {shown(self.cells[first])}: {why}")


class Row(NamedTuple):
    """A row of a released table. symbol: "" for what is shown; NaN where one is."""

    kind: str
    estimate: float
    std_error: float
    low: float
    high: float
    symbol: str


@with_config(LENIENT)
@dataclass(frozen=True)
class ReleasedTable(KeyedTable):
    """A table of a release. Arrays are (n,); NaN where there is a symbol.

    reports: rounded down, None where the whole table is withheld, for which it has one symbol.
    kinds: `cell`, `merged` (cells of `members`) or `total` (of all cells, shown or not).
    symbols: "" for what is shown.  complete: as in `CellTable`.  withheld: the symbol of the whole
    table, or "".  held: how many cells a merged one holds.  members: which ones, of tables that
    list all cells; rare strings are not named.
    """

    reports: int | None
    level: float
    cells: tuple[str, ...]
    kinds: tuple[str, ...]
    estimate: _Numbers
    std_error: _Numbers
    low: _Numbers
    high: _Numbers
    symbols: tuple[str, ...]
    complete: bool = False
    withheld: str = ""
    shapes: Annotated[Mapping[str, Any], Field(exclude=True)] = field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check. Raises TableError."""
        columns = (self.kinds, self.symbols, *(getattr(self, name) for name in NUMBERS))
        if any(len(column) != len(self.cells) for column in columns):
            raise TableError(f"{self.name}: columns of several lengths")

    @property
    def is_shown(self) -> Booleans:
        """Which rows show numbers, (n,)."""
        return np.array([not symbol for symbol in self.symbols], dtype=bool)

    def rows(self) -> dict[str, Row]:
        """Return the rows by cell."""
        numbers = (getattr(self, name).tolist() for name in NUMBERS)
        rows = map(Row, self.kinds, *numbers, self.symbols)
        return dict(zip(self.cells, rows, strict=True))

    def with_rows(self, rows: Mapping[str, Row], **changes: Any) -> "ReleasedTable":
        """Return a copy of the table with these rows, and other changes."""
        kinds, *numbers, symbols = zip(*rows.values(), strict=True) if rows else ((),) * 6
        columns: dict[str, Any] = {
            name: np.array(values, dtype=float)
            for name, values in zip(NUMBERS, numbers, strict=True)
        }
        return replace(self, cells=tuple(rows), kinds=kinds, symbols=symbols, **(columns | changes))


def table_name(key: TableKey) -> str:
    """Metric, strata and window of a table in one line, with characters that could steer a
    terminal escaped."""
    metric, strata, first, last = key
    parts = [metric, *(f"{name}={value}" for name, value in strata), f"{first} to {last}"]
    return ", ".join(shown(part)[1:-1] for part in parts)
