"""The metric kinds `string`, `category` (an item from a list) and `boolean`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rappor_core.errors import MetricsFileError, ValueRefusedError
from rappor_core.hashing import canonical
from rappor_core.metrics.keys import (
    ALWAYS,
    FALLBACK,
    HASH,
    MAX_MEMOIZED_VALUES,
    MAX_REPORTS_PER_PERIOD,
    NO_DATA_KEY,
    NOISE_KEYS,
    NUM_BITS,
    NUM_COHORTS,
    NUM_HASHES,
    TEXTS,
    VALUE_KEYS,
    Key,
)
from rappor_core.metrics.kinds import Kind, refuse_field, wrong_type

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric
    from rappor_core.metrics.tables import MetricTable

FIXED_SHAPE = ("num_bits", "num_hashes", "hash")
ONE_COHORT = NUM_COHORTS.replace(default=1, needed_when="")


class String(Kind):
    """The metric kind whose value is any string, encoded in a Bloom filter."""

    name = "string"
    encodings = ("bloom",)
    keys = (NUM_BITS, NUM_HASHES, NUM_COHORTS, HASH, *NOISE_KEYS, *VALUE_KEYS, NO_DATA_KEY)
    free_text = True
    in_words = "a text"

    def shape(self, table: MetricTable) -> dict[str, Any]:
        """Return the shape of the Bloom filter."""
        return {key: table[key] for key in ("num_bits", "num_hashes", "num_cohorts", "hash")}


class Category(Kind):
    """The metric kind whose value is one of `categories`, with one bit each."""

    name = "category"
    encodings = ("one_hot",)
    keys = (
        Key("categories", TEXTS, None, "Two or more; a new order is a new metric.", ALWAYS),
        ONE_COHORT,
        *NOISE_KEYS,
        *VALUE_KEYS,
        NO_DATA_KEY,
    )
    fixed_keys = FIXED_SHAPE
    in_words = "one of the answers listed"

    def declared_values(self, table: Mapping[str, Any]) -> Any:
        """Return the declared categories."""
        return table.get("categories")

    def fields(self, table: MetricTable) -> Iterator[dict[str, Any]]:
        """Yield the fields of the metric, with its categories."""
        for fields in super().fields(table):
            yield {**fields, "categories": tuple(table["categories"])}

    def shape(self, table: MetricTable) -> dict[str, Any]:
        """Return the shape of a report: one bit for each category."""
        listed = table["categories"]
        if not isinstance(listed, list) or not all(isinstance(c, str) for c in listed):
            table.refuse("categories", "is not a list of text")
        if not listed:
            raise MetricsFileError(f"metric {table.name!r}: categories is missing")
        return {"num_bits": len(listed), "num_hashes": 1, "num_cohorts": table["num_cohorts"]}

    def check(self, metric: Metric) -> None:
        """Require two or more distinct categories, one bit each, that include reserved values."""
        if len(metric.categories) < 2 or len(set(metric.categories)) != len(metric.categories):
            refuse_field(metric, "categories", "needs two or more different strings")
        if len(metric.categories) != metric.params.num_bits:
            why = f"does not fit num_bits = {metric.params.num_bits}"
            refuse_field(metric, "categories", why)
        for key in ("fallback", "no_data"):
            value = getattr(metric, key)
            if value is not None and canonical(value) not in metric.categories:
                refuse_field(metric, key, "is not one of the categories")

    def num_values(self, metric: Metric) -> int | None:
        """Return the number of categories."""
        return len(metric.categories)

    def index(self, metric: Metric, value: object) -> int:
        """Return the index of a category in the list."""
        category = canonical(self.text(metric, value))
        if category not in metric.categories:
            raise ValueRefusedError(
                f"metric {metric.name!r}: the value is not one of its {len(metric.categories)} "
                "categories; map it to one of them first"
            )
        return metric.categories.index(category)


class Boolean(Kind):
    """The metric kind whose value is true or false, in one bit."""

    name = "boolean"
    encodings = ("boolean",)
    keys = (
        ONE_COHORT,
        *NOISE_KEYS,
        MAX_MEMOIZED_VALUES.replace(default=2),
        FALLBACK,
        MAX_REPORTS_PER_PERIOD,
    )
    fixed_keys = FIXED_SHAPE
    in_words = "yes or no"

    def declared_values(self, table: Mapping[str, Any]) -> Any:  # noqa: ARG002
        """Return the values false and true."""
        return [False, True]

    def shape(self, table: MetricTable) -> dict[str, Any]:
        """Return the shape of a report: one bit."""
        return {"num_bits": 1, "num_hashes": 1, "num_cohorts": table["num_cohorts"]}

    def check(self, metric: Metric) -> None:
        """Require a cap of 2 (one for each value) and no fallback, which would never be sent."""
        if metric.fallback is not None:
            why = "has no use: a boolean has two values, both may be memoized"
            refuse_field(metric, "fallback", why)
        if metric.max_memoized_values != 2:
            refuse_field(metric, "max_memoized_values", "must be 2 for a boolean")

    def num_values(self, metric: Metric) -> int | None:  # noqa: ARG002
        """Return the number of values: 2."""
        return 2

    def index(self, metric: Metric, value: object) -> int:
        """Return 0 for true and 1 for false, the order of `Encoding.value_names`."""
        if type(value) is not bool:
            raise wrong_type(metric, value, "True or False")
        return 1 - value

    def all_values(self, metric: Metric) -> Sequence[object]:  # noqa: ARG002
        """Return the values False and True."""
        return (False, True)


STRING, CATEGORY, BOOLEAN = String(), Category(), Boolean()
