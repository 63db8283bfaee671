"""`Metric`: one item that devices report, declared once in `metrics.toml`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rappor_core.errors import MetricsFileError, ParameterError, shown
from rappor_core.frozen import Frozen
from rappor_core.hashing import canonical
from rappor_core.metrics.keys import (
    DEFAULT_ACCEPT_DAYS,
    DEFAULT_MIN_REPORTS,
    DEFAULT_MIN_REPORTS_PER_COHORT,
)
from rappor_core.metrics.kinds import Kind, kind_named
from rappor_core.metrics.validation import APP, WEB, Period, Platform, check_definition
from rappor_core.params import RapporParams

if TYPE_CHECKING:
    from rappor_core.metrics.location import Location

MEANING_VERSION = 1
_OPTIONAL = {
    "location",
    "no_data",
    "min_reports_per_cohort",
    "details",
    "platforms",
    "lives",
}  # keys that a definition may omit


class Metric(Frozen):
    """A declared metric, with the data that it collects, its parameters and its limits.

    Raises MetricsFileError, which names the metric, the key and the value.
    """

    name: str  # the name; a sub-metric of a location is `name/slot/level`
    # The name of a kind in `rappor_core.metrics.kinds`, such as `string` (Bloom filter), `category`
    # (one bit for each of `categories`), `boolean` (one bit) or `location` (a cell).
    kind: str
    description: str
    owner: str
    expires: date  # the last day on which the metric is collected
    params: RapporParams
    max_memoized_values: int  # the maximum number of distinct values over the device's lifetime
    categories: tuple[str, ...] = ()
    # The value to encode after the cap on memoized values is reached; it counts toward the cap.
    fallback: str | None = None
    # The maximum number of reports over the device's lifetime; None if there is no cap.
    max_reports: int | None = None
    # period, max_reports_per_period: The maximum number of reports in each period.
    period: Period = "day"
    max_reports_per_period: int = 1
    # A day with fewer reports is merged with the next day before it is served.
    min_reports: int = DEFAULT_MIN_REPORTS
    accept_days: int = DEFAULT_ACCEPT_DAYS  # how many days reports for a day are accepted
    keep_raw_days: int = 0  # the number of days for which raw reports are stored; 0 if never
    location: Location | None = None
    # The value that a device sends for a period without a recording once it has used the metric,
    # because silence would reveal it. It counts toward the cap. None if nothing is sent.
    no_data: str | None = None
    # The minimum number of reports in each non-empty cohort. None means 100, or `min_reports` if
    # that is smaller (see `cohort_floor`).
    min_reports_per_cohort: int | None = None
    # The metric's public tables, if its kind has any. Immutable, with `to_dict()`, and part of the
    # meaning of reports.
    details: Any = None
    # Where the metric may run: `app` (storage lasts as long as the app is installed) or `web` (a
    # browser, which may delete its storage).
    platforms: tuple[Platform, ...] = (APP,)
    # The number of browser storage lifetimes that the declaration covers; only for `web`.
    lives: int | None = None

    def __post_init__(self) -> None:
        platforms: object = self.platforms  # files contain a list
        if isinstance(platforms, list):
            object.__setattr__(self, "platforms", tuple(platforms))
        object.__setattr__(self, "categories", tuple(map(canonical, self.categories)))
        check_definition(self)

    def __str__(self) -> str:
        return (
            f"{self.name} ({self.kind}): epsilon {self.epsilon_one:.2f} per report, "
            f"{self.lifetime_epsilon:.2f} over a device's lifetime, until {self.expires}"
        )

    @cached_property
    def rules(self) -> Kind:
        """Return the metric's kind, which defines its rules."""
        return kind_named(self.kind)

    @property
    def spaced(self) -> bool:
        """Return whether a minimum time between reports limits their number (mode `window`)."""
        return self.location is not None and self.location.window > 0

    @property
    def num_values(self) -> int | None:
        """Return the number of values that the metric can have; None if values are not listed."""
        return self.rules.num_values(self)

    @property
    def base_name(self) -> str:
        """Return the declared name (before `/`), which keys the ledger, cohort and responses."""
        return self.name.partition("/")[0]

    @property
    def max_permanent_responses(self) -> int:
        """Return the maximum number of permanent responses on a device; at most g for symbols."""
        return self.params.scheme.max_permanent_responses(self.params, self.max_memoized_values)

    @property
    def lifetime_epsilon(self) -> float:
        """Return the epsilon, in nats, of all reports that a device ever sends for this metric.

        In a browser, the bound holds for one lifetime of its storage; see `lifetime_epsilon_on`.
        """
        most = self.max_reports
        by_reports = math.inf if most is None else most * self.epsilon_per_report
        return min(self.max_permanent_responses * self.params.epsilon_infinity, by_reports)

    def lifetime_epsilon_on(self, platform: Platform) -> float:
        """Return `lifetime_epsilon` in nats; in a browser, summed over all declared lifetimes."""
        return self.lifetime_epsilon * ((self.lives or 1) if platform == WEB else 1)

    @property
    def cohort_floor(self) -> int:
        """Return the minimum number of reports per non-empty cohort in a served block of days."""
        if self.min_reports_per_cohort is None:
            return min(DEFAULT_MIN_REPORTS_PER_COHORT, self.min_reports)
        return self.min_reports_per_cohort

    @property
    def epsilon_one(self) -> float:
        """Return the epsilon of one report, in nats."""
        return self.params.epsilon_one

    @property
    def epsilon_per_report(self) -> float:
        """Return the cost in nats of each of `max_reports` reports; `epsilon_one` if unlimited."""
        return self.params.epsilon_per_report(self.max_reports or 1)

    @property
    def meaning(self) -> dict[str, Any]:
        """Return the fields that change what a report means; `params_id` is their digest."""
        meaning = {
            "meaning_version": MEANING_VERSION,
            "kind": self.kind,
            "categories": list(self.categories),
            **self.params.to_dict(),
        }
        if self.location is not None:
            meaning |= {"location": self.location.meaning, "period": self.period}
            if self.no_data is not None:  # otherwise `other` represents it, too
                meaning["no_data"] = self.no_data
        if self.details is not None:
            meaning["details"] = self.details.to_dict()
        if self.rules.collected or self.rules.takes_fixes:
            meaning["period"] = self.period
        return meaning

    @cached_property
    def params_id(self) -> str:
        """Return the ID of the metric's meaning: the first 32 hexadecimal digits of its SHA-256.

        The input is `meaning` as canonical JSON: keys sorted, no spaces, ASCII with \\u escapes.
        """
        canonical = json.dumps(self.meaning, sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode("ascii")).hexdigest()[:32]

    def value_bits(self, value: object, cohort: int) -> int:
        """Encode a value in a cohort as the bits B.

        Args:
            value: The value. Private: it never leaves the device.
            cohort: The cohort, from 0.

        Returns:
            B as an integer of k bits. Private.

        Raises:
            ValueRefusedError: The message names the type and the metric, never the value.
        """
        return self.params.scheme.value_bits(self, value, cohort)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as plain values, for JSON; `from_dict` reads them."""
        definition = self.to_fields()
        definition["expires"] = self.expires.isoformat()
        definition["categories"] = list(self.categories)
        definition["params"] = self.params.to_dict()
        if self.location is not None:
            definition["location"] = self.location.to_dict()
        if self.details is not None:
            definition["details"] = self.details.to_dict()
        definition["platforms"] = None if self.platforms == (APP,) else list(self.platforms)
        for key in _OPTIONAL:
            if definition[key] is None:
                del definition[key]
        return definition

    @classmethod
    def from_dict(cls, definition: Mapping[str, Any]) -> Metric:
        """Read the plain values that `to_dict` returns. Raises MetricsFileError if invalid."""
        expected = set(cls.field_names)
        expected -= _OPTIONAL - definition.keys()
        if definition.keys() != expected:
            wrong = sorted(map(ascii, definition.keys() ^ expected))
            raise MetricsFileError(f"a definition lacks or has unknown keys: {', '.join(wrong)}")
        fields = dict(definition)
        try:
            fields["params"] = RapporParams.from_dict(definition["params"])
            fields["expires"] = date.fromisoformat(definition["expires"])
            fields["categories"] = tuple(definition["categories"])
            if "platforms" in fields:
                fields["platforms"] = tuple(definition["platforms"])
            if "location" in fields:
                from rappor_core.metrics.location import Location  # imported only if needed

                fields["location"] = Location.from_dict(definition["location"])
            if "details" in fields:
                fields["details"] = _details(fields["kind"], fields["details"])
        except (TypeError, ValueError, AttributeError) as error:
            raise MetricsFileError(f"metric {shown(definition['name'])}: {error}") from error
        return cls(**fields)


def _details(kind: object, fields: Mapping[str, Any]) -> Frozen:
    details: Any = kind_named(kind).details
    if details is None:
        raise ParameterError(f"kind {kind!r} has no details: {shown(fields)}")
    read: Frozen = details.from_dict(fields)
    return read
