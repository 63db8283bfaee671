"""`Association`: two metrics of one device whose reports of a day travel together.

It declares no values and no noise of its own: both metrics are collected as before. What it adds is
that the collector sees which two reports are of one device, and counts their bits together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn

from rappor_core.errors import MetricsFileError, shown
from rappor_core.frozen import Frozen
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.validation import APP, NAME

if TYPE_CHECKING:
    from rappor_core.metrics.metrics_file import MetricsFile

MEANING_VERSION = 1
MOST_PAIRS_OF_BITS = 1 << 14  # counters of one cohort: 64 kB a day
MOST_COUNTERS = 1 << 20  # over all cohorts: 4 MB a day
MOST_ASSOCIATIONS = 64  # of one file
_KEYS = {"description", "owner", "expires", "of"}
_OPTIONAL = {"keep_raw_days"}
MOST_RAW_DAYS = 3_650


class Association(Frozen):
    """A declared association of two metrics, which share one cohort.

    expires: the last day whose reports are linked; from then on the two travel apart.
    first, second: the metrics, in the order of the columns of its counters.
    keep_raw_days: how long the collector keeps linked reports, both together; 0 keeps none.

    Raises MetricsFileError that names the association, the key and the value.
    """

    name: str
    description: str
    owner: str
    expires: date
    first: Metric
    second: Metric
    keep_raw_days: int = 0

    def __post_init__(self) -> None:
        """Check each key alone, then what the two metrics must have in common."""
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise MetricsFileError(
                f"association name {shown(self.name)}: use a lower-case letter, then up to 63 of "
                "a-z 0-9 _.-"
            )
        for key in ("description", "owner"):
            if not isinstance(getattr(self, key), str) or not getattr(self, key).strip():
                self._refuse(key, "is empty; say what is linked and who answers for it")
        if type(self.expires) is not date:
            self._refuse("expires", "is not a date such as 2027-06-30")
        if type(self.keep_raw_days) is not int or not 0 <= self.keep_raw_days <= MOST_RAW_DAYS:
            self._refuse("keep_raw_days", f"is not a whole number from 0 to {MOST_RAW_DAYS:,}")
        for metric in self.metrics:
            self._check_metric(metric)
        self._check_together()
        self._check_rules()

    @property
    def metrics(self) -> tuple[Metric, Metric]:
        """The two metrics, in the order of the association."""
        return self.first, self.second

    @property
    def of(self) -> tuple[str, str]:
        """Names of the two metrics."""
        return self.first.name, self.second.name

    @property
    def key(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The identity of the reports that it links: (name, params_id) of each metric."""
        return (
            (self.first.name, self.first.params_id),
            (self.second.name, self.second.params_id),
        )

    @property
    def num_cohorts(self) -> int:
        """Number of cohorts that the two metrics share; a metric with one cohort is counted in
        each of them."""
        return max(metric.params.num_cohorts for metric in self.metrics)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bits of each metric."""
        return self.first.params.num_bits, self.second.params.num_bits

    @property
    def min_reports(self) -> int:
        """Least number of linked reports in a block of closed days that is served."""
        return max(metric.min_reports for metric in self.metrics)

    @property
    def cohort_floor(self) -> int:
        """Least number of linked reports in each non-empty cohort of a served block, and of each
        metric's remaining reports."""
        return max(metric.cohort_floor for metric in self.metrics)

    @property
    def accept_days(self) -> int:
        """How many days after it a day takes linked reports: as long as both metrics take
        theirs. It closes when both metrics have closed it."""
        return min(metric.accept_days for metric in self.metrics)

    @cached_property
    def params_id(self) -> str:
        """Digest of the association's meaning: 32 hexadecimal digits of SHA-256 over canonical
        JSON."""
        meaning = {"meaning_version": MEANING_VERSION, "association": self.key}
        canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode("ascii")).hexdigest()[:32]

    def to_dict(self) -> dict[str, Any]:
        """The definition in plain values, for JSON; `from_dict` is the inverse."""
        fields: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "owner": self.owner,
            "expires": self.expires.isoformat(),
            "of": list(self.of),
            "params_ids": [metric.params_id for metric in self.metrics],
        }
        return fields | ({"keep_raw_days": self.keep_raw_days} if self.keep_raw_days else {})

    @classmethod
    def from_dict(
        cls, definition: Mapping[str, Any], metrics: Mapping[tuple[str, str], Metric]
    ) -> Association:
        """Read `to_dict`'s form. metrics: by (name, params_id). Raises MetricsFileError."""
        keys = _KEYS | {"name", "params_ids"}
        if not isinstance(definition, dict) or definition.keys() - _OPTIONAL != keys:
            raise MetricsFileError(f"an association is not an object of {', '.join(sorted(keys))}")
        try:
            names, ids = definition["of"], definition["params_ids"]
            both = [metrics[key] for key in zip(names, ids, strict=True)]
            first, second = both
            expires = date.fromisoformat(definition["expires"])
        except (TypeError, ValueError, LookupError) as error:
            where = f"association {shown(definition['name'])}"
            raise MetricsFileError(f"{where}: {type(error).__name__}: {error}") from error
        plain = {key: definition[key] for key in ("name", "description", "owner")}
        kept = definition.get("keep_raw_days", 0)
        return cls(**plain, expires=expires, first=first, second=second, keep_raw_days=kept)

    def _check_metric(self, metric: Metric) -> None:
        if metric.location is not None or metric.details is not None:
            self._refuse("of", f"names {metric.name!r}, of kind {metric.kind!r}: its reports are "
                         "not linked; strings, categories and booleans are")  # fmt: skip

    def _check_together(self) -> None:
        first, second = self.metrics
        if first.name == second.name:
            self._refuse("of", "names one metric twice")
        cohorts = {metric.params.num_cohorts for metric in self.metrics}
        if len(cohorts - {1}) > 1:
            self._refuse("of", f"names metrics with num_cohorts = {first.params.num_cohorts} and "
                         f"{second.params.num_cohorts}: they share a cohort, so give both the "
                         "same, or 1 to one that hashes nothing")  # fmt: skip
        pairs = self.shape[0] * self.shape[1]
        if pairs > MOST_PAIRS_OF_BITS:
            self._refuse("of", f"has {self.shape[0]} x {self.shape[1]} pairs of bits; "
                         f"{MOST_PAIRS_OF_BITS:,} are counted: use fewer num_bits")  # fmt: skip
        counters = self.num_cohorts * (pairs + sum(self.shape))
        if counters > MOST_COUNTERS:
            self._refuse("of", f"needs {counters:,} counters a day; {MOST_COUNTERS:,} are kept: "
                         "use fewer num_bits or num_cohorts")  # fmt: skip

    def _check_rules(self) -> None:
        """Check what is declared of the metrics besides the meaning of their reports."""
        first, second = self.metrics
        for metric in self.metrics:
            if metric.max_reports_per_period != 1:
                limit = f"max_reports_per_period = {metric.max_reports_per_period}"
                self._refuse("of", f"names {metric.name!r}, which has {limit}: one is linked")
            if metric.platforms != (APP,):
                self._refuse(
                    "of", f"names {metric.name!r}, which is for platforms other than 'app'"
                )
        if first.period != second.period:
            self._refuse("of", f"names metrics with period = {first.period!r} and "
                         f"{second.period!r}: give both the same")  # fmt: skip
        if second.cohort_with != self.cohort_of_second:
            self._refuse("of", f"needs the cohort of {second.name!r} to be that of {first.name!r}")
        if first.cohort_with is not None:
            self._refuse("of", f"names {first.name!r}, whose cohort is that of another metric")

    @property
    def cohort_of_second(self) -> str | None:
        """Name of the metric whose cohort the second metric takes over; None where it keeps its
        own."""
        hashed = all(metric.params.num_cohorts > 1 for metric in self.metrics)
        return self.first.name if hashed else None

    def _refuse(self, key: str, why: str) -> NoReturn:
        value = shown(list(self.of) if key == "of" else getattr(self, key))
        raise MetricsFileError(f"association {self.name!r}: {key} = {value} {why}")


