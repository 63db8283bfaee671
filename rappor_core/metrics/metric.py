"""`Metric`: one thing that devices report, declared once in `metrics.toml`. Public, frozen."""

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
}  # keys that a definition may lack


class Metric(Frozen):
    """A declared metric: what is collected, its parameters, and its limits.

    kind: a name of `rappor_core.metrics.kinds`: `string` (Bloom filter), `category` (one bit each
        of `categories`), `boolean` (one bit) or
        `location` (a cell of a grid; one slot and level of a declared metric, `name/slot/level`).
    expires: the last day on which it is collected.
    fallback: what is encoded past the cap on memoized values; it has its own place in the cap.
    no_data: what a device that has used the metric sends for a period in which nothing was recorded
        (a silence would tell); a value like any other in the cap. None: nothing is sent.
    max_memoized_values: distinct values for life.  max_reports: reports for life, None = no cap.
    period, max_reports_per_period: at most so many reports in each period.
    min_reports: a day with fewer is merged with the next before it is served.
    min_reports_per_cohort: likewise a day with fewer in a cohort that is not empty; None: 100, or
        `min_reports` if that is less (see `cohort_floor`).
    details: the public tables of a kind that has some, frozen, with `to_dict()`; part of the
        meaning of its reports.
    platforms: where it may run: `app` (the storage lasts as long as the app is installed), `web` (a
        browser, which may delete it).
    lives: of the storage of a browser that the declaration accounts for; with `web` only.
    accept_days: how long a day takes reports.  keep_raw_days: 0 = raw reports are never kept.

    Raises MetricsFileError that names the metric, the key and the value.
    """

    name: str
    kind: str
    description: str
    owner: str
    expires: date
    params: RapporParams
    max_memoized_values: int
    categories: tuple[str, ...] = ()
    fallback: str | None = None
    max_reports: int | None = None
    period: Period = "day"
    max_reports_per_period: int = 1
    min_reports: int = DEFAULT_MIN_REPORTS
    accept_days: int = DEFAULT_ACCEPT_DAYS
    keep_raw_days: int = 0
    location: Location | None = None
    no_data: str | None = None
    min_reports_per_cohort: int | None = None
    details: Any = None
    platforms: tuple[Platform, ...] = (APP,)
    lives: int | None = None

    def __post_init__(self) -> None:
        """Bring categories into the one form of strings; check each key alone, then together."""
        platforms: object = self.platforms  # a file has a list
        if isinstance(platforms, list):
            object.__setattr__(self, "platforms", tuple(platforms))
        object.__setattr__(self, "categories", tuple(map(canonical, self.categories)))
        check_definition(self)

    def __str__(self) -> str:
        """In short: name, kind, epsilons, last day."""
        return (
            f"{self.name} ({self.kind}): epsilon {self.epsilon_one:.2f} a report, "
            f"{self.lifetime_epsilon:.2f} for life, until {self.expires}"
        )

    @cached_property
    def rules(self) -> Kind:
        """Return the rules of the metric's kind."""
        return kind_named(self.kind)

    @property
    def spaced(self) -> bool:
        """Whether the time between two reports bounds them, by the declared name (a location)."""
        return self.location is not None and self.location.window > 0

    @property
    def num_values(self) -> int | None:
        """Number of values that the metric can take; None where there is no list of them."""
        return self.rules.num_values(self)

    @property
    def base_name(self) -> str:
        """The declared name (up to `/`): of ledger, cohort and permanent response of all parts."""
        return self.name.partition("/")[0]

    @property
    def max_permanent_responses(self) -> int:
        """Number of permanent responses that a device can come to hold; of symbols at most g."""
        return self.params.scheme.max_permanent_responses(self.params, self.max_memoized_values)

    @property
    def lifetime_epsilon(self) -> float:
        """Bound of all reports that a device ever sends about this metric, nats.

        In a browser: in one life of its storage; see `lifetime_epsilon_on`.
        """
        most = self.max_reports
        by_reports = math.inf if most is None else most * self.epsilon_per_report
        return min(self.max_permanent_responses * self.params.epsilon_infinity, by_reports)

    def lifetime_epsilon_on(self, platform: Platform) -> float:
        """Bound as `lifetime_epsilon`, nats; in a browser, over all the declared lives."""
        return self.lifetime_epsilon * ((self.lives or 1) if platform == WEB else 1)

    @property
    def cohort_floor(self) -> int:
        """Least number of reports in each non-empty cohort of a served block."""
        if self.min_reports_per_cohort is None:
            return min(DEFAULT_MIN_REPORTS_PER_COHORT, self.min_reports)
        return self.min_reports_per_cohort

    @property
    def epsilon_one(self) -> float:
        """Bound of one report, nats."""
        return self.params.epsilon_one

    @property
    def epsilon_per_report(self) -> float:
        """Nats that each of `max_reports` reports counts; `epsilon_one` without that limit."""
        return self.params.epsilon_per_report(self.max_reports or 1)

    @property
    def meaning(self) -> dict[str, Any]:
        """The fields that change what a report means; `params_id` is their digest."""
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
        """32 hexadecimal digits: the first half of SHA-256 over `meaning` as canonical JSON.

        Canonical: keys sorted, no spaces, ASCII with \\u escapes.
        """
        canonical = json.dumps(self.meaning, sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode("ascii")).hexdigest()[:32]

    def value_bits(self, value: object, cohort: int) -> int:
        """Encode a value in a cohort as the bits B.

        Args:
            value: Private: it never leaves the device.
            cohort: From 0.

        Returns:
            B as an integer of k bits. Private.

        Raises:
            ValueRefusedError: The message names the type and the metric, never the value.
        """
        return self.params.scheme.value_bits(self, value, cohort)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition in plain values, for JSON; `from_dict` is the inverse."""
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
        """Read `to_dict`'s form. Raises MetricsFileError that names what is wrong."""
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
                from rappor_core.metrics.location import Location  # only where there is one

                fields["location"] = Location.from_dict(definition["location"])
            if "details" in fields:
                fields["details"] = _details(fields["kind"], fields["details"])
        except (TypeError, ValueError, AttributeError) as error:
            raise MetricsFileError(f"metric {shown(definition['name'])}: {error}") from error
        return cls(**fields)


def _details(kind: object, fields: Mapping[str, Any]) -> Frozen:
    """Read the details of a definition. Raises ParameterError."""
    details: Any = kind_named(kind).details
    if details is None:
        raise ParameterError(f"kind {kind!r} has no details: {shown(fields)}")
    read: Frozen = details.from_dict(fields)
    return read
