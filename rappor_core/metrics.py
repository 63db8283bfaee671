"""`Metric`: one thing that devices report, declared once in `metrics.toml`. Public, frozen."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Set
from datetime import date
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, get_args

from rappor_core.errors import MetricsFileError, ParameterError, ValueRefusedError, shown
from rappor_core.frozen import Frozen
from rappor_core.hashing import bloom_bits, canonical, normalise
from rappor_core.params import Encoding, RapporParams
from rappor_core.reserved import OTHER

if TYPE_CHECKING:
    from rappor_core.metrics_location import Location

Kind = Literal["string", "category", "boolean", "location"]
Period = Literal["day", "week", "month"]

DEFAULT_MIN_REPORTS = 1_000
DEFAULT_ACCEPT_DAYS = 7
MAX_ACCEPT_DAYS = 90
MAX_REPORTS_FOR_LIFE = 10**9
MEANING_VERSION = 1

_ENCODINGS: dict[str, tuple[Encoding, ...]] = {
    "string": ("bloom",),
    "category": ("one_hot",),
    "boolean": ("boolean",),
    "location": ("bloom", "one_hot", "symbol"),
}
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}", re.ASCII)


class Metric(Frozen):
    """A declared metric.

    kind: `string` (Bloom filter), `category` (one bit each of `categories`), `boolean` (one bit) or
        `location` (a cell of a grid; one slot and level of a declared metric, `name/slot/level`).
    expires: the last day on which it is collected.
    fallback: what is encoded past the cap on memoised values; it has its own place in the cap.
    no_data: what a device that has used the metric sends for a period in which nothing was recorded
        (a silence would tell); a value like any other in the cap. None: nothing is sent.
    max_memoized_values: distinct values for life.  max_reports: reports for life, None = no cap.
    period, max_reports_per_period: at most so many reports in each period.
    min_reports: a day with fewer is merged with the next before it is served.
    accept_days: how long a day takes reports.  keep_raw_days: 0 = raw reports are never kept.

    Raises MetricsFileError that names the metric, the key and the value.
    """

    name: str
    kind: Kind
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

    def __post_init__(self) -> None:
        """Bring categories into the one form of strings; check each key alone, then together."""
        object.__setattr__(self, "categories", tuple(map(canonical, self.categories)))
        self._check_name()
        self._check_choices()
        self._check_numbers()
        self._check_categories()
        self._check_location()
        self._check_no_data()
        self._check_lifetime()

    def _check_name(self) -> None:
        location = self.location
        place = "" if location is None else f"/{location.slot}/{location.level}"
        if (
            not isinstance(self.name, str)
            or not self.name.endswith(place)
            or not _NAME.fullmatch(self.name.removesuffix(place))
        ):
            raise MetricsFileError(
                f"metric name {self.name!r}: use a lower-case letter, then up to 63 of a-z 0-9 _.-"
                + (f", then {place!r}" if place else "")
            )

    def _check_choices(self) -> None:
        for key, choices in (("kind", get_args(Kind)), ("period", get_args(Period))):
            if getattr(self, key) not in choices:
                self._refuse(key, f"is not one of {', '.join(choices)}")
        for key in ("description", "owner"):
            if not isinstance(getattr(self, key), str) or not getattr(self, key).strip():
                self._refuse(key, "is empty; say what is collected and who answers for it")
        if type(self.fallback) not in (str, type(None)):
            self._refuse("fallback", "is not a string")
        if type(self.expires) is not date:
            self._refuse("expires", "is not a date such as 2027-06-30")
        if self.params.encoding not in _ENCODINGS[self.kind]:
            self._refuse("kind", f"does not go with encoding {self.params.encoding!r}")

    def _check_numbers(self) -> None:
        for key, lowest, highest in (
            ("max_memoized_values", 1, 1_000_000),
            ("max_reports_per_period", 1, 10_000),
            ("min_reports", 1, 10**9),
            ("accept_days", 0, MAX_ACCEPT_DAYS),
            ("keep_raw_days", 0, 3650),
        ):
            value = getattr(self, key)
            if type(value) is not int or not lowest <= value <= highest:
                self._refuse(key, f"is not a whole number from {lowest} to {highest:,}")
        if self.max_reports is not None and (
            type(self.max_reports) is not int or not 1 <= self.max_reports <= MAX_REPORTS_FOR_LIFE
        ):
            self._refuse("max_reports", f"is not a whole number from 1 to {MAX_REPORTS_FOR_LIFE:,}")

    def _check_categories(self) -> None:
        if self.kind != "category":
            if self.categories:
                self._refuse("categories", "goes with kind = 'category' only")
            return
        if len(self.categories) < 2 or len(set(self.categories)) != len(self.categories):
            self._refuse("categories", "needs two or more different strings")
        if len(self.categories) != self.params.num_bits:
            self._refuse("categories", f"does not fit num_bits = {self.params.num_bits}")

    def _check_location(self) -> None:
        if (self.location is None) != (self.kind != "location"):
            self._refuse("location", "goes with kind = 'location', which needs it")
        if self.location is None:
            return
        if self.fallback != OTHER:
            self._refuse("fallback", f"is not {OTHER!r}, the one reserved value of a location")
        if self.max_reports_per_period != 1:
            self._refuse("max_reports_per_period", "is not 1: one report a slot and period")
        if (self.location.mode == "memo") != self.params.mechanism.has_permanent_round:
            self._refuse("params", "do not go with its mode: only 'memo' has a permanent response")
        if self.params.encoding == "one_hot" and self.params.num_bits != self.num_values:
            self._refuse("params", f"need one bit for each of the {self.num_values} values")

    def _check_lifetime(self) -> None:
        if not self.params.mechanism.has_permanent_round and self.max_reports is None:
            self._refuse(
                "max_reports",
                "is missing: without a permanent response (prob_f = 0) nothing else bounds "
                "what a device tells in its life",
            )
        if self.fallback is None:
            if self.num_values is None or self.num_values > self.max_memoized_values:
                self._refuse("fallback", "is missing: say what is sent past max_memoized_values")
        elif self.kind == "boolean":
            self._refuse("fallback", "has no use: a boolean has two values, both may be memoised")
        elif self.kind == "category" and canonical(self.fallback) not in self.categories:
            self._refuse("fallback", "is not one of the categories")
        taken = {canonical(v) for v in (self.fallback, self.no_data) if v is not None}
        if self.params.mechanism.has_permanent_round and self.max_memoized_values <= len(taken):
            self._refuse(
                "max_memoized_values",
                "leaves no place beside fallback and no_data, which alone would ever be sent; "
                f"use {len(taken) + 1} or more",
            )
        if self.kind == "boolean" and self.max_memoized_values != 2:
            self._refuse("max_memoized_values", "must be 2 for a boolean")

    def _check_no_data(self) -> None:
        if self.no_data is None:
            return
        if type(self.no_data) is not str or self.kind not in ("string", "category"):
            self._refuse("no_data", "is not a string, or its metric no 'string' or 'category'")
        if self.kind == "category" and canonical(self.no_data) not in self.categories:
            self._refuse("no_data", "is not one of the categories")

    def _refuse(self, key: str, why: str) -> None:
        raise MetricsFileError(f"metric {self.name!r}: {key} = {shown(getattr(self, key))} {why}")

    @property
    def num_values(self) -> int | None:
        """How many values it can take; None where there is no list of them."""
        if self.kind == "location" and self.params.encoding == "one_hot" and self.location:
            return len(self.location.domain)
        return {"boolean": 2, "category": len(self.categories)}.get(self.kind)

    @property
    def base_name(self) -> str:
        """The declared name: of the ledger, the cohort and the permanent response of its parts."""
        return self.name.partition("/")[0]

    @property
    def max_permanent_responses(self) -> int:
        """How many permanent responses a device can come to hold: with g symbols, at most g."""
        if self.params.encoding == "symbol":
            return min(self.max_memoized_values, self.params.num_bits)
        return self.max_memoized_values

    @property
    def lifetime_epsilon(self) -> float:
        """Nats: the bound for all reports that a device ever sends about this metric."""
        by_reports = math.inf if self.max_reports is None else self.max_reports * self.epsilon_one
        return min(self.max_permanent_responses * self.params.epsilon_infinity, by_reports)

    @property
    def epsilon_one(self) -> float:
        """Nats, for one report."""
        return self.params.epsilon_one

    @property
    def meaning(self) -> dict[str, Any]:
        """Exactly the fields that change what a report means; `params_id` is their digest."""
        meaning = {
            "meaning_version": MEANING_VERSION,
            "kind": self.kind,
            "categories": list(self.categories),
            **self.params.to_dict(),
        }
        if self.location is not None:
            meaning |= {"location": self.location.meaning, "period": self.period}
        return meaning

    @cached_property
    def params_id(self) -> str:
        """32 hexadecimal digits: the first half of SHA-256 over `meaning` as canonical JSON.

        Canonical: keys sorted, no spaces, ASCII with \\u escapes.
        """
        canonical = json.dumps(self.meaning, sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode("ascii")).hexdigest()[:32]

    def value_bits(self, value: object, cohort: int) -> int:
        """B of a value in a cohort, as an integer of k bits. Private: it never leaves the device.

        Raises ValueRefusedError; the message names the type and the metric, never the value.
        """
        if self.kind == "boolean":
            if type(value) is not bool:
                raise self._wrong_type(value, "True or False")
            return int(value)
        if not isinstance(value, str):
            raise self._wrong_type(value, "a string")
        if self.location is not None and self.params.encoding == "one_hot":
            domain = self.location.domain
            return 1 << domain.get(value, domain[OTHER])
        if self.kind in ("string", "location"):
            return bloom_bits(normalise(value), cohort, self.params)
        category = canonical(value)
        if category not in self.categories:
            raise ValueRefusedError(
                f"metric {self.name!r}: the value is not one of its {len(self.categories)} "
                "categories; map it to one of them first"
            )
        return 1 << self.categories.index(category)

    def _wrong_type(self, value: object, wanted: str) -> ValueRefusedError:
        hint = ""
        if isinstance(value, Set | list | tuple):
            hint = "; record its elements as metrics of their own, each charged"
        kind = type(value).__name__
        return ValueRefusedError(f"metric {self.name!r} takes {wanted}, not a {kind}{hint}")

    def to_dict(self) -> dict[str, Any]:
        """The definition in plain values, for JSON; `from_dict` is the inverse."""
        definition = self.to_fields()
        definition["expires"] = self.expires.isoformat()
        definition["categories"] = list(self.categories)
        definition["params"] = self.params.to_dict()
        if self.location is None:
            del definition["location"]
        else:
            definition["location"] = self.location.to_dict()
        if self.no_data is None:
            del definition["no_data"]
        return definition

    @classmethod
    def from_dict(cls, definition: Mapping[str, Any]) -> Metric:
        """Read `to_dict`'s form. Raises MetricsFileError that names what is wrong."""
        expected = set(cls.field_names)
        if definition.get("kind") != "location":
            expected.remove("location")
        if "no_data" not in definition:
            expected.remove("no_data")
        if definition.keys() != expected:
            wrong = sorted(map(ascii, definition.keys() ^ expected))
            raise MetricsFileError(f"a definition lacks or has unknown keys: {', '.join(wrong)}")
        known = dict(definition)
        try:
            known["params"] = RapporParams.from_dict(definition["params"])
            known["expires"] = date.fromisoformat(definition["expires"])
            known["categories"] = tuple(definition["categories"])
            if "location" in known:
                from rappor_core.metrics_location import Location  # only where there is one

                known["location"] = Location.from_dict(definition["location"])
        except (TypeError, ValueError, AttributeError) as error:
            raise MetricsFileError(f"metric {shown(definition['name'])}: {error}") from error
        return cls(**known)


def encodings_of(kind: str) -> tuple[Encoding, ...]:
    """The encodings that go with a kind of metric, the usual one first.

    Raises ParameterError for an unknown kind.
    """
    if not isinstance(kind, str) or kind not in _ENCODINGS:
        raise ParameterError(f"kind = {kind!r} is not one of {', '.join(get_args(Kind))}")
    return _ENCODINGS[kind]
