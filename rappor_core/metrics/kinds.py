"""The base class `Kind`, which defines the common rules of a metric kind, and the table of kinds.

To add a kind, write a subclass of `Kind`, an instance of it and a line in `KINDS`. The kind chooses
bit layouts from `rappor_core.encodings`. Its module is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from rappor_core.encodings import encoding_named
from rappor_core.errors import MetricsFileError, ParameterError, ValueRefusedError, meant, shown
from rappor_core.params import RapporParams

if TYPE_CHECKING:  # also read by app-freezing tools, which search for imports
    from rappor_core.frozen import Frozen
    from rappor_core.mechanism import TwoRoundMechanism
    from rappor_core.metrics import discover_kind as discover_kind
    from rappor_core.metrics import flow_kind as flow_kind
    from rappor_core.metrics import listed_kinds as listed_kinds
    from rappor_core.metrics import location_kind as location_kind
    from rappor_core.metrics import number_kind as number_kind
    from rappor_core.metrics import pair_kind as pair_kind
    from rappor_core.metrics.keys import Key
    from rappor_core.metrics.metric import Metric
    from rappor_core.metrics.tables import MetricTable

KINDS = {  # the name of each kind, and the location of its instance
    "string": "rappor_core.metrics.listed_kinds:STRING",
    "category": "rappor_core.metrics.listed_kinds:CATEGORY",
    "boolean": "rappor_core.metrics.listed_kinds:BOOLEAN",
    "number": "rappor_core.metrics.number_kind:NUMBER",
    "pair": "rappor_core.metrics.pair_kind:PAIR",
    "discover": "rappor_core.metrics.discover_kind:DISCOVER",
    "location": "rappor_core.metrics.location_kind:LOCATION",
    "flow": "rappor_core.metrics.flow_kind:FLOW",
}
_LOADED: dict[str, Kind] = {}


class Kind:
    """The rules that all metrics of one kind share. Public and stateless."""

    name: str  # the name in `metrics.toml`
    encodings: tuple[str, ...]  # the encodings that the kind supports; the default is first
    keys: tuple[Key, ...]  # the keys in `metrics.toml` in addition to the common ones
    fixed_keys: tuple[str, ...] = ()  # the keys whose values follow from the kind
    located = False  # whether `Metric.location` applies
    details: type[Frozen] | None = None  # the type of `Metric.details`, or None
    reserved: tuple[str, ...] = ()  # names that cannot be values
    # Whether the device stores recordings and reports when the period ends. If so, the period is
    # part of the metric's meaning.
    collected = False
    takes_fixes = False  # whether a device derives its answer from its past locations
    takes_numbers = False  # whether values are numbers
    free_text = False  # whether any text is a valid value
    in_words = ""  # the question, for the public dictionary
    # The module of the TypeScript client that implements the kind, which exports a function of the
    # same name; "" if the core implements it.
    client_part = ""

    def has_key(self, name: str) -> bool:
        """Return whether a metric of this kind may declare a key in addition to the common ones."""
        return any(key.name == name for key in self.keys)

    def cohort_step(self, metric: Metric) -> int:  # noqa: ARG002
        """Return the number that must divide `num_cohorts`; 1 if any number of cohorts is valid."""
        return 1

    def fewer_cohorts(self, metric: Metric) -> str:  # noqa: ARG002
        """Return a hint on how to change a metric so that it can have fewer cohorts."""
        return "fewer cohorts"

    def turns(self, metric: Metric) -> int:  # noqa: ARG002
        """Return the number of groups or periods over which devices spread their reports."""
        return 1

    def completed(
        self,
        table: Mapping[str, Any],
        tables: Mapping[str, Any],  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Return a metric's table with the values that it copies from other tables of the file.

        Args:
            table: The metric's table.
            tables: All tables of the file, by name.
        """
        return table

    def fields(self, table: MetricTable) -> Iterator[dict[str, Any]]:
        """Yield each declared metric's fields, which include `name` only if there are several.

        Raises MetricsFileError or ParameterError if the table is invalid.
        """
        shape, encoding = self.shape(table), self.encoding(table)
        single_bit = encoding_named(encoding).single_bit
        mechanism = self.mechanism(table, shape["num_hashes"], single_bit=single_bit)
        yield {
            "params": RapporParams(mechanism=mechanism, encoding=encoding, **shape),
            "details": self.read_details(table),
            "max_memoized_values": table["max_memoized_values"],
            **table.declared(),
        }

    def declared_values(self, table: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """Return the list of values in a table of `metrics.toml`, unchecked, or None if absent."""
        return None

    def encoding(self, table: MetricTable) -> str:  # noqa: ARG002
        """Return the encoding that a table of `metrics.toml` requests, one of `encodings`."""
        return self.encodings[0]

    def shape(self, table: MetricTable) -> dict[str, Any]:
        """Read num_bits, num_hashes, num_cohorts (and hash). Raises MetricsFileError if invalid."""
        raise NotImplementedError(f"kind {self.name!r} does not read the shape of its reports")

    def mechanism(
        self, table: MetricTable, num_hashes: Any, *, single_bit: bool
    ) -> TwoRoundMechanism:
        """Read the mechanism from a table's probabilities or epsilons.

        Args:
            table: The metric's table.
            num_hashes: The number of hashes as declared.
            single_bit: Whether a value sets at most one bit.

        Raises:
            MetricsFileError: A key is missing or out of range.
        """
        return table.mechanism(num_hashes, single_bit=single_bit)

    def read_details(self, table: MetricTable) -> Frozen | None:  # noqa: ARG002
        """Read the metric's public tables (`Metric.details`) from the kind's keys; None if none.

        The details are part of the metric's meaning; their `to_dict()` returns plain values.
        """
        return None

    def check(self, metric: Metric) -> None:
        """Check the rules that are specific to this kind. Raises MetricsFileError if one fails."""

    def jittered(self, metric: Metric) -> bool:  # noqa: ARG002
        """Return whether a secret per-device constant in [0, 1) affects the bits of values."""
        return False

    def num_values(self, metric: Metric) -> int | None:  # noqa: ARG002
        """Return the number of values that a metric can have, or None if values are not listed."""
        return None

    def number(self, metric: Metric, value: object) -> float | None:
        """Read a value as a number.

        Args:
            metric: The metric to which the value belongs.
            value: The value. Private.

        Returns:
            The number, or None if the value means no data. Private.

        Raises:
            ValueRefusedError: The metric does not accept the value.
        """
        raise wrong_type(metric, value, "no numbers")

    def text(self, metric: Metric, value: object) -> str:
        """Read a value as the string that is hashed.

        Args:
            metric: The metric to which the value belongs.
            value: The value. Private.

        Returns:
            The string. Private.

        Raises:
            ValueRefusedError: The metric does not accept the value.
        """
        if not isinstance(value, str):
            raise wrong_type(metric, value, "a string")
        return value

    def index(self, metric: Metric, value: object) -> int:
        """Return the index of a value in the metric's list.

        Args:
            metric: The metric to which the value belongs.
            value: The value. Private.

        Returns:
            The index. Private.

        Raises:
            ValueRefusedError: The value is not in the list.
        """
        raise wrong_type(metric, value, "a value of a list, which it does not have")

    def all_values(self, metric: Metric) -> Sequence[object]:
        """Return every value of a metric; requires listed values and no fallback."""
        return metric.categories

    def described(self, metric: Metric) -> tuple[str, tuple[str, ...]]:
        """Return the question (or "") and the possible answers, for the public dictionary."""
        return self.in_words, metric.categories

    def names(self, definition: Mapping[str, Any]) -> Sequence[str]:
        """Return the value names in a definition (`Metric.to_dict`); empty if not listed."""
        return list(definition.get("categories", ()))

    def takes(self, metric: Metric) -> tuple[Sequence[object], ...]:
        """Return the valid values, as one list per side for a pair; empty if any value is valid."""
        listed = self.all_values(metric)
        return (listed,) if listed else ()

    def examples(self, metric: Metric) -> Sequence[Hashable]:
        """Return values for the devices of a simulated fleet, most frequent first."""
        listed = [value for value in self.all_values(metric) if isinstance(value, Hashable)]
        return listed or [f"{metric.base_name}-{number}" for number in range(1, 9)]

    def sums(self, metric: Metric) -> bool:  # noqa: ARG002
        """Return whether recordings within a period add up to one value."""
        return False

    def part_options(self, metric: Metric) -> tuple[str, ...]:  # noqa: ARG002
        """Return the options for a metric's part of the TypeScript client, such as `h3`."""
        return ()


def kind_named(name: object) -> Kind:
    """Load the kind that has a name. Raises ParameterError if the name is unknown."""
    if not isinstance(name, str) or name not in KINDS:
        near = meant(name, KINDS) if isinstance(name, str) else ""
        raise ParameterError(f"kind = {shown(name)} is not one of {', '.join(KINDS)}{near}")
    if name not in _LOADED:
        module, _, instance = KINDS[name].partition(":")
        _LOADED[name] = getattr(import_module(module), instance)
    return _LOADED[name]


def wrong_type(metric: Metric, value: object, expected: str) -> ValueRefusedError:
    """Return the error for a value of the wrong type; the message never contains the value."""
    hint = ""
    if isinstance(value, Set | list | tuple):
        hint = "; record its elements as separate metrics, each charged"
    kind = type(value).__name__
    return ValueRefusedError(f"metric {metric.name!r} takes {expected}, not a {kind}{hint}")


def refuse_field(metric: Metric, key: str, why: str) -> NoReturn:
    """Raise MetricsFileError, which names the metric, the key and the value."""
    raise MetricsFileError(f"metric {metric.name!r}: {key} = {shown(getattr(metric, key))} {why}")
