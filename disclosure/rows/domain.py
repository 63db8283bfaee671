"""The public domain of a table: the possible values of columns, and the histogram of all rows.

The domain is declared in advance. If it were read from the rows (occurring values, minimum and
maximum age), it would reveal something about people that no epsilon covers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Discriminator, Field, Tag, with_config

from disclosure.errors import DomainError, TableError
from disclosure.files import STRICT, naming, parse_toml, read_text
from disclosure.typing import Integers, Table
from rappor_core.errors import shown

MAX_CELLS = 20_000_000  # of a histogram: 160 MB per array
_MAX_WHOLE = 2**53  # smaller numbers and products of bins are exact
_MAX_REAL = 1e300  # differences of smaller numbers are finite
_MIN_DIGITS, _MAX_DIGITS = 6, 17


@with_config(STRICT)
@dataclass(frozen=True)
class Categories:
    """All values of a category column. Raises DomainError if none, or if repeated."""

    values: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) < len(self.values):
            raise DomainError(f"a value is repeated, or none is declared: {shown(self.values)}")

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.values)

    def codes(self, column: Sequence[str]) -> Integers:
        """Return the index of each value, (rows,). Raises TableError if undeclared."""
        index = {value: code for code, value in enumerate(self.values)}
        try:
            return np.array([index[value] for value in column], dtype=np.int64)
        except KeyError as error:
            raise TableError(f"value {shown(error.args[0])} is not declared") from None

    def draw(self, codes: Integers, rng: np.random.Generator) -> list[str]:  # noqa: ARG002
        """Convert codes to values."""
        return [self.values[code] for code in codes.tolist()]


@with_config(STRICT)
@dataclass(frozen=True)
class EqualBins:
    """Numbers from `low` to `high`, both included, in bins of equal width.

    Whole numbers need whole ends, and at least one number per bin. Raises DomainError otherwise."""

    low: float
    high: float
    bins: int
    whole: bool = True

    def __post_init__(self) -> None:
        most = _MAX_WHOLE if self.whole else _MAX_REAL
        if not (-most <= self.low < self.high <= most and 1 <= self.bins <= MAX_CELLS):
            raise DomainError(
                f"low < high, both within {most:g} of 0, and 1 to {MAX_CELLS:,} bins are needed, "
                f"not {shown(self.low)}, {shown(self.high)} and {shown(self.bins)}"
            )
        if self.whole and not (float(self.low).is_integer() and float(self.high).is_integer()):
            raise DomainError(f"bins of whole numbers need whole low and high, not {self}")
        if self.whole and self.bins > self.high - self.low + 1:
            raise DomainError(f"more bins than whole numbers: {self}")
        if self.whole and self.bins * (self.high - self.low + 1) > _MAX_WHOLE:
            raise DomainError(f"too many for exact bins: {self}; take fewer bins, or whole = false")

    @property
    def size(self) -> int:
        """The number of bins."""
        return self.bins

    def codes(self, column: Sequence[str]) -> Integers:
        """Return the bin of each number, (rows,). Raises TableError if invalid."""
        try:
            values = np.array([float(value) for value in column])
        except ValueError as error:
            raise TableError(f"not a number: {error}") from None
        outside = ~((values >= self.low) & (values <= self.high))
        if self.whole:
            outside |= values != np.floor(values)
        if outside.any():
            raise TableError(
                f"{shown(column[int(outside.argmax())])} is not in {self.low:g} to {self.high:g}"
                + (", or not whole" if self.whole else "")
            )
        span = self.high - self.low + self.whole
        codes = np.floor((values - self.low) * self.bins / span).astype(np.int64)
        return np.minimum(codes, self.bins - 1)

    def draw(self, codes: Integers, rng: np.random.Generator) -> list[str]:
        """Draw a number uniformly from each bin: whole, or to a thousandth of a bin."""
        if self.whole:
            low, span = round(self.low), round(self.high - self.low) + 1
            first = -(-codes * span // self.bins)
            last = -(-(codes + 1) * span // self.bins)
            return [str(value) for value in (low + rng.integers(first, last)).tolist()]
        width = (self.high - self.low) / self.bins
        values = self.low + width * (codes + rng.random(len(codes)))
        scale = max(abs(self.low), abs(self.high)) / width
        digits = min(max(math.ceil(math.log10(scale)) + 3, _MIN_DIGITS), _MAX_DIGITS)
        short = np.array([float(f"{value:.{digits}g}") for value in values.tolist()])
        return [
            f"{value:.17g}" if value in (self.low, self.high) else f"{value:.{digits}g}"
            for value in np.clip(short, self.low, self.high).tolist()
        ]


def _as_values(declared: object) -> object:
    return {"values": tuple(declared)} if isinstance(declared, list) else declared


# A file has a list of values or a table of bins.
Axis = Annotated[
    Annotated[Categories, BeforeValidator(_as_values), Tag("values")]
    | Annotated[EqualBins, Tag("bins")],
    Discriminator(lambda declared: "values" if isinstance(declared, list) else "bins"),
]


@with_config(STRICT)
@dataclass(frozen=True)
class RowDomain:
    """The possible values of each column of a table, in the order of the histogram's axes.

    Raises DomainError if there are no columns, or more than 20 million combinations."""

    axes: Annotated[Mapping[str, Axis], Field(alias="columns")]

    def __post_init__(self) -> None:
        if not self.axes:
            raise DomainError("no columns are declared")
        if math.prod(self.shape) > MAX_CELLS:
            raise DomainError(
                f"{math.prod(self.shape):,} combinations exceed {MAX_CELLS:,}: use fewer "
                "columns, or fewer bins"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the histogram: the number of values of each column."""
        return tuple(axis.size for axis in self.axes.values())

    def histogram(self, table: Table) -> Integers:
        """Count the rows with each combination, in the domain's shape. The result is private.

        Raises TableError if a column is missing or a value is undeclared."""
        missing = [name for name in self.axes if name not in table]
        if missing:
            raise TableError(f"columns {shown(missing)} are not in the table")
        chosen = {name: table[name] for name in self.axes}
        num_rows(chosen)
        codes = []
        for name, axis in self.axes.items():
            try:
                codes.append(axis.codes(chosen[name]))
            except TableError as error:
                raise TableError(f"column {shown(name)}: {error}") from None
        cells = np.ravel_multi_index(codes, self.shape)
        return np.bincount(cells, minlength=math.prod(self.shape)).reshape(self.shape)

    def rows(self, cells: Integers, rng: np.random.Generator) -> dict[str, list[str]]:
        """Create a row, as columns by name, for each index (rows,) of a cell of the flat histogram.

        Numbers are drawn uniformly from their bins by `rng`."""
        codes = np.unravel_index(cells, self.shape)
        axes = zip(self.axes.items(), codes, strict=True)
        return {name: axis.draw(code, rng) for (name, axis), code in axes}


def num_rows(table: Table) -> int:
    """Return the number of rows. Raises TableError if 0, or if columns differ."""
    lengths = {len(column) for column in table.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise TableError(f"columns have {sorted(lengths)} rows: use one length, 1 or more")
    return lengths.pop()


def load_row_domain(path: Path) -> RowDomain:
    """Read `[columns]` of a TOML file: a list of values, or { low, high, bins, whole } for numbers.

    Raises DomainError, with the file, the column and the value, if invalid."""
    with naming(path):
        return parse_toml(RowDomain, read_text(path, DomainError), DomainError)
