"""The schemas of request bodies and answers, which the OpenAPI document shows."""

import re
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collector.domain.access import Scope
from collector.domain.report_validation import Reason
from rappor_core.wire.report import MAX_METRIC_BYTES, MAX_REPORTS

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def _day(text: object) -> object:
    if isinstance(text, str) and not _DAY.fullmatch(text):
        raise ValueError(f"{text[:40]!a} is not a date YYYY-MM-DD")
    return text


Day = Annotated[date, BeforeValidator(_day)]
Text = Annotated[str, Field(max_length=200)]
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Count = Annotated[int, Field(ge=0)]
Version = Literal[1]


class Shape(BaseModel):
    """A schema that accepts only its declared members."""

    model_config = ConfigDict(extra="forbid")


class Report(Shape):
    """A report from a device. Its `bits` are base64; bit i is bit i % 8 of byte i // 8."""

    metric: str = Field(min_length=1, max_length=MAX_METRIC_BYTES)
    params_id: Hex
    cohort: int = Field(ge=0, le=65_535)
    day: date
    bits: str = Field(min_length=4, json_schema_extra={"contentEncoding": "base64"})


class Batch(Shape):
    """Reports that are counted only once, even if the batch is sent again."""

    version: Version
    batch_id: Hex
    reports: list[Report] = Field(min_length=1, max_length=MAX_REPORTS)


class Accepted(Shape):
    """A report that was counted."""

    status: Literal["accepted"]


class Refused(Shape):
    """A report that was not counted, and why."""

    status: Literal["refused"]
    reason: Reason
    detail: str = ""


class BatchResults(Shape):
    """One result for each report in a batch, in order."""

    version: Version
    batch_id: Hex
    duplicate: bool
    results: list[Accepted | Refused]


class Span(Shape):
    """The first and last served day."""

    first_day: date
    last_day: date


class Waiting(Span):
    """Closed days that are not served because they have too few reports."""

    reports: Count
    smallest_cohort: Count


class Next(Shape):
    """The earliest day on which more days are served, and the number of reports still missing."""

    closes: date
    missing_reports: Count


class Growing(Shape):
    """An open day with far more reports than usual."""

    day: date
    reports: Count
    usual: Count


class MetricVersion(Shape):
    """A version of a metric."""

    name: str
    params_id: Hex
    state: Literal["current", "older", "expired", "retired"]
    accepted: Count
    today: Count
    closed_through: date
    served: Span | None
    waiting: Waiting | None
    next: Next | None
    growing: list[Growing]
    definition: dict[str, Any]


class Metrics(Shape):
    """Every version of every metric."""

    version: Version
    metrics: list[MetricVersion]


class AggregateFile(Shape):
    """The counts of a window of closed days (docs/protocol.md)."""

    version: Version
    metric: str
    definition: dict[str, Any]
    params_id: Hex
    params: dict[str, Any]
    first_day: date
    last_day: date
    reports_per_cohort: list[Count]
    bit_counts: list[list[Count]]


class Closed(Shape):
    """The result of closing days; `metrics` are the metrics with newly closed days."""

    closed_through: date
    metrics: list[str]
    days_with_reports: Count


class KeyRequest(Shape):
    """A request for a key."""

    scope: Scope
    label: str


class Key(KeyRequest):
    """A key without its secret."""

    key_id: str
    created: date
    revoked: date | None


class Keys(Shape):
    """All keys."""

    keys: list[Key]


class NewKey(KeyRequest):
    """A new key, with its secret."""

    key_id: str
    key: str
