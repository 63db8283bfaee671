"""A description of the aggregated counts behind any kind of decoding."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import date
from typing import Any

from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams


@dataclass(frozen=True)
class DecodedWindow:
    """The metric, days and number of reports that a decoding was computed from."""

    metric: str
    params_id: str
    params: RapporParams
    definition: Mapping[str, Any]  # The declaration (`Metric.to_dict`); empty if unknown
    first_day: date | None
    last_day: date | None
    num_reports: int

    def described(self) -> dict[str, Any]:
        """Return the fields of results.json that describe the counts, as plain values."""
        names = ("metric", "params_id", "first_day", "last_day", "num_reports")
        values = {name: getattr(self, name) for name in names}
        return {n: v.isoformat() if isinstance(v, date) else v for n, v in values.items()}


def window_fields(aggregate: Aggregate) -> dict[str, Any]:
    """Return the fields of `DecodedWindow` for an aggregate."""
    return {field.name: getattr(aggregate, field.name) for field in fields(DecodedWindow)}