class CountedAssociation(Association):
    """An association whose metrics may have been declared anew since, under the same `params_id`.

    What was counted stays what it is, so no rule about them is checked that `params_id` leaves out.
    """

    def _check_rules(self) -> None:
        """Nothing: a later declaration need not be linked."""


def with_declared(file: MetricsFile, tables: object) -> MetricsFile:
    """Read `[associations.NAME]` of a metrics.toml, whose metrics were read.

    Returns the file with them; some of its metrics share the cohort of another then. Raises
    MetricsFileError.
    """
    if not isinstance(tables, dict):
        raise MetricsFileError("associations is not a table")
    known, found = dict(file.metrics), []
    for name, table in tables.items():
        if not isinstance(table, dict) or table.keys() - _OPTIONAL != _KEYS:
            wrong = (
                sorted(table.keys() - _OPTIONAL ^ _KEYS)
                if isinstance(table, dict)
                else ["it is no table"]
            )
            raise MetricsFileError(
                f"association {name!r}: missing or unknown keys: {', '.join(map(shown, wrong))}; "
                f"it has {', '.join(sorted(_KEYS))}"
            )
        first, second = _named(name, table["of"], known)
        if first.params.num_cohorts > 1 and second.params.num_cohorts > 1:
            second = second.replace(cohort_with=first.name)
        fields = {key: table[key] for key in table if key != "of"}
        found.append(Association(name=name, first=first, second=second, **fields))
        known[second.name] = second
    check_associations(found, known)
    return file.replace(metrics=known, associations=tuple(found))


