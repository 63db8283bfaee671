"""`Kind`: what the metrics of one kind share, and the table of kinds.

A new kind is a subclass of `Kind`, its instance, and a line in `KINDS`. It chooses its layouts of
bits from `rappor_core.encodings`. A kind is loaded when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from rappor_core.encodings import encoding_named
from rappor_core.errors import MetricsFileError, ParameterError, ValueRefusedError, meant, shown
from rappor_core.params import RapporParams

if TYPE_CHECKING:  # also read by tools that freeze an app, which look for imports
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

KINDS = {  # name: where its instance is
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
    """The rules of all metrics of one kind. Public, and without state.

    name: as in `metrics.toml`.  encodings: those that go with it, the usual one first.
    keys: beyond the common ones of `metrics.toml`.  fixed_keys: those that follow from the kind.
    located: whether `location` belongs to it.  details: the type of `Metric.details`, if any.
    reserved: names that cannot be its values.
    collected: the device keeps what is recorded until the period is over, and reports it then;
        the period is part of the meaning.
    takes_fixes: what a device answers is made of the places where it was.
    takes_numbers, free_text: whether its values are numbers, or any text.
    in_words: what is asked, for the public dictionary.
    client_part: the module of the TypeScript client with the kind, which exports a function of the
        same name; "" where its core has the kind.
    """

    name: str
    encodings: tuple[str, ...]
    keys: tuple[Key, ...]
    fixed_keys: tuple[str, ...] = ()
    located = False
    details: type[Frozen] | None = None
    reserved: tuple[str, ...] = ()
    collected = False
    takes_fixes = False
    takes_numbers = False
    free_text = False
    in_words = ""
    client_part = ""

    def has_key(self, name: str) -> bool:
        """Return whether a metric of this kind may declare a key, alongside the common ones."""
        return any(key.name == name for key in self.keys)

    def cohort_step(self, metric: Metric) -> int:  # noqa: ARG002
        """Return the numbers of cohorts that a metric can have are multiples of this; 1: any
        number."""
        return 1

    def fewer_cohorts(self, metric: Metric) -> str:  # noqa: ARG002
        """Advice on how a metric can have fewer cohorts than `cohort_step` allows."""
        return "fewer cohorts"

    def turns(self, metric: Metric) -> int:  # noqa: ARG002
        """Return the number of groups and periods over which the reports of devices are spread."""
        return 1

    def completed(
        self,
        table: Mapping[str, Any],
        tables: Mapping[str, Any],  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Fill in a table with what it takes from other tables of the file.

        Args:
            table: The metric's table.
            tables: All tables of the file, by name.

        Returns:
            The table, completed.
        """
        return table

    def fields(self, table: MetricTable) -> Iterator[dict[str, Any]]:
        """Yield the fields of the metrics that a table declares: one, or several with their names.

        Raises MetricsFileError or ParameterError.
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
        """Return the list of values in a table of `metrics.toml`, unchecked; None if there is
        none."""
        return None

    def encoding(self, table: MetricTable) -> str:  # noqa: ARG002
        """Return the encoding, one of `encodings`, that a table of `metrics.toml` asks for."""
        return self.encodings[0]

    def shape(self, table: MetricTable) -> dict[str, Any]:
        """Read num_bits, num_hashes, num_cohorts (and hash) of a table. Raises MetricsFileError."""
        raise NotImplementedError(f"kind {self.name!r} does not read the shape of its reports")

    def mechanism(
        self, table: MetricTable, num_hashes: Any, *, single_bit: bool
    ) -> TwoRoundMechanism:
        """Read both rounds of a table, from probabilities or epsilons.

        Args:
            table: The metric's table.
            num_hashes: h as it was given.
            single_bit: Whether a value sets one bit at most.

        Returns:
            The mechanism.

        Raises:
            MetricsFileError: A key is missing or out of range.
        """
        return table.mechanism(num_hashes, single_bit=single_bit)

    def read_details(self, table: MetricTable) -> Frozen | None:  # noqa: ARG002
        """Read `Metric.details`, the public tables of a kind, from the kind's own keys.

        What it returns has `to_dict()`, of plain values; it is part of the metric's meaning.
        """
        return None

    def check(self, metric: Metric) -> None:
        """Check the rules that this kind alone has. Raises MetricsFileError."""

    def jittered(self, metric: Metric) -> bool:  # noqa: ARG002
        """Return whether devices draw a secret constant in [0, 1) that enters the bits of their
        values."""
        return False

    def num_values(self, metric: Metric) -> int | None:  # noqa: ARG002
        """Return the number of values that a metric can take; None where there is no list of
        them."""
        return None

    def number(self, metric: Metric, value: object) -> float | None:
        """Read a value as a number.

        Args:
            metric: The metric that the value is for.
            value: Private.

        Returns:
            The number, None for no data. Private.

        Raises:
            ValueRefusedError: The value is not one of this metric.
        """
        raise wrong_type(metric, value, "no numbers")

    def text(self, metric: Metric, value: object) -> str:
        """Read a value as the string that is hashed.

        Args:
            metric: The metric that the value is for.
            value: Private.

        Returns:
            The string. Private.

        Raises:
            ValueRefusedError: The value is not one of this metric.
        """
        if not isinstance(value, str):
            raise wrong_type(metric, value, "a string")
        return value

    def index(self, metric: Metric, value: object) -> int:
        """Find a value in the metric's list.

        Args:
            metric: The metric that the value is for.
            value: Private.

        Returns:
            Its index. Private.

        Raises:
            ValueRefusedError: The value is not in the list.
        """
        raise wrong_type(metric, value, "a value of a list, which it does not have")

    def all_values(self, metric: Metric) -> Sequence[object]:
        """Every value, for a metric that has a list of them and no fallback."""
        return metric.categories

    def described(self, metric: Metric) -> tuple[str, tuple[str, ...]]:
        """What is asked, or "", and the answers, as the public dictionary says them."""
        return self.in_words, metric.categories

    def names(self, definition: Mapping[str, Any]) -> Sequence[str]:
        """Return the names of the values by index, of a definition (`Metric.to_dict`); none if not
        listed."""
        return list(definition.get("categories", ()))

    def takes(self, metric: Metric) -> tuple[Sequence[object], ...]:
        """Return the lists from which a value, or each part of one, is chosen; none for any
        value."""
        listed = self.all_values(metric)
        return (listed,) if listed else ()

    def examples(self, metric: Metric) -> Sequence[Hashable]:
        """Values that devices of an invented fleet hold, the most frequent first."""
        listed = [value for value in self.all_values(metric) if isinstance(value, Hashable)]
        return listed or [f"{metric.base_name}-{number}" for number in range(1, 9)]

    def sums(self, metric: Metric) -> bool:  # noqa: ARG002
        """Return whether an app adds to the value of a period."""
        return False

    def part_options(self, metric: Metric) -> tuple[str, ...]:  # noqa: ARG002
        """Modules of the TypeScript client that `client_part` needs for a metric."""
        return ()


def kind_named(name: object) -> Kind:
    """Load the kind of a name. Raises ParameterError for an unknown one."""
    if not isinstance(name, str) or name not in KINDS:
        near = meant(name, KINDS) if isinstance(name, str) else ""
        raise ParameterError(f"kind = {shown(name)} is not one of {', '.join(KINDS)}{near}")
    if name not in _LOADED:
        module, _, instance = KINDS[name].partition(":")
        _LOADED[name] = getattr(import_module(module), instance)
    return _LOADED[name]


def wrong_type(metric: Metric, value: object, expected: str) -> ValueRefusedError:
    """Return the error for a value of a wrong type; the message never holds the value."""
    hint = ""
    if isinstance(value, Set | list | tuple):
        hint = "; record its elements as separate metrics, each charged"
    kind = type(value).__name__
    return ValueRefusedError(f"metric {metric.name!r} takes {expected}, not a {kind}{hint}")


def refuse_field(metric: Metric, key: str, why: str) -> NoReturn:
    """Raise MetricsFileError that names the metric, the key and the value."""
    raise MetricsFileError(f"metric {metric.name!r}: {key} = {shown(getattr(metric, key))} {why}")
