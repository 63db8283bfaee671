"""The `Aggregate`: report counts that leave the collector, without any individual report."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date, timedelta
from typing import Any

from rappor_core.errors import AggregateError, WireFormatError, shown
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.strict_json import parse_strict_json

AGGREGATE_VERSION = 1
MAX_COUNT = 1 << 53  # the largest count that a double holds exactly


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The report counts for one metric over a window of closed days.

    Raises AggregateError if the counts have the wrong shape or no set of reports can produce them.
    """

    metric: str  # the name of the metric
    params: RapporParams  # the parameters with which the reports were made
    reports_per_cohort: tuple[int, ...]  # the number of reports in each cohort, N_j: m integers
    # c_ij, the number of reports that set each bit: m rows of k integers, with 0 <= c_ij <= N_j.
    bit_counts: tuple[tuple[int, ...], ...]
    # The digest of everything that defines what the reports mean, or "" if unknown.
    params_id: str = ""
    # first_day, last_day: The window, inclusive, UTC. None if unknown (files from google/rappor).
    first_day: date | None = None
    last_day: date | None = None
    # The metric as declared (`Metric.to_dict`), or empty.
    definition: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        params = self.params
        if len(self.reports_per_cohort) != params.num_cohorts:
            raise AggregateError(
                f"{len(self.reports_per_cohort)} cohorts of reports; "
                f"the parameters say num_cohorts = {params.num_cohorts}"
            )
        if len(self.bit_counts) != params.num_cohorts:
            raise AggregateError(
                f"{len(self.bit_counts)} rows of bit counts; "
                f"the parameters say num_cohorts = {params.num_cohorts}"
            )
        for cohort, (total, row) in enumerate(
            zip(self.reports_per_cohort, self.bit_counts, strict=True)
        ):
            _check_cohort(cohort, total, row, params.num_bits)
        if (self.first_day is None) != (self.last_day is None):
            raise AggregateError(
                f"the window {self.first_day} to {self.last_day} has one end; give both or none"
            )
        if self.first_day and self.last_day and self.first_day > self.last_day:
            raise AggregateError(f"the window {self.first_day} to {self.last_day} runs backwards")

    @property
    def num_reports(self) -> int:
        """Return N, the total number of reports in all cohorts."""
        return sum(self.reports_per_cohort)

    def merge(self, other: Aggregate) -> Aggregate:
        """Add the counts of a second aggregate for the same metric and parameters.

        Raises AggregateError if the two windows overlap, because reports would count twice.
        """
        meanings = [(item.metric, item.params_id, item.params) for item in (self, other)]
        if meanings[0] != meanings[1]:
            raise AggregateError(
                f"{self.metric!r} ({self.params_id}) and {other.metric!r} ({other.params_id}) "
                "have different meanings and cannot be added"
            )
        check_apart(self, other)
        days = [d for a in (self, other) for d in (a.first_day, a.last_day) if d is not None]
        return replace(
            self,
            reports_per_cohort=_added(self.reports_per_cohort, other.reports_per_cohort),
            bit_counts=tuple(map(_added, self.bit_counts, other.bit_counts)),
            first_day=min(days, default=None),
            last_day=max(days, default=None),
        )

    def without(self, cohorts: Collection[int]) -> Aggregate:
        """Return a copy of the aggregate with the given cohorts removed.

        Raises AggregateError if a cohort is unknown, or if no report would be left.
        """
        if not cohorts:
            return self
        unknown = [cohort for cohort in cohorts if not 0 <= cohort < self.params.num_cohorts]
        if unknown:
            raise AggregateError(
                f"cohort {unknown[0]} is not one of 0 to {self.params.num_cohorts - 1}"
            )
        reports, counts = list(self.reports_per_cohort), list(self.bit_counts)
        for cohort in cohorts:
            reports[cohort], counts[cohort] = 0, (0,) * self.params.num_bits
        if self.num_reports and not sum(reports):
            raise AggregateError("the other cohorts have no reports; leave out fewer cohorts")
        return replace(self, reports_per_cohort=tuple(reports), bit_counts=tuple(counts))

    def to_json(self) -> str:
        """Return the text of an aggregate file, version 1."""
        return json.dumps(
            {
                "version": AGGREGATE_VERSION,
                "metric": self.metric,
                "definition": dict(self.definition),
                "params_id": self.params_id,
                "params": self.params.to_dict(),
                "first_day": self.first_day and self.first_day.isoformat(),
                "last_day": self.last_day and self.last_day.isoformat(),
                "reports_per_cohort": self.reports_per_cohort,
                "bit_counts": self.bit_counts,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Aggregate:
        """Read an aggregate file. Raises WireFormatError or AggregateError if it is invalid."""
        content = parse_strict_json(text.encode() if isinstance(text, str) else text)
        if not isinstance(content, dict) or type(content.get("version")) is not int:
            raise WireFormatError("this is not an aggregate file: it has no whole number `version`")
        if content["version"] != AGGREGATE_VERSION:
            raise WireFormatError(
                f"aggregate file of version {content['version']}; this reads {AGGREGATE_VERSION}"
            )
        if content.keys() != _FIELDS:
            wrong = sorted(map(ascii, content.keys() ^ _FIELDS))
            raise WireFormatError(f"missing or unknown fields: {', '.join(wrong[:5])}")
        _check_text(content)
        aggregate = cls(
            metric=content["metric"],
            params=RapporParams.from_dict(content["params"]),
            reports_per_cohort=_row("reports_per_cohort", content["reports_per_cohort"]),
            bit_counts=tuple(_row("bit_counts", row) for row in _list(content["bit_counts"])),
            params_id=content["params_id"],
            first_day=day_of_field(content["first_day"]),
            last_day=day_of_field(content["last_day"]),
            definition=content["definition"],
        )
        _check_definition(aggregate)
        return aggregate


_FIELDS = {"version", *(item.name for item in fields(Aggregate))}


def _check_cohort(cohort: int, total: int, row: Sequence[int], num_bits: int) -> None:
    if len(row) != num_bits:
        raise AggregateError(
            f"cohort {cohort} has {len(row)} bit counts; the parameters say num_bits = {num_bits}"
        )
    if total > MAX_COUNT:
        raise AggregateError(f"cohort {cohort}: {shown(total)} reports; {MAX_COUNT:,} at most")
    if total < 0 or (row and not 0 <= min(row) <= max(row) <= total):
        raise AggregateError(
            f"cohort {cohort}: bit counts from {min(row)} to {max(row)} do not fit {total} reports"
        )


def _check_definition(aggregate: Aggregate) -> None:
    """Check that the definition in the file, if any, matches the counts' metric and parameters."""
    if not aggregate.definition:
        return
    metric = Metric.from_dict(aggregate.definition)
    stated, declared = aggregate.params.to_dict(), metric.params.to_dict()
    pairs = {key: (value, declared[key]) for key, value in stated.items()} | {
        "metric": (aggregate.metric, metric.name),
        "params_id": (aggregate.params_id, metric.params_id),
    }
    for name, (here, there) in sorted(pairs.items()):
        if here != there:
            raise AggregateError(f"{name} = {shown(here)}, but the definition says {shown(there)}")


def check_apart(first: Any, second: Any) -> None:
    """Check that two windows do not overlap.

    Args:
        first: An aggregate or its description, with metric, first_day and last_day.
        second: The aggregate or description for the second window.

    Raises:
        AggregateError: The windows overlap, or one of them is unknown.
    """
    if not (first.first_day and first.last_day and second.first_day and second.last_day):
        raise AggregateError(
            f"{first.metric!r}: a window is not known, so the same reports might count twice"
        )
    if first.first_day <= second.last_day and second.first_day <= first.last_day:
        raise AggregateError(
            f"the windows {first.first_day} to {first.last_day} and {second.first_day} to "
            f"{second.last_day} overlap: reports would count twice"
        )


def _added(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def _check_text(content: Mapping[str, Any]) -> None:
    for name, kind in (("metric", str), ("params_id", str), ("params", dict), ("definition", dict)):
        if type(content[name]) is not kind:
            raise WireFormatError(f"{name} is not of type {kind.__name__}")


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise WireFormatError("bit_counts is not a list of rows")
    return value


def _row(name: str, value: Any) -> tuple[int, ...]:
    if type(value) is not list:
        raise WireFormatError(f"{name} holds {shown(value)}, which is not a list")
    for count in value:
        if type(count) is not int:
            raise WireFormatError(f"{name} holds {shown(count)}, which is not a whole number")
    return tuple(value)


def day_of_field(text: Any) -> date | None:
    """Parse a day in an aggregate file; null becomes None. Raises WireFormatError if invalid."""
    if text is None:
        return None
    try:
        if date.fromisoformat(text).isoformat() != text:
            raise ValueError
    except (TypeError, ValueError):
        raise WireFormatError(f"day {shown(text)} is not a date YYYY-MM-DD") from None
    return date.fromisoformat(text)


def periods_ended(period: str, first: date, last: date) -> int:
    """Count the periods that end from `first` to `last`, inclusive.

    Args:
        period: `day`, `week` (ends on Sunday) or `month`.
        first: The first day.
        last: The last day.

    Returns:
        The number of periods, 0 or more.
    """
    following = (first + timedelta(number) for number in range(1, (last - first).days + 2))
    if period == "month":
        return sum(day.day == 1 for day in following)
    return sum(period == "day" or day.weekday() == 0 for day in following)