def check_associations(found: Sequence[Association], metrics: Mapping[str, Metric]) -> None:
    """Check what a file's associations must have in common. Raises MetricsFileError."""
    if len(found) > MOST_ASSOCIATIONS:
        raise MetricsFileError(f"{len(found)} associations; {MOST_ASSOCIATIONS} at most")
    taken: dict[str, str] = {}
    names: set[str] = set()
    for one in found:
        if one.name in metrics or one.name in names:
            raise MetricsFileError(f"association {one.name!r}: a metric has this name, or another")
        names.add(one.name)
        for name in one.of:
            if name in taken:
                raise MetricsFileError(
                    f"association {one.name!r}: {name!r} is in association {taken[name]!r} "
                    "already; the report of a metric is linked with one other"
                )
            taken[name] = one.name
    shared = {one.second.name for one in found if one.cohort_of_second is not None}
    for metric in metrics.values():
        if metric.cohort_with is not None and metric.name not in shared:
            raise MetricsFileError(
                f"metric {metric.name!r}: cohort_with = {metric.cohort_with!r}, and no association "
                "links the two"
            )


def with_compiled(file: MetricsFile, rows: object) -> MetricsFile:
    """Add the associations of a compiled file to its metrics; rows: () where it has none. Raises
    MetricsFileError."""
    if not isinstance(rows, list | tuple) or rows == []:
        raise MetricsFileError("associations is not a list of one or more")
    by_version = {(metric.name, metric.params_id): metric for metric in file.metrics.values()}
    found = []
    for row in rows:
        if not isinstance(row, dict) or row.keys() != {"params_id", "definition"}:
            raise MetricsFileError(f"an association is not an object of two: {shown(row)}")
        one = Association.from_dict(row["definition"], by_version)
        if one.params_id != row["params_id"] or one.to_dict() != row["definition"]:
            raise MetricsFileError(
                f"association {one.name!r} is not as `rappor metrics compile` writes it"
            )
        found.append(one)
    check_associations(found, file.metrics)
    return file.replace(associations=tuple(found))


def compiled_rows(associations: Iterable[Association]) -> list[dict[str, Any]]:
    """The associations as plain values for the compiled file, as `with_compiled` reads them."""
    return [{"params_id": one.params_id, "definition": one.to_dict()} for one in associations]


def _named(name: str, names: object, metrics: Mapping[str, Metric]) -> tuple[Metric, Metric]:
    if not isinstance(names, list) or len(names) != 2 or not all(isinstance(n, str) for n in names):
        raise MetricsFileError(f"association {name!r}: of = {shown(names)} is not two names")
    for one in names:
        if one not in metrics:
            raise MetricsFileError(f"association {name!r}: metric {shown(one)} is not declared")
    return metrics[names[0]], metrics[names[1]]
