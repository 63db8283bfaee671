"""The recoding of a table as pairs (row, part), where a part is a column with a value.

Number columns are first divided into intervals of about equal frequency. n rows of d columns become
`n d` pairs of n rows and parts, one part per value or interval of any column. The thesis states
that the row column has n d values, but it has n."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from disclosure.errors import TableError
from disclosure.typing import Floats, Integers
from rappor_core.errors import shown
from rappor_core.failures import failure_reason

_DIGITS = 4  # digits of a cut, if they suffice
OTHER = "other values"


def quantile_cuts(numbers: Floats, intervals: int) -> tuple[float, ...]:
    """Divide a number column at quantiles, midway between neighbors in rank.

    Cuts that would leave an interval empty are dropped. There are never more intervals than
    numbers."""
    intervals = min(intervals, len(numbers))
    cuts = np.unique(np.quantile(numbers, np.arange(1, intervals) / intervals))
    counts = np.bincount(np.searchsorted(cuts, numbers, side="left"), minlength=len(cuts) + 1)
    used = cuts[counts[:-1] > 0]
    return _shortened(used[used < numbers.max()], numbers)


def joined_cuts(cuts: tuple[float, ...], numbers: Floats, floor: int) -> tuple[float, ...]:
    """Drop the cuts that leave an interval with fewer numbers than the floor."""
    counts = np.bincount(np.searchsorted(cuts, numbers, side="left"), minlength=len(cuts) + 1)
    joined, below, above = [], 0, len(numbers)
    for cut, count in zip(cuts, counts.tolist(), strict=False):
        below, above = below + count, above - count
        if below >= floor and above >= floor:
            joined.append(cut)
            below = 0
    return tuple(joined)


def _shortened(cuts: Floats, numbers: Floats) -> tuple[float, ...]:
    """Return the cuts with the fewest digits that leave every number in its interval."""
    places = np.searchsorted(cuts, numbers, side="left")
    for digits in range(_DIGITS, 17):
        short = np.array([float(f"{cut:.{digits}g}") for cut in cuts])
        rising = (np.diff(short) > 0).all()
        if rising and (np.searchsorted(short, numbers, side="left") == places).all():
            return tuple(short.tolist())
    return tuple(cuts.tolist())


@dataclass(frozen=True)
class Intervals:
    """The parts of a number column: interval i is ]cuts[i-1], cuts[i]].

    The first and the last interval are open, because the data's minimum and maximum, which the
    thesis prints there, would reveal two people. Raises TableError if cuts are not finite and
    increasing."""

    cuts: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(low < high for low, high in zip(self.cuts, self.cuts[1:], strict=False))
        if not rising or not all(map(math.isfinite, self.cuts)):
            raise TableError(f"cuts must be finite and rise: {shown(self.cuts)}")

    @property
    def labels(self) -> tuple[str, ...]:
        """The text of each interval."""
        return tuple(self.group_label([part]) for part in range(len(self.cuts) + 1))

    def encode(self, name: str, values: Sequence[str]) -> Integers:
        """Return the interval of each number. Raises TableError if it is not finite."""
        codes: Integers = np.searchsorted(self.cuts, read_numbers(name, values), side="left")
        return codes

    def group_label(self, parts: Collection[int]) -> str:
        """Return the text for several intervals, with neighbors joined."""
        chosen = sorted(parts)
        starts = [part for part in chosen if part - 1 not in parts]
        ends = [part for part in chosen if part + 1 not in parts]
        return " or ".join(map(self._run_label, starts, ends))

    def _run_label(self, first: int, last: int) -> str:
        low = _number_text(self.cuts[first - 1]) if first else ""
        high = _number_text(self.cuts[last]) if last < len(self.cuts) else ""
        if low and high:
            return f"]{low},{high}]"
        return f">{low}" if low else f"<={high}" if high else "any number"


@dataclass(frozen=True)
class Values:
    """The parts of a category column: one for each named value, and one for all others.

    Raises TableError if there are no parts, or if a part is repeated."""

    values: tuple[str, ...]
    other: str = ""  # The label of the last part, for unnamed values; "" without such a part

    def __post_init__(self) -> None:
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise TableError(f"a column needs distinct values: {shown(self.labels)}")

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the parts: the named values, then the label of all others."""
        return (*self.values, self.other) if self.other else self.values

    def encode(self, name: str, values: Sequence[str]) -> Integers:
        """Return the part that contains each value. Raises TableError if a value is in none."""
        codes = {value: code for code, value in enumerate(self.values)}
        if self.other:
            rest = len(self.values)
            return np.array([codes.get(value, rest) for value in values], dtype=np.int64)
        try:
            return np.array([codes[value] for value in values], dtype=np.int64)
        except KeyError as error:
            raise TableError(
                f"column {shown(name)} has no part for {shown(error.args[0])}"
            ) from None

    def group_label(self, parts: Collection[int]) -> str:
        """Return the label of a group of parts: its values, joined."""
        return " | ".join(self.labels[part] for part in sorted(parts))


Parts = Intervals | Values


