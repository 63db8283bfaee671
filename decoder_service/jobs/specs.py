"""The specification of a job, as submitted, stored, and passed to the process that runs it."""

from __future__ import annotations

import json
from datetime import date
from hashlib import sha256
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from decoder.inference.multiple_testing import Correction
from decoder.options import (
    DEFAULT_ALPHA,
    DEFAULT_CORRECTION,
    DEFAULT_CROWD,
    DEFAULT_LEVEL,
    DEFAULT_MAP_METHOD,
    DEFAULT_METHOD,
    DEFAULT_MIN_KM,
    DEFAULT_TOP,
    DecodeOptions,
    MapMethod,
    Method,
    Operation,
)
from decoder.sources.windows import Each, SplitName
from rappor_core.wire.report import MAX_METRIC_BYTES

MAX_AGGREGATES = 1000
MAX_ENTRIES = 10_000
LARGEST = 10**15
MAX_POLICY = 64 << 10  # the maximum number of characters in a release.toml
MAX_RESULTS = 100  # the maximum number in a release

Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
MetricName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_METRIC_BYTES, pattern=r"^[^\x00-\x1f\x7f]+$"),
]
StratumText = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]


def _check_printable(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("give printable characters, without blanks around them")
    return text


Label = Annotated[str, StringConstraints(max_length=200), AfterValidator(_check_printable)]
Name = Annotated[Label, StringConstraints(min_length=1)]
Note = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_check_printable)]
WholeNumber = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Level = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Repeats = Annotated[float, Field(ge=1, le=LARGEST, allow_inf_nan=False)]


class StrictModel(BaseModel):
    """A model that rejects unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class WindowSpec(StrictModel):
    """Closed days of a metric from the collector; if no days are given, all served days."""

    metric: MetricName
    first: date | None = None
    last: date | None = None


class CountSource(StrictModel):
    """The source of the counts: a collector, or uploads by digest."""

    collector: WindowSpec | None = None
    aggregates: Annotated[list[Digest], Field(max_length=MAX_AGGREGATES)] = []

    @model_validator(mode="after")
    def _one(self) -> CountSource:
        if (self.collector is not None) == bool(self.aggregates):
            raise ValueError("give a metric of the collector, or aggregates")
        return self


class CandidateSpec(StrictModel):
    """The values to look for: a list, numbers or dates; by default, the metric's own values."""

    list: Id | None = None  # The id of a list
    # The version of the list; the latest by default
    version: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    # First, last, and optionally a step
    numbers: Annotated[tuple[WholeNumber, ...], Field(min_length=2, max_length=3)] | None = None
    dates: tuple[date, date] | None = None  # The first and last day

    @model_validator(mode="after")
    def _one(self) -> CandidateSpec:
        if sum(part is not None for part in (self.list, self.numbers, self.dates)) > 1:
            raise ValueError("give one of list, numbers and dates")
        if self.version is not None and self.list is None:
            raise ValueError("a version needs a list; name the list")
        return self


class ListSpec(StrictModel):
    """A list and its version, the latest by default."""

    list: Id
    version: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class Choices(StrictModel):
    """The options for a decoding; see `decoder.options.DecodeOptions`.

    A kind of metric rejects options that it does not use."""

    method: Method = DEFAULT_METHOD
    correction: Correction = DEFAULT_CORRECTION
    alpha: Level = DEFAULT_ALPHA
    level: Level = DEFAULT_LEVEL
    repeats: Repeats | None = None
    largest_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    full_fit: bool = True
    without_cohorts: Annotated[
        tuple[Annotated[int, Field(ge=0, le=1 << 20)], ...], Field(max_length=MAX_ENTRIES)
    ] = ()

    def options(self) -> DecodeOptions:
        """Return the decoder's options."""
        return DecodeOptions(**self.model_dump())


class MapChoices(StrictModel):
    """The options for a location map; see `decoder.options.MapOptions`."""

    method: MapMethod = DEFAULT_MAP_METHOD
    slots: Annotated[tuple[MetricName, ...], Field(max_length=1000)] = ()
    split: SplitName = SplitName.WHOLE  # How a collector's days are divided


class FlowChoices(StrictModel):
    """The options for showing flows; see `decoder.options.FlowOptions`."""

    min_km: Annotated[float, Field(ge=0, le=50_000, allow_inf_nan=False)] = DEFAULT_MIN_KM
    top: Annotated[int, Field(ge=0, le=MAX_ENTRIES)] = DEFAULT_TOP


class JobSpec(StrictModel):
    """A job: an operation on the counts of a metric, by the decoder of its kind.

    Only string, category and boolean accept candidates and weights; only location accepts map and
    areas; only discover accepts crowd; only flow accepts flows and known."""

    operation: Operation = "decode"
    source: CountSource  # The counts; in a comparison, the counts of the later window
    before: CountSource | None = None  # The earlier window of a comparison
    candidates: CandidateSpec = CandidateSpec()
    weights: ListSpec | None = None  # How to divide the level among the candidates
    options: Choices = Choices()
    map: MapChoices = MapChoices()
    areas: ListSpec | None = None  # Areas whose shares are estimated for each map
    each: Each = Each.DAY  # The length of a window of a series
    crowd: Annotated[int, Field(ge=1, le=LARGEST)] = DEFAULT_CROWD
    flows: FlowChoices = FlowChoices()
    known: ListSpec | None = None  # A matrix of flows, such as the last census

    @model_validator(mode="after")
    def _fits(self) -> JobSpec:
        """Reject members that every metric kind would ignore."""
        if (self.before is not None) != (self.operation == "compare"):
            raise ValueError("before: only a comparison has it")
        if self.each is not Each.DAY and self.operation != "series":
            raise ValueError("each: only a series has it")
        return self

    @property
    def sources(self) -> tuple[CountSource, ...]:
        """The sources of the counts, the earlier window of a comparison first."""
        return (self.source,) if self.before is None else (self.before, self.source)

    def to_json(self) -> str:
        """Return the canonical text of the specification."""
        return canonical(self.model_dump(mode="json"))


class ReleaseSource(StrictModel):
    """A result whose tables are to be published."""

    result: Id
    # The filters that select its reports
    strata: Annotated[dict[StratumText, StratumText], Field(max_length=20)] = {}


class NewRelease(StrictModel):
    """A proposed release."""

    name: Name
    # Text of release.toml
    policy: Annotated[str, StringConstraints(min_length=1, max_length=MAX_POLICY)]
    sources: Annotated[list[ReleaseSource], Field(min_length=1, max_length=MAX_RESULTS)]
    note: Note = ""  # For the person who approves it


def canonical(value: object) -> str:
    """Return JSON with sorted keys and without spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(*values: object) -> str:
    """Return the SHA-256 digest of the canonical JSON of values, 64 hexadecimal digits."""
    return sha256(canonical(values).encode()).hexdigest()
