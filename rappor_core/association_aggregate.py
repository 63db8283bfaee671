"""`AssociationAggregate`: what leaves the collector of two linked metrics. Counts, never reports.

Version 2 of the aggregate file; version 1 is of one metric.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from rappor_core.aggregate import MAX_COUNT, day_of_field
from rappor_core.errors import AggregateError, RapporError, WireFormatError, shown
from rappor_core.metrics.association import Association, CountedAssociation
from rappor_core.metrics.metric import Metric
from rappor_core.strict_json import parse_strict_json

ASSOCIATION_AGGREGATE_VERSION = 2
Counts = tuple[int, ...]
_FIELDS = {
    "version",
    "association",
    "params_id",
    "metrics",
    "first_day",
    "last_day",
    "reports_per_cohort",
    "bit_counts",
    "pair_counts",
}


@dataclass(frozen=True, slots=True)
class AssociationAggregate:
    """Counts of the linked reports of two metrics over a window of closed days.

    reports_per_cohort: linked reports, N_j, m integers.
    bit_counts: of each metric, m rows of its k integers, 0 <= c <= N_j.
    pair_counts: m rows of k1 k2 integers: reports with bit a of the first and bit b of the second
        metric set, at a * k2 + b.

    Raises AggregateError for counts of the wrong shape, or that no set of reports can give.
    """

    association: Association
    reports_per_cohort: Counts
    bit_counts: tuple[tuple[Counts, ...], tuple[Counts, ...]]
    pair_counts: tuple[Counts, ...]
    first_day: date
    last_day: date

    def __post_init__(self) -> None:
        """Check shapes and ranges."""
        one, (k1, k2) = self.association, self.association.shape
        tables = ((k1, self.bit_counts[0]), (k2, self.bit_counts[1]), (k1 * k2, self.pair_counts))
        if any(len(rows) != one.num_cohorts for _, rows in [(0, self.reports_per_cohort), *tables]):
            raise AggregateError(f"{one.name!r}: not {one.num_cohorts} cohorts in every table")
        for width, rows in tables:
            for total, row in zip(self.reports_per_cohort, rows, strict=True):
                if len(row) != width or not 0 <= min(row) <= max(row) <= total <= MAX_COUNT:
                    raise AggregateError(
                        f"{one.name!r}: counts that {shown(total)} reports of {width} bits "
                        "cannot give"
                    )
        for total, first, second, pairs in zip(
            self.reports_per_cohort, *self.bit_counts, self.pair_counts, strict=True
        ):
            cells = [(pairs[a * k2 + b], first[a], second[b]) for a in range(k1) for b in range(k2)]
            if any(both > min(one_bit, other) for both, one_bit, other in cells):
                raise AggregateError(f"{one.name!r}: more pairs of bits than bits")
            if any(both < one_bit + other - total for both, one_bit, other in cells):
                raise AggregateError(f"{one.name!r}: fewer pairs of bits than its bits must share")
        if self.first_day > self.last_day:
            raise AggregateError(f"the window {self.first_day} to {self.last_day} runs backwards")

    @property
    def num_reports(self) -> int:
        """Number of linked reports in all cohorts, N."""
        return sum(self.reports_per_cohort)

    def to_json(self) -> str:
        """Write version 2 of the aggregate file."""
        return json.dumps(
            {
                "version": ASSOCIATION_AGGREGATE_VERSION,
                "association": self.association.to_dict(),
                "params_id": self.association.params_id,
                "metrics": [metric.to_dict() for metric in self.association.metrics],
                "first_day": self.first_day.isoformat(),
                "last_day": self.last_day.isoformat(),
                "reports_per_cohort": self.reports_per_cohort,
                "bit_counts": self.bit_counts,
                "pair_counts": self.pair_counts,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> AssociationAggregate:
        """Read an aggregate file. Raises WireFormatError or AggregateError, saying what is off."""
        fields = parse_strict_json(text.encode() if isinstance(text, str) else text)
        if not isinstance(fields, dict) or type(fields.get("version")) is not int:
            raise WireFormatError("this is not an aggregate file: it has no whole number `version`")
        if fields["version"] != ASSOCIATION_AGGREGATE_VERSION:
            raise WireFormatError(
                f"aggregate file of version {fields['version']}; that of an association has "
                f"{ASSOCIATION_AGGREGATE_VERSION}"
            )
        if fields.keys() != _FIELDS:
            wrong = sorted(map(ascii, fields.keys() ^ _FIELDS))
            raise WireFormatError(f"missing or unknown fields: {', '.join(wrong[:5])}")
        association = _association(fields)
        days = day_of_field(fields["first_day"]), day_of_field(fields["last_day"])
        if days[0] is None or days[1] is None:
            raise WireFormatError("first_day and last_day are dates")
        sides = fields["bit_counts"]
        if type(sides) is not list or len(sides) != 2:
            raise WireFormatError("bit_counts is not a list of two tables")
        return cls(
            association=association,
            reports_per_cohort=_row(fields["reports_per_cohort"]),
            bit_counts=(_rows(sides[0]), _rows(sides[1])),
            pair_counts=_rows(fields["pair_counts"]),
            first_day=days[0],
            last_day=days[1],
        )


def _association(fields: Mapping[str, Any]) -> Association:
    try:
        metrics = [Metric.from_dict(definition) for definition in fields["metrics"]]
        by_version = {(metric.name, metric.params_id): metric for metric in metrics}
        association = CountedAssociation.from_dict(fields["association"], by_version)
    except RapporError as error:
        raise AggregateError(f"the definition cannot be read: {error}") from error
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise WireFormatError(f"the definition cannot be read: {error}") from error
    if association.params_id != fields["params_id"]:
        raise AggregateError(
            f"params_id = {shown(fields['params_id'])}, but the definition says "
            f"{association.params_id!r}"
        )
    return association


def _rows(value: object) -> tuple[Counts, ...]:
    if type(value) is not list:
        raise WireFormatError("a table of counts is not a list of rows")
    return tuple(map(_row, value))


def _row(value: Sequence[Any]) -> Counts:
    if type(value) is not list or any(type(count) is not int for count in value):
        raise WireFormatError(f"a row of counts holds {shown(value)}, not whole numbers")
    return tuple(value)