@dataclass(frozen=True)
class Recoded:
    """A table as pairs (row, part)."""

    parts: Mapping[str, Parts]  # The parts of each column
    codes: Integers  # (n, d) the part of each row in each column, numbered over all columns

    @classmethod
    def encode(cls, table: Mapping[str, Sequence[str]], parts: Mapping[str, Parts]) -> Recoded:
        """Recode a table by the given parts. Raises TableError if it does not fit them."""
        missing = [name for name in parts if name not in table]
        lengths = {len(table[name]) for name in parts if name in table}
        if missing or len(lengths) != 1 or lengths == {0}:
            raise TableError(f"columns missing: {missing}; rows: {sorted(lengths)}")
        starts = _starts(parts)
        columns = [
            kind.encode(name, table[name]) + start
            for (name, kind), start in zip(parts.items(), starts, strict=False)
        ]
        return cls(parts, np.column_stack(columns))

    @property
    def num_rows(self) -> int:
        """The number of rows of the table, n."""
        return len(self.codes)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first part of each column, and the number of all parts."""
        return _starts(self.parts)

    @property
    def num_parts(self) -> int:
        """The number of parts of all columns together."""
        return self.starts[-1]

    @cached_property
    def part_counts(self) -> Integers:
        """The number of rows of each part, (parts,)."""
        return np.bincount(self.codes.ravel(), minlength=self.num_parts)

    @cached_property
    def part_names(self) -> tuple[tuple[str, str], ...]:
        """The column and the label of each part."""
        return tuple((name, label) for name, kind in self.parts.items() for label in kind.labels)

    def parts_of(self, column: int) -> range:
        """Return the parts of the column at this position."""
        return range(self.starts[column], self.starts[column + 1])

    @cached_property
    def classes(self) -> tuple[Integers, Integers, Integers]:
        """The distinct rows (classes, d), each row's class (n,), and the class sizes (classes,)."""
        distinct, of_row, counts = np.unique(
            self.codes, axis=0, return_inverse=True, return_counts=True
        )
        return distinct, of_row.ravel(), counts

    def to_table(self) -> dict[str, list[str]]:
        """Return the label of each row's part, by column."""
        return self.labels_of(self.codes)

    def labels_of(self, codes: Integers) -> dict[str, list[str]]:
        """Return the labels of coded rows (rows, d), by column."""
        table = {}
        for column, (name, kind) in enumerate(self.parts.items()):
            labels = np.array(kind.labels, dtype=object)
            table[name] = labels[codes[:, column] - self.starts[column]].tolist()
        return table


def recode(
    table: Mapping[str, Sequence[str]],
    columns: Sequence[str],
    *,
    numbers: Collection[str] = (),
    intervals: int = 10,
    floor: int = 1,
) -> Recoded:
    """Choose the parts of each column, and recode a table with these parts.

    Args:
        table: The columns by name.
        columns: The columns to use, 2 or more.
        numbers: The columns that are divided into intervals; other columns keep their values.
        intervals: The maximum number of intervals of a number column; fewer if numbers are tied.
        floor: The minimum number of rows in a part. Rarer values become one part, `other values`,
            together with the next rarest values if it would be too small; rarer intervals are
            joined with a neighbor. Published results name parts, so use the k of the publication.

    Raises:
        TableError: A column is missing, there is only one column, there are no rows or intervals, a
            number is invalid, or the floor is below 1.
    """
    strange = [name for name in (*columns, *numbers) if name not in table]
    if strange or not set(numbers) <= set(columns) or len(set(columns)) != len(columns):
        raise TableError(
            f"columns {shown(list(columns))}, number columns {shown(list(numbers))}: name each "
            "column once, and only columns of the table"
        )
    if len(columns) < 2 or intervals < 1:
        raise TableError(f"{len(columns)} columns, {intervals} intervals: use at least 2 and 1")
    if floor < 1:
        raise TableError(f"a floor of {floor} rows is too low: use 1 or more")
    parts: dict[str, Parts] = {}
    for name in columns:
        if not len(table[name]):
            raise TableError(f"column {shown(name)} has no rows")
        if name in numbers:
            values = read_numbers(name, table[name])
            parts[name] = Intervals(joined_cuts(quantile_cuts(values, intervals), values, floor))
        else:
            parts[name] = _values(table[name], floor)
    return Recoded.encode(table, parts)


def read_numbers(name: str, values: Sequence[str]) -> Floats:
    """Parse the finite numbers of a column, (n,). Raises TableError otherwise."""
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError as error:
        raise TableError(f"column {shown(name)}: {failure_reason(error)}") from None
    if not np.isfinite(numbers).all():
        raise TableError(f"column {shown(name)}: {numbers[~np.isfinite(numbers)][0]} is not finite")
    return numbers


def _number_text(number: float) -> str:
    return repr(float(number)).removesuffix(".0")


def _values(column: Sequence[str], floor: int) -> Values:
    """Return the parts of a column: each value that reaches the floor, and all others."""
    counts = Counter(column)
    rarest = sorted(counts, key=lambda value: (counts[value], value))
    pooled, size = set[str](), 0
    for value in rarest:
        if counts[value] >= floor and (not pooled or size >= floor):
            break
        pooled.add(value)
        size += counts[value]
    named = tuple(sorted(set(counts) - pooled))
    return Values(named, free_label(OTHER, named)) if pooled else Values(named)


def free_label(label: str, used: Collection[str]) -> str:
    """Return a label, modified if a value or a union of values already has it."""
    while label in used:
        label += " (group)"
    return label


def _starts(parts: Mapping[str, Parts]) -> tuple[int, ...]:
    lengths = [len(kind.labels) for kind in parts.values()]
    return tuple(int(total) for total in np.cumsum([0, *lengths]))
