"""The kind `pair`: a value from each of two lists, encoded as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rappor_core.errors import MetricsFileError, ParameterError, ValueRefusedError, shown
from rappor_core.metrics.kinds import Kind, refuse_field, wrong_type
from rappor_core.metrics.pair import Pair

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric

MAX_ONE_HOT = 256  # pairs with a bit each; more are hashed
_MOST_LISTED = 12  # values of a side that are named one by one
_ONE_HOT, _BLOOM = "one_hot", "bloom"


class PairKind(Kind):
    """The kind of metric whose value is a pair, one value from each of two lists, encoded as
    one."""

    name = "pair"
    encodings = (_ONE_HOT, _BLOOM)
    keys = frozenset({"of", "values"})
    has_details = True
    takes_no_data = True

    def completed(
        self,
        name: str,  # noqa: ARG002
        table: Mapping[str, Any],
        tables: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        """Take a list that `values` does not hold from the metric of that name, in this file."""
        names, lists = table.get("of"), table.get("values", {})
        if not isinstance(names, list) or not isinstance(lists, dict):
            return table  # `read_details` says what is wrong
        found = {side: _declared(tables.get(side)) for side in names if isinstance(side, str)}
        return {**table, "values": {k: v for k, v in found.items() if v is not None} | lists}

    def read_details(self, name: str, table: Mapping[str, Any]) -> Pair:  # noqa: ARG002
        """Read the lists of both sides, in the order of `of`."""
        names, lists = table.get("of"), table.get("values")
        if not isinstance(names, list) or len(names) != 2:
            raise ParameterError(f"of = {shown(names)} is not a list of two names")
        if not isinstance(lists, dict):
            raise ParameterError(f"values = {shown(lists)} is not a table of two lists")
        missing = [side for side in names if side not in lists]
        if missing:
            raise ParameterError(
                f"of names {shown(missing[0])}, which is neither a list of `values` nor a metric "
                "of kind 'category' or 'boolean' in this file"
            )
        unknown = sorted(set(lists) - set(names))
        if unknown:
            raise ParameterError(f"values.{unknown[0]} is not one of the two sides {names}")
        return Pair((names[0], names[1]), (lists[names[0]], lists[names[1]]))

    def details_from_dict(self, fields: Mapping[str, Any]) -> Pair:
        """Read the `Pair` of a metric's definition."""
        return Pair.from_dict(fields)

    def encoding(self, table: Mapping[str, Any]) -> str:
        """The encoding: a Bloom filter where `num_bits` is declared, else one bit a pair."""
        return _BLOOM if "num_bits" in table else _ONE_HOT

    def shape(self, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """The shape of a report: one bit for each pair, or one hash into `num_bits` bits."""
        from rappor_core.metrics.tables import needed, refuse  # only where a file is read

        pairs = self.read_details(name, table).num_pairs
        if self.encoding(table) == _ONE_HOT:
            if pairs > MAX_ONE_HOT:
                raise MetricsFileError(
                    f"metric {name!r}: num_bits is missing: {pairs:,} pairs are more than the "
                    f"{MAX_ONE_HOT} that may have a bit each; declare num_bits and num_cohorts, "
                    "such as 128 and 32"
                )
            from rappor_core.metrics.tables import listed_shape  # only where a file is read

            return listed_shape(name, table, pairs)
        for key in ("num_hashes", "hash"):
            if key in table:
                refuse(name, key, table[key], "is fixed by kind = 'pair'; leave it out")
        cohorts = needed(name, table, "num_cohorts")
        return {"num_bits": table["num_bits"], "num_hashes": 1, "num_cohorts": cohorts}

    def check(self, metric: Metric) -> None:
        """Require two lists, and as many bits as pairs where each pair has a bit of its own."""
        if not isinstance(metric.details, Pair):
            refuse_field(metric, "details", "are not those of a pair")
        params, pairs = metric.params, metric.details.num_pairs
        if params.scheme.own_bits and params.num_bits != pairs:
            refuse_field(metric, "params", f"do not have one bit for each of the {pairs} pairs")
        if params.num_hashes != 1 or params.hash != "mmh3":
            refuse_field(metric, "params", "need one hash, of family mmh3")

    def check_fallback(self, metric: Metric) -> None:
        """Require the fallback to be one of the pairs."""
        self._check_listed(metric, "fallback")

    def check_no_data(self, metric: Metric) -> None:
        """Require the value for no data to be one of the pairs."""
        self._check_listed(metric, "no_data")

    def _check_listed(self, metric: Metric, key: str) -> None:
        if metric.details.split(getattr(metric, key)) is None:
            example = metric.details.texts()[-1]
            refuse_field(metric, key, f"is not one of the pairs, written as {example!r}")

    def num_values(self, metric: Metric) -> int | None:
        """Number of pairs."""
        return int(metric.details.num_pairs)

    def text(self, metric: Metric, value: object) -> str:
        """The pair as `first | second`, which is what is hashed."""
        first, second = self._places(metric, value)
        pair = metric.details
        text: str = pair.texts()[first * pair.shape[1] + second]
        return text

    def index(self, metric: Metric, value: object) -> int:
        """The place of the pair, the second side running fastest."""
        first, second = self._places(metric, value)
        return first * int(metric.details.shape[1]) + second

    def _places(self, metric: Metric, value: object) -> tuple[int, int]:
        pair = metric.details
        wanted = f"a pair ({pair.of[0]}, {pair.of[1]})"
        if isinstance(value, str):
            places: tuple[int, int] | None = pair.split(value)
            if places is None:
                raise ValueRefusedError(
                    f"metric {metric.name!r} takes {wanted}, as two values or as text "
                    "'first | second'; the text is not one of its pairs"
                )
            return places
        if not isinstance(value, tuple | list):
            raise wrong_type(metric, value, wanted)
        if len(value) != 2:
            raise ValueRefusedError(
                f"metric {metric.name!r} takes {wanted}, not {len(value)} values"
            )
        found = [pair.side_index(side, value[side]) for side in (0, 1)]
        for side, place in enumerate(found):
            if place is None:
                raise ValueRefusedError(
                    f"metric {metric.name!r}: the value of {pair.of[side]!r} is not one of its "
                    f"{pair.shape[side]}; map it to one of them first"
                )
        return found[0], found[1]

    def all_values(self, metric: Metric) -> Sequence[object]:
        """Every pair, as text."""
        texts: list[str] = metric.details.texts()
        return texts

    def names(self, definition: Mapping[str, Any]) -> Sequence[str]:
        """All pairs as text, by index."""
        return Pair.from_dict(definition["details"]).texts()

    def described(self, metric: Metric) -> tuple[str, tuple[str, ...]]:
        """The two lists of values in words, and none of the answers one by one."""
        pair = metric.details
        listed = [f"{len(labels)} values" if len(labels) > _MOST_LISTED else ", ".join(labels)
                  for labels in map(pair.labels, (0, 1))]  # fmt: skip
        sides = [f"{name} ({labels})" for name, labels in zip(pair.of, listed, strict=True)]
        return f"two answers as one: {sides[0]} and {sides[1]}", ()


def _declared(table: Any) -> Any:
    """The list of a metric that has one, as declared; None for any other."""
    if not isinstance(table, dict):
        return None
    return {"category": table.get("categories"), "boolean": [False, True]}.get(
        str(table.get("kind"))
    )


PAIR = PairKind()
