"""Properties of the counts that a job names, as far as they are known before the counts are
read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import reduce
from typing import Any

from pydantic import BaseModel, ConfigDict

from decoder.candidates.lists import own_names
from decoder_service.shell.errors import RequestError
from rappor_core.aggregate import check_apart
from rappor_core.errors import AggregateError, RapporError
from rappor_core.params import RapporParams


class KnownCounts(BaseModel):
    """What is known of an aggregate, or of a window of a collector, before it is read; None: not
    known.

    first_day, last_day: of the window, inclusive.  kind: of the metric, as declared.  num_cohorts:
    of its parameters.  own_values: whether its values are listed by its definition.
    """

    model_config = ConfigDict(frozen=True, from_attributes=True)

    metric: str
    params_id: str
    first_day: date | None
    last_day: date | None
    kind: str | None
    num_cohorts: int | None
    own_values: bool | None


def counts_of_version(listed: Mapping[str, Any]) -> KnownCounts:
    """The known properties of a metric's version as the collector lists it, with its served
    days."""
    definition, served = listed["definition"], listed["served"] or {}
    kind = definition.get("kind")
    num_cohorts, own_values = shape_of(definition)
    return KnownCounts(
        metric=str(listed["name"]),
        params_id=str(listed["params_id"]),
        first_day=served.get("first_day"),
        last_day=served.get("last_day"),
        kind=kind if isinstance(kind, str) else None,
        num_cohorts=num_cohorts,
        own_values=own_values,
    )


def shape_of(
    definition: Mapping[str, Any], params: RapporParams | None = None
) -> tuple[int | None, bool | None]:
    """Number of cohorts, and whether the values are listed; None for what cannot be told.

    definition: `Metric.to_dict`, perhaps of another version of the program.  params: those of it
    if None.
    """
    cohorts: int | None = None
    try:
        params = params or RapporParams.from_dict(definition["params"])
        cohorts = params.num_cohorts
        return cohorts, bool(own_names(params, definition))
    except (RapporError, AttributeError, KeyError, TypeError, ValueError):
        return cohorts, None


def sum_of_known(counts: Sequence[KnownCounts], way_out: str) -> KnownCounts:
    """The known properties of the sum of several counts. Raises RequestError, with a remedy, if
    they cannot be added."""
    try:
        return reduce(_added, sorted(counts, key=lambda one: one.first_day or date.min))
    except AggregateError as error:
        raise RequestError(f"{error}; {way_out}") from None


def _added(one: KnownCounts, other: KnownCounts) -> KnownCounts:
    if (one.metric, one.params_id) != (other.metric, other.params_id):
        raise AggregateError(
            f"{one.metric!a} ({one.params_id}) and {other.metric!a} ({other.params_id}) have "
            "different meanings and cannot be added"
        )
    check_apart(one, other)  # the earlier one first: their sum ends with the later
    return one.model_copy(update={"last_day": other.last_day})


def days_held(version: Mapping[str, Any], last: date | None) -> str:
    """A sentence on which days of a metric the collector has, and when they will be served.

    version: as the collector lists it.  last: of the window that is waited for, None if none is.
    """
    waiting, closed = version["waiting"], version["closed_through"]
    few = (
        f"; its days from {waiting['first_day']} on are closed and have too few reports "
        f"({waiting['reports']}): they wait for more"
        if waiting
        else ""
    )
    if closed and last is not None and closed >= last.isoformat() and not waiting:
        return f"; the days after are closed up to {closed} and hold no reports"
    until = f"it has closed days up to {closed}" if closed else "it has closed no day"
    return f"{few}; {until}, and closes each once its time for reports is over (rappor close: now)"
