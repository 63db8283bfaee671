"""Kinds of metric: their values, their keys of `metrics.toml`, their checks, and the register of
kinds.

A new kind is a subclass of `Kind`, its instance, and a line in `_HOMES` (a module and the name of
the instance in it), beside its encoding in `rappor_core.encodings`. The kinds that need only the
common keys are here; a kind with a module of its own is loaded at its first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from rappor_core.errors import MetricsFileError, ParameterError, ValueRefusedError, shown
from rappor_core.hashing import canonical

if TYPE_CHECKING:  # also read by tools that freeze an app, which look for imports
    from rappor_core.frozen import Frozen
    from rappor_core.mechanism import TwoRoundMechanism
    from rappor_core.metrics import discover_kind as discover_kind
    from rappor_core.metrics import flow_kind as flow_kind
    from rappor_core.metrics import location_kind as location_kind
    from rappor_core.metrics import number_kind as number_kind
    from rappor_core.metrics import pair_kind as pair_kind
    from rappor_core.metrics.metric import Metric

_HOMES = {
    "string": ("rappor_core.metrics.kinds", "STRING"),
    "category": ("rappor_core.metrics.kinds", "CATEGORY"),
    "boolean": ("rappor_core.metrics.kinds", "BOOLEAN"),
    "location": ("rappor_core.metrics.location_kind", "LOCATION"),
    "number": ("rappor_core.metrics.number_kind", "NUMBER"),
    "discover": ("rappor_core.metrics.discover_kind", "DISCOVER"),
    "pair": ("rappor_core.metrics.pair_kind", "PAIR"),
    "flow": ("rappor_core.metrics.flow_kind", "FLOW"),
}
_LOADED: dict[str, Kind] = {}


class Kind:
    """The rules of all metrics of one kind. Public, and without state.

    name: as in `metrics.toml`.  encodings: those that go with it, the usual one first.
    keys: of `metrics.toml`, beside those that all metrics may have.
    has_categories, located, has_details: whether `categories`, `location`, `details` belong to it.
    takes_no_data: whether it may declare `no_data`.  reserved: names that are none of its values.
    collected: the device keeps what is recorded until the period is over, and reports it then;
        the period is part of the meaning.
    takes_fixes: what a device answers is made of the places where it was.
    in_words: what is asked, for the public dictionary.
    default_cap: `max_memoized_values` where the file does not say; None: it must.
    """

    name: str
    encodings: tuple[str, ...]
    keys: Set[str] = frozenset()
    has_categories = False
    located = False
    has_details = False
    takes_no_data = False
    reserved: tuple[str, ...] = ()
    collected = False
    takes_fixes = False
    in_words = ""
    default_cap: int | None = None

    def cohort_step(self, metric: Metric) -> int:  # noqa: ARG002
        """The numbers of cohorts that a metric can have are multiples of this; 1: any number."""
        return 1

    def fewer_cohorts(self, metric: Metric) -> str:  # noqa: ARG002
        """Advice on how a metric can have fewer cohorts than `cohort_step` allows."""
        return "fewer cohorts"

    def metrics(self, name: str, table: Mapping[str, Any]) -> Iterable[Metric] | None:  # noqa: ARG002
        """Read a whole table of `metrics.toml` into metrics; None where the common reader
        serves.

        Raises MetricsFileError.
        """
        return None

    def completed(
        self,
        name: str,  # noqa: ARG002
        table: Mapping[str, Any],
        tables: Mapping[str, Any],  # noqa: ARG002
    ) -> Mapping[str, Any]:
        """Fill in a table with what it takes from other tables of the file. Raises
        MetricsFileError."""
        return table

    def encoding(self, table: Mapping[str, Any]) -> str:  # noqa: ARG002
        """The encoding, one of `encodings`, that a table of `metrics.toml` asks for."""
        return self.encodings[0]

    def shape(self, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """Read num_bits, num_hashes, num_cohorts (and hash) of a table. Raises MetricsFileError."""
        raise NotImplementedError(f"kind {self.name!r} does not read the shape of its reports")

    def mechanism(
        self, name: str, table: Mapping[str, Any], num_hashes: Any, *, single_bit: bool
    ) -> TwoRoundMechanism:
        """Read both rounds of a table: from probabilities or epsilons. Raises MetricsFileError."""
        from rappor_core.metrics.tables import read_mechanism  # only where a file is read

        return read_mechanism(name, table, num_hashes, single_bit=single_bit)

    def read_details(self, name: str, table: Mapping[str, Any]) -> Frozen | None:  # noqa: ARG002
        """Read `Metric.details`, the public tables of a kind, from the kind's own keys.

        What it returns has `to_dict()`, of plain values; it is part of the metric's meaning.
        """
        return None

    def details_from_dict(self, fields: Mapping[str, Any]) -> Frozen:
        """The inverse of `to_dict()` of what `read_details` returns. Raises ParameterError."""
        raise ParameterError(f"kind {self.name!r} has no details: {shown(fields)}")

    def check(self, metric: Metric) -> None:
        """Check the rules that this kind alone has. Raises MetricsFileError."""

    def check_fallback(self, metric: Metric) -> None:
        """Check a declared fallback. Raises MetricsFileError."""

    def check_cap(self, metric: Metric) -> None:
        """Check `max_memoized_values`, given the other keys. Raises MetricsFileError."""

    def check_no_data(self, metric: Metric) -> None:
        """Check a declared `no_data`, of a kind that takes one. Raises MetricsFileError."""

    def jittered(self, metric: Metric) -> bool:  # noqa: ARG002
        """Whether devices draw a secret constant in [0, 1) that enters the bits of their values."""
        return False

    def num_values(self, metric: Metric) -> int | None:  # noqa: ARG002
        """Number of values that a metric can take; None where there is no list of them."""
        return None

    def number(self, metric: Metric, value: object) -> float | None:
        """The number that a value is, None for no data. Raises ValueRefusedError."""
        raise wrong_type(metric, value, "no numbers")

    def text(self, metric: Metric, value: object) -> str:
        """The string that is hashed for a value. Raises ValueRefusedError."""
        if not isinstance(value, str):
            raise wrong_type(metric, value, "a string")
        return value

    def index(self, metric: Metric, value: object) -> int:
        """The index of a value in the metric's list of values. Raises ValueRefusedError."""
        raise wrong_type(metric, value, "a value of a list, which it does not have")

    def all_values(self, metric: Metric) -> Sequence[object]:
        """Every value, for a metric that has a list of them and no fallback."""
        return metric.categories

    def described(self, metric: Metric) -> tuple[str, tuple[str, ...]]:
        """What is asked, or "", and the answers, as the public dictionary says them."""
        return self.in_words, metric.categories

    def names(self, definition: Mapping[str, Any]) -> Sequence[str]:
        """Names of the values by index, from a definition made by `Metric.to_dict`; none where
        they are not listed."""
        return list(definition.get("categories", ()))


