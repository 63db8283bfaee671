"""The two lists of values of a pair metric, and the list of all pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rappor_core.errors import ParameterError, shown
from rappor_core.frozen import Frozen
from rappor_core.hashing import canonical

SEPARATOR = " | "
FORBIDDEN = "|"
MAX_PAIRS = 65_536
LONGEST = 2_048  # characters of a value that is compared with a list
_BOOLEANS = {False, True}
Values = tuple[str | bool, ...]


class Pair(Frozen):
    """The names of the two sides of a pair metric, and the values of each side. Public.

    of: the two names, in the order of the values of a pair.
    values: two lists, each of text (in NFC, without `|`) or of false and true, two or more.

    Raises ParameterError that names what is wrong.
    """

    of: tuple[str, str]
    values: tuple[Values, Values]

    def __post_init__(self) -> None:
        """Bring text into its one form; check names and lists."""
        names, lists = self.of, self.values
        if len(names) != 2 or len(lists) != 2 or names[0] == names[1]:
            raise ParameterError(f"of = {shown(list(names))}: a pair has two sides, with two names")
        for name in names:
            if not isinstance(name, str) or not name.strip():
                raise ParameterError(f"of = {shown(list(names))}: {shown(name)} is not a name")
        checked = tuple(map(_checked, names, lists))
        object.__setattr__(self, "values", checked)
        if self.num_pairs > MAX_PAIRS:
            raise ParameterError(
                f"{len(lists[0])} times {len(lists[1])} values are {self.num_pairs:,} pairs, "
                f"{MAX_PAIRS:,} at most: merge rare values into one"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of values of each side: rows and columns of the table."""
        return len(self.values[0]), len(self.values[1])

    @property
    def num_pairs(self) -> int:
        """Number of cells of the table."""
        return len(self.values[0]) * len(self.values[1])

    def side_index(self, side: int, value: object) -> int | None:
        """Index of a value in the list of a side (0 or 1); None if it is not there. Private."""
        if isinstance(value, str):
            value = canonical(value) if len(value) <= LONGEST else None
        for place, listed in enumerate(self.values[side]):
            if type(listed) is type(value) and listed == value:
                return place
        return None

    def labels(self, side: int) -> tuple[str, ...]:
        """The values of a side as text: `true` and `false` of a list of truth values."""
        return tuple(map(label, self.values[side]))

    def texts(self) -> list[str]:
        """All pairs as text, `first | second`; the second side changes fastest."""
        return [first + SEPARATOR + second for first in self.labels(0) for second in self.labels(1)]

    def split(self, text: str) -> tuple[int, int] | None:
        """Indices of both values of a pair given as text; None if it is none of the pairs."""
        if len(text) > 2 * LONGEST:
            return None
        first, found, second = canonical(text).partition(SEPARATOR)
        if not found or first not in self.labels(0) or second not in self.labels(1):
            return None
        return self.labels(0).index(first), self.labels(1).index(second)

    def to_dict(self) -> dict[str, Any]:
        """The sides as plain values for JSON; `from_dict` reads them."""
        return {"of": list(self.of), "values": [list(values) for values in self.values]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Pair:
        """Read `to_dict`'s form. Raises ParameterError."""
        if set(fields) != {"of", "values"}:
            raise ParameterError(f"a pair has of and values, not {sorted(map(str, fields))}")
        of, values = fields["of"], fields["values"]
        for key, value in (("of", of), ("values", values)):
            if not isinstance(value, list) or len(value) != 2:
                raise ParameterError(f"{key} = {shown(value)} is not a list of two")
        return cls(tuple(of), tuple(values))


def label(value: str | bool) -> str:
    """A value of a side as text."""
    return value if isinstance(value, str) else ("false", "true")[value]


def _checked(name: str, values: Any) -> Values:
    if not isinstance(values, list | tuple):
        raise ParameterError(f"values.{name} = {shown(values)} is not a list")
    if all(type(value) is bool for value in values) and set(values) == _BOOLEANS:
        found: Values = tuple(values)
    elif all(isinstance(value, str) for value in values):
        found = tuple(map(canonical, values))
    else:
        raise ParameterError(f"values.{name} = {shown(values)}: give text alone, or false and true")
    if len(found) < 2 or len(set(found)) != len(found):
        raise ParameterError(f"values.{name} = {shown(values)} needs two or more different values")
    for value in map(label, found):
        if FORBIDDEN in value or not value.strip() or len(value) > LONGEST:
            raise ParameterError(
                f"values.{name}: {shown(value)} is empty, too long, or holds '{FORBIDDEN}', which "
                "stands between the two values of a pair"
            )
    return found
