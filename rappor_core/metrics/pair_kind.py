"""The metric kind `pair`: a value from each of two lists, encoded as one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rappor_core.errors import MetricsFileError, ParameterError, ValueRefusedError, shown
from rappor_core.frozen import Frozen
from rappor_core.hashing import MAX_VALUE_CHARS, canonical
from rappor_core.metrics.keys import (
    ALWAYS,
    NO_DATA_KEY,
    NOISE_KEYS,
    NUM_BITS,
    NUM_COHORTS,
    TEXTS,
    VALUE_KEYS,
    Key,
)
from rappor_core.metrics.kinds import Kind, kind_named, refuse_field, wrong_type

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric
    from rappor_core.metrics.tables import MetricTable

SEPARATOR = " | "
FORBIDDEN = "|"
MAX_PAIRS = 65_536
_BOOLEANS = {False, True}
Values = tuple[str | bool, ...]


class Pair(Frozen):
    """The names of the two sides of a pair metric, and the values of each side. Public.

    Raises ParameterError if they are invalid.
    """

    of: tuple[str, str]  # the names of the first and the second side
    values: tuple[Values, Values]  # two or more each: text (NFC, without `|`), or false and true

    def __post_init__(self) -> None:
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
        """Return how many values each side has, as the numbers of rows and columns of the table."""
        return len(self.values[0]), len(self.values[1])

    @property
    def num_pairs(self) -> int:
        """Return the number of pairs, which are the cells of the table."""
        return len(self.values[0]) * len(self.values[1])

    def side_index(self, side: int, value: object) -> int | None:
        """Return the index of a value in the list of a side.

        Args:
            side: The side, 0 or 1.
            value: The value. Private.

        Returns:
            The index, or None if the value is not in the list. Private.
        """
        if isinstance(value, str):
            value = canonical(value) if len(value) <= MAX_VALUE_CHARS else None
        for place, listed in enumerate(self.values[side]):
            if type(listed) is type(value) and listed == value:
                return place
        return None

    def labels(self, side: int) -> tuple[str, ...]:
        """Return the values of a side as text; Booleans become `true` and `false`."""
        return tuple(map(label, self.values[side]))

    def texts(self) -> list[str]:
        """Return all pairs as text, `first | second`; the second side varies fastest."""
        return [first + SEPARATOR + second for first in self.labels(0) for second in self.labels(1)]

    def split(self, text: str) -> tuple[int, int] | None:
        """Return the indices of both values of a pair given as text, or None if it is invalid."""
        if len(text) > 2 * MAX_VALUE_CHARS:
            return None
        first, separator, second = canonical(text).partition(SEPARATOR)
        if not separator or first not in self.labels(0) or second not in self.labels(1):
            return None
        return self.labels(0).index(first), self.labels(1).index(second)

    def to_dict(self) -> dict[str, Any]:
        """Return the sides as plain values; `from_dict` reads them."""
        return {"of": list(self.of), "values": [list(values) for values in self.values]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Pair:
        """Read the plain values that `to_dict` returns. Raises ParameterError if invalid."""
        if set(fields) != {"of", "values"}:
            raise ParameterError(f"a pair has of and values, not {sorted(map(str, fields))}")
        of, values = fields["of"], fields["values"]
        for key, value in (("of", of), ("values", values)):
            if not isinstance(value, list) or len(value) != 2:
                raise ParameterError(f"{key} = {shown(value)} is not a list of two")
        return cls(tuple(of), tuple(values))


def label(value: str | bool) -> str:
    """Return a value of a side as text."""
    return value if isinstance(value, str) else ("false", "true")[value]


def _checked(name: str, values: Any) -> Values:
    if not isinstance(values, list | tuple):
        raise ParameterError(f"values.{name} = {shown(values)} is not a list")
    if all(type(value) is bool for value in values) and set(values) == _BOOLEANS:
        checked: Values = tuple(values)
    elif all(isinstance(value, str) for value in values):
        checked = tuple(map(canonical, values))
    else:
        raise ParameterError(f"values.{name} = {shown(values)}: give text alone, or false and true")
    if len(checked) < 2 or len(set(checked)) != len(checked):
        raise ParameterError(f"values.{name} = {shown(values)} needs two or more different values")
    for value in map(label, checked):
        if FORBIDDEN in value or not value.strip() or len(value) > MAX_VALUE_CHARS:
            raise ParameterError(
                f"values.{name}: {shown(value)} is empty, too long, or contains '{FORBIDDEN}', "
                "which separates the two values of a pair"
            )
    return checked


MAX_ONE_HOT = 256  # the maximum number of pairs with one bit each; larger lists are hashed
_MAX_LISTED = 12  # the maximum number of values of a side that a description lists
_ONE_HOT, _BLOOM = "one_hot", "bloom"


class PairKind(Kind):
    """The metric kind whose value is a pair: one value from each of two lists, encoded as one."""

    name = "pair"
    encodings = (_ONE_HOT, _BLOOM)
    keys = (
        Key("of", TEXTS, None, "The names of the two sides.", ALWAYS),
        Key("values", "table of two lists", None, "Default: the values of the metrics in `of`."),
        NUM_BITS.replace(needed_when=f"more than {MAX_ONE_HOT} pairs"),
        NUM_COHORTS.replace(needed_when="`num_bits` is given"),
        *NOISE_KEYS,
        *VALUE_KEYS,
        NO_DATA_KEY,
    )
    details = Pair
    fixed_keys = ("num_hashes", "hash")
    client_part = "pairs"

    def completed(self, table: Mapping[str, Any], tables: Mapping[str, Any]) -> Mapping[str, Any]:
        """Copy each list that is missing in `values` from the metric with the side's name."""
        names, lists = table.get("of"), table.get("values", {})
        if not isinstance(names, list) or not isinstance(lists, dict):
            return table  # `read_details` reports the problem
        declared = {side: _declared(tables.get(side)) for side in names if isinstance(side, str)}
        return {**table, "values": {k: v for k, v in declared.items() if v is not None} | lists}

    def read_details(self, table: MetricTable) -> Pair:
        """Read the lists of both sides, in the order in which the key `of` names them."""
        names, lists = table["of"], table.get("values")
        if not isinstance(names, list) or len(names) != 2:
            raise ParameterError(f"of = {shown(names)} is not a list of two names")
        if not isinstance(lists, dict):
            raise ParameterError(f"values = {shown(lists)} is not a table of two lists")
        missing = [side for side in names if side not in lists]
        if missing:
            raise ParameterError(
                f"of names {shown(missing[0])}, which is neither a list in `values` nor a metric "
                "with a list of values (kind 'category' or 'boolean') in this file"
            )
        unknown = sorted(set(lists) - set(names))
        if unknown:
            raise ParameterError(f"values.{unknown[0]} is not one of the two sides {names}")
        return Pair((names[0], names[1]), (lists[names[0]], lists[names[1]]))

    def encoding(self, table: MetricTable) -> str:
        """Return a Bloom filter if `num_bits` is declared, or else one bit per pair."""
        return _BLOOM if "num_bits" in table else _ONE_HOT

    def shape(self, table: MetricTable) -> dict[str, Any]:
        """Return the shape of a report: one bit for each pair, or one hash into `num_bits` bits."""
        pairs, bits, cohorts = (
            self.read_details(table).num_pairs,
            table.get("num_bits"),
            table.get("num_cohorts"),
        )
        if bits is None:
            if pairs > MAX_ONE_HOT:
                raise MetricsFileError(
                    f"metric {table.name!r}: num_bits is missing: {pairs:,} pairs are more than "
                    f"the {MAX_ONE_HOT} that may have a bit each; declare num_bits and "
                    "num_cohorts, such as 128 and 32"
                )
            bits, cohorts = pairs, 1 if cohorts is None else cohorts
        elif cohorts is None:
            raise MetricsFileError(f"metric {table.name!r}: num_cohorts is missing")
        return {"num_bits": bits, "num_hashes": 1, "num_cohorts": cohorts}

    def check(self, metric: Metric) -> None:
        """Require one hash, and the same number of bits as pairs if each pair has its own bit."""
        params, pairs = metric.params, metric.details.num_pairs
        if params.scheme.own_bits and params.num_bits != pairs:
            refuse_field(metric, "params", f"do not have one bit for each of the {pairs} pairs")
        if params.num_hashes != 1 or params.hash != "mmh3":
            refuse_field(metric, "params", "need one hash, of family mmh3")
        for key in ("fallback", "no_data"):
            value = getattr(metric, key)
            if value is not None and metric.details.split(value) is None:
                example = metric.details.texts()[-1]
                refuse_field(metric, key, f"is not one of the pairs, written as {example!r}")

    def num_values(self, metric: Metric) -> int | None:
        """Return the number of pairs."""
        return int(metric.details.num_pairs)

    def text(self, metric: Metric, value: object) -> str:
        """Return the pair as `first | second`, the text that is hashed."""
        first, second = self._places(metric, value)
        pair = metric.details
        text: str = pair.texts()[first * pair.shape[1] + second]
        return text

    def index(self, metric: Metric, value: object) -> int:
        """Return the index of the pair; the second side varies fastest."""
        first, second = self._places(metric, value)
        return first * int(metric.details.shape[1]) + second

    def _places(self, metric: Metric, value: object) -> tuple[int, int]:
        pair = metric.details
        expected = f"a pair ({pair.of[0]}, {pair.of[1]})"
        if isinstance(value, str):
            places: tuple[int, int] | None = pair.split(value)
            if places is None:
                raise ValueRefusedError(
                    f"metric {metric.name!r} takes {expected}, as two values or as text "
                    "'first | second'; the text is not one of its pairs"
                )
            return places
        if not isinstance(value, tuple | list):
            raise wrong_type(metric, value, expected)
        if len(value) != 2:
            raise ValueRefusedError(
                f"metric {metric.name!r} takes {expected}, not {len(value)} values"
            )
        indices = [pair.side_index(side, value[side]) for side in (0, 1)]
        for side, place in enumerate(indices):
            if place is None:
                raise ValueRefusedError(
                    f"metric {metric.name!r}: the value of {pair.of[side]!r} is not one of its "
                    f"{pair.shape[side]}; map it to one of them first"
                )
        return indices[0], indices[1]

    def takes(self, metric: Metric) -> tuple[Sequence[object], ...]:
        """Return the lists of valid values for both sides."""
        lists: tuple[Sequence[object], ...] = metric.details.values
        return lists

    def all_values(self, metric: Metric) -> Sequence[object]:
        """Return every pair as text."""
        texts: list[str] = metric.details.texts()
        return texts

    def names(self, definition: Mapping[str, Any]) -> Sequence[str]:
        """Return all pairs as text, in the order of their indices."""
        return Pair.from_dict(definition["details"]).texts()

    def described(self, metric: Metric) -> tuple[str, tuple[str, ...]]:
        """Return a description of the two lists of values, without the individual answers."""
        pair = metric.details
        listed = [f"{len(labels)} values" if len(labels) > _MAX_LISTED else ", ".join(labels)
                  for labels in map(pair.labels, (0, 1))]  # fmt: skip
        sides = [f"{name} ({labels})" for name, labels in zip(pair.of, listed, strict=True)]
        return f"two answers as one: {sides[0]} and {sides[1]}", ()


def _declared(table: Any) -> Any:
    try:
        return kind_named(table["kind"]).declared_values(table)
    except (ParameterError, LookupError, TypeError):  # not a metric, or a metric of unknown kind
        return None


PAIR = PairKind()