class String(Kind):
    """The kind of metric whose value is any string, in a Bloom filter."""

    name = "string"
    encodings = ("bloom",)
    takes_no_data = True
    in_words = "a text"

    def shape(self, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """Read the shape of the Bloom filter, which must be declared; `hash` is mmh3 unless it
        is."""
        from rappor_core.metrics.tables import needed  # only where a file is read

        shape = {key: needed(name, table, key) for key in ("num_bits", "num_hashes", "num_cohorts")}
        shape["hash"] = table.get("hash", "mmh3")
        return shape


class Category(Kind):
    """The kind of metric whose value is one of `categories`, each with a bit of its own."""

    name = "category"
    encodings = ("one_hot",)
    has_categories = True
    takes_no_data = True
    in_words = "one of the answers listed"

    def shape(self, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """The shape of a report: one bit for each category."""
        from rappor_core.metrics.tables import listed_shape  # only where a file is read

        return listed_shape(name, table, len(table.get("categories", ())))

    def check(self, metric: Metric) -> None:
        """Require two or more different categories, as many as bits."""
        if len(metric.categories) < 2 or len(set(metric.categories)) != len(metric.categories):
            refuse_field(metric, "categories", "needs two or more different strings")
        if len(metric.categories) != metric.params.num_bits:
            why = f"does not fit num_bits = {metric.params.num_bits}"
            refuse_field(metric, "categories", why)

    def check_fallback(self, metric: Metric) -> None:
        """Require the fallback to be one of the categories."""
        self._check_listed(metric, "fallback")

    def check_no_data(self, metric: Metric) -> None:
        """Require the value for no data to be one of the categories."""
        self._check_listed(metric, "no_data")

    def _check_listed(self, metric: Metric, key: str) -> None:
        if canonical(getattr(metric, key)) not in metric.categories:
            refuse_field(metric, key, "is not one of the categories")

    def num_values(self, metric: Metric) -> int | None:
        """Number of categories."""
        return len(metric.categories)

    def index(self, metric: Metric, value: object) -> int:
        """The place of a category in the list."""
        category = canonical(self.text(metric, value))
        if category not in metric.categories:
            raise ValueRefusedError(
                f"metric {metric.name!r}: the value is not one of its {len(metric.categories)} "
                "categories; map it to one of them first"
            )
        return metric.categories.index(category)


class Boolean(Kind):
    """True or false, in one bit."""

    name = "boolean"
    encodings = ("boolean",)
    default_cap = 2
    in_words = "yes or no"

    def shape(self, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
        """The shape of a report: one bit."""
        from rappor_core.metrics.tables import listed_shape  # only where a file is read

        return listed_shape(name, table, 1)

    def check_fallback(self, metric: Metric) -> None:
        """Refuse a fallback, which would never be sent."""
        why = "has no use: a boolean has two values, both may be memoised"
        refuse_field(metric, "fallback", why)

    def check_cap(self, metric: Metric) -> None:
        """Require `max_memoized_values` to be 2, so that both values are memoised."""
        if metric.max_memoized_values != 2:
            refuse_field(metric, "max_memoized_values", "must be 2 for a boolean")

    def num_values(self, metric: Metric) -> int | None:  # noqa: ARG002
        """Number of values: 2."""
        return 2

    def index(self, metric: Metric, value: object) -> int:
        """Index of a truth value: 0 for true, 1 for false, as `Encoding.value_names` lists them."""
        if type(value) is not bool:
            raise wrong_type(metric, value, "True or False")
        return 1 - value

    def all_values(self, metric: Metric) -> Sequence[object]:  # noqa: ARG002
        """The values True and False."""
        return (False, True)


STRING, CATEGORY, BOOLEAN = String(), Category(), Boolean()


def kind_names() -> tuple[str, ...]:
    """The names of all kinds."""
    return tuple(_HOMES)


def kind_named(name: object) -> Kind:
    """Load the kind of a name. Raises ParameterError for an unknown one."""
    if not isinstance(name, str) or name not in _HOMES:
        raise ParameterError(f"kind = {name!r} is not one of {', '.join(_HOMES)}")
    if name not in _LOADED:
        home, instance = _HOMES[name]
        _LOADED[name] = getattr(import_module(home), instance)
    return _LOADED[name]


def wrong_type(metric: Metric, value: object, wanted: str) -> ValueRefusedError:
    """The error for a value whose type the metric does not take; the message never holds the
    value."""
    hint = ""
    if isinstance(value, Set | list | tuple):
        hint = "; record its elements as metrics of their own, each charged"
    kind = type(value).__name__
    return ValueRefusedError(f"metric {metric.name!r} takes {wanted}, not a {kind}{hint}")


def refuse_field(metric: Metric, key: str, why: str) -> NoReturn:
    """Raise MetricsFileError that names the metric, the key and the value."""
    raise MetricsFileError(f"metric {metric.name!r}: {key} = {shown(getattr(metric, key))} {why}")
