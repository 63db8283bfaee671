"""What a job is to do, as it comes in, is stored, and reaches the process that does it."""

from __future__ import annotations

import json
from datetime import date
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from decoder.density.maps import DensityOptions, MapMethod
from decoder.discovery.discovery import DiscoverOptions
from decoder.inference.multiple_testing import Correction
from decoder.options import DecodeOptions, Method
from decoder.sources.density_windows import SplitName
from decoder.sources.windows import Each
from decoder.workflows.kinds import decoder_kind, decoder_kind_names
from rappor_core.errors import shown
from rappor_core.wire.report import MAX_METRIC_BYTES

MAX_AGGREGATES = 1000
MAX_ENTRIES = 10_000
LARGEST = 10**15
MAX_POLICY = 64 << 10  # characters of a release.toml
MAX_RESULTS = 100  # of a release

Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
MetricName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_METRIC_BYTES, pattern=r"^[^\x00-\x1f\x7f]+$"),
]
FileName = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
]
StratumText = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]
WholeNumber = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Level = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Repeats = Annotated[float, Field(ge=1, le=LARGEST, allow_inf_nan=False)]


class StrictModel(BaseModel):
    """Strict: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobKind(StrEnum):
    """Jobs of the service itself; a kind of metric with a decoder of its own is a job besides.

    A density and a discovery are jobs of the service, for they take more than the counts of one
    metric and the levels: slots and days of a map, a smallest crowd.
    """

    DECODE = "decode"
    SERIES = "series"
    DENSITY = "density"
    COMPARE = "compare"
    DISCOVER = "discover"


OF_VALUES = frozenset({JobKind.DECODE, JobKind.SERIES, JobKind.COMPARE})  # that take candidates
_METRIC_KINDS = {JobKind.DENSITY: "location", JobKind.DISCOVER: "discover"}


def job_kinds() -> tuple[str, ...]:
    """All kinds of jobs: those of the service, and the kinds of metric that have a decoder."""
    return (*JobKind, *decoder_kind_names())


def _checked_kind(kind: str) -> str:
    if kind not in job_kinds():
        *names, last = (repr(str(one)) for one in job_kinds())
        raise ValueError(f"{shown(kind)} is not one of {', '.join(names)} or {last}")
    return str(kind)


def _list_kinds(schema: dict[str, Any]) -> None:
    schema["enum"] = [str(kind) for kind in job_kinds()]


JobName = Annotated[str, AfterValidator(_checked_kind), Field(json_schema_extra=_list_kinds)]


def kind_of_metric(metric_kind: str | None) -> str:
    """The kind of job that decodes metrics of a kind, None where that is not known."""
    if metric_kind in decoder_kind_names():
        return str(metric_kind)
    return next((job for job, kind in _METRIC_KINDS.items() if kind == metric_kind), JobKind.DECODE)


def decodes(kind: str, metric_kind: str | None) -> bool:
    """Whether jobs of a kind decode metrics of a kind, None where that is not known."""
    if kind == JobKind.SERIES and metric_kind in kinds_with_series():
        return True
    usual = kind_of_metric(metric_kind)
    return kind == usual or (kind in OF_VALUES and usual in OF_VALUES)


def kinds_with_series() -> tuple[str, ...]:
    """The kinds of metric whose own decoder takes a series, too."""
    return tuple(kind.name for kind in map(decoder_kind, decoder_kind_names())
                 if kind is not None and kind.has_series)  # fmt: skip


class WindowSpec(StrictModel):
    """Closed days of a metric, asked of the collector; without days all that it serves."""

    metric: MetricName
    first: date | None = None
    last: date | None = None


class CountSource(StrictModel):
    """Where the counts come from: one of a collector, uploads by digest, files of the folder."""

    collector: WindowSpec | None = None
    aggregates: Annotated[list[Digest], Field(max_length=MAX_AGGREGATES)] = []
    files: Annotated[list[FileName], Field(max_length=MAX_AGGREGATES)] = []

    @model_validator(mode="after")
    def _one(self) -> CountSource:
        if (self.collector is not None) + bool(self.aggregates) + bool(self.files) != 1:
            raise ValueError("give one of collector, aggregates and files")
        return self


class CandidateSpec(StrictModel):
    """Which values to look for: one of a list, numbers and dates, or else the metric's own.

    list: id of a list, with the number of a version, the latest by default.  numbers: first, last
    and perhaps a step.  dates: first and last.
    """

    list: Id | None = None
    version: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    numbers: Annotated[tuple[WholeNumber, ...], Field(min_length=2, max_length=3)] | None = None
    dates: tuple[date, date] | None = None

    @model_validator(mode="after")
    def _one(self) -> CandidateSpec:
        if sum(one is not None for one in (self.list, self.numbers, self.dates)) > 1:
            raise ValueError("give one of list, numbers and dates")
        if self.version is not None and self.list is None:
            raise ValueError("a version is of a list; name the list")
        return self


class WeightSpec(StrictModel):
    """How the level is divided among the candidates: a list of weights, the latest by default."""

    list: Id
    version: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class Choices(StrictModel):
    """Options of a decoding; see `decoder.options.DecodeOptions`."""

    method: Method = "cavity"
    correction: Correction = "fdr"
    alpha: Level = 0.05
    level: Level = 0.95
    repeats: Repeats | None = None
    largest_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    full_fit: bool = True
    without_cohorts: Annotated[
        tuple[Annotated[int, Field(ge=0, le=1 << 20)], ...], Field(max_length=MAX_ENTRIES)
    ] = ()

    def options(self) -> DecodeOptions:
        """As the decoder takes them."""
        return DecodeOptions(**self.model_dump())


class MapChoices(StrictModel):
    """Options of a map; see `decoder.density.maps.DensityOptions`."""

    method: MapMethod = "field"
    level: Level = 0.95
    alpha: Level = 0.05
    repeats: Repeats | None = None
    slots: Annotated[tuple[MetricName, ...], Field(max_length=1000)] = ()
    split: SplitName = SplitName.WHOLE

    def options(self) -> DensityOptions:
        """As the decoder takes them."""
        return DensityOptions(
            method=self.method, level=self.level, alpha=self.alpha, repeats=self.repeats
        )


class DiscoverChoices(StrictModel):
    """Options of a discovery; see `decoder.discovery.discovery.DiscoverOptions`."""

    alpha: Level = 0.05
    level: Level = 0.95
    crowd: Annotated[int, Field(ge=1, le=LARGEST)] = 1000
    repeats: Repeats | None = None

    def options(self) -> DiscoverOptions:
        """As the decoder takes them."""
        return DiscoverOptions(**self.model_dump())


class JobSpec(StrictModel):
    """A job. `before`: of a comparison, the window that `source` is compared with.

    candidates, weights: of decode, series and compare.  options: of all but a density and a
    discovery; of a kind with a decoder of its own those that apply.  map: of a density.  each: of a
    series.  find: of a discovery.
    """

    kind: JobName
    source: CountSource
    before: CountSource | None = None
    candidates: CandidateSpec = CandidateSpec()
    weights: WeightSpec | None = None
    options: Choices = Choices()
    map: MapChoices = MapChoices()
    each: Each = Each.DAY
    find: DiscoverChoices = DiscoverChoices()

    @model_validator(mode="after")
    def _fits(self) -> JobSpec:
        """Refuse what would be ignored."""
        if (self.before is not None) != (self.kind == JobKind.COMPARE):
            raise ValueError("before: of a comparison, and of no other kind")
        for name in sorted(foreign_fields(self.kind) & self.model_fields_set):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}: not of a {self.kind}")
        return self

    @property
    def sources(self) -> tuple[CountSource, ...]:
        """Where its counts come from, the earlier window of a comparison first."""
        return (self.source,) if self.before is None else (self.before, self.source)

    def to_json(self) -> str:
        """One text for one specification."""
        return canonical(self.model_dump(mode="json"))


class ReleaseSource(StrictModel):
    """A result whose tables are to be published. strata: what its reports were filtered by."""

    result: Id
    strata: Annotated[dict[StratumText, StratumText], Field(max_length=20)] = {}


class NewRelease(StrictModel):
    """A release as it is proposed. policy: text of release.toml.  note: for who approves it."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    policy: Annotated[str, StringConstraints(min_length=1, max_length=MAX_POLICY)]
    sources: Annotated[list[ReleaseSource], Field(min_length=1, max_length=MAX_RESULTS)]
    note: Annotated[str, StringConstraints(max_length=1000)] = ""


def foreign_fields(kind: str) -> frozenset[str]:
    """The members of a specification that a kind has not."""
    own = {
        "candidates": kind in OF_VALUES,
        "weights": kind in OF_VALUES,
        "options": kind not in (JobKind.DENSITY, JobKind.DISCOVER),
        "map": kind == JobKind.DENSITY,
        "each": kind == JobKind.SERIES,
        "find": kind == JobKind.DISCOVER,
    }
    return frozenset(name for name, is_own in own.items() if not is_own)


def canonical(value: object) -> str:
    """JSON with sorted keys and without spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(*values: object) -> str:
    """SHA-256 of the canonical JSON of values, 64 hexadecimal digits."""
    return sha256(canonical(values).encode()).hexdigest()
