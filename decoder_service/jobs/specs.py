"""What a job is to do, as it comes in, is stored, and reaches the process that does it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
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
from decoder.output.flows_content import MIN_KM, TOP, FlowDisplay
from decoder.sources.density_windows import SplitName
from decoder.sources.windows import Each
from decoder_service.jobs.kinds import JobKind, job_kind, job_kind_names, known_job_kind
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


def _checked_kind(kind: str) -> str:
    if kind not in job_kind_names():
        *names, last = map(repr, job_kind_names())
        raise ValueError(f"{shown(kind)} is not one of {', '.join(names)} or {last}")
    return kind


def _list_kinds(schema: dict[str, Any]) -> None:
    schema["enum"] = list(job_kind_names())


JobName = Annotated[str, AfterValidator(_checked_kind), Field(json_schema_extra=_list_kinds)]


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


class KnownSpec(WeightSpec):
    """A known matrix of flows, such as the last census: a list of flows, the latest by default."""


class AreaSpec(WeightSpec):
    """Named areas whose shares a map gives, too: a list of areas, the latest by default."""


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


class FlowChoices(StrictModel):
    """Which flows are shown; see `decoder.output.flows_content.FlowDisplay`."""

    min_km: Annotated[float, Field(ge=0, le=50_000, allow_inf_nan=False)] = MIN_KM
    top: Annotated[int, Field(ge=0, le=MAX_ENTRIES)] = TOP

    def display(self) -> FlowDisplay:
        """As the decoder takes them."""
        return FlowDisplay(self.min_km, self.top)


class JobSpec(StrictModel):
    """A job. `before`: of a comparison, the window that `source` is compared with.

    candidates, weights: of decode, series and compare.  options: of all but a density and a
    discovery; of a kind with a decoder of its own those that apply.  map: of a density.  each: of a
    series.  find: of a discovery.  known, flows: of flows.  areas: of a density.
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
    known: KnownSpec | None = None
    flows: FlowChoices = FlowChoices()
    areas: AreaSpec | None = None

    @model_validator(mode="after")
    def _fits(self) -> JobSpec:
        """Refuse what would be ignored."""
        if (self.before is not None) == ("before" in foreign_fields(self.kind)):
            raise ValueError("before: of a comparison, and of no other kind")
        for name in sorted(foreign_fields(self.kind) & self.model_fields_set):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name}: not of a {self.kind}")
        return self

    @property
    def job_kind(self) -> JobKind:
        """What does it. Raises DecodeError where it is not known here any more."""
        return known_job_kind(self.kind)

    @property
    def sources(self) -> tuple[CountSource, ...]:
        """Where its counts come from, the earlier window of a comparison first."""
        return (self.source,) if self.before is None else (self.before, self.source)

    def to_json(self) -> str:
        """One text for one specification."""
        return canonical(self.model_dump(mode="json"))


_OF_KINDS = frozenset(JobSpec.model_fields) - {"kind", "source"}


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
    """The members of a specification that a kind has not; none of a kind that is not known here."""
    known = job_kind(kind)
    return frozenset() if known is None else _OF_KINDS - known.members


def stored_spec(content: str | Mapping[str, Any]) -> JobSpec:
    """A specification as it was stored, as JSON or its members.

    Raises DecodeError for one of a kind that is not known here any more.
    """
    text = content if isinstance(content, str) else json.dumps(content)
    known_job_kind(json.loads(text)["kind"])
    return JobSpec.model_validate_json(text)


def canonical(value: object) -> str:
    """JSON with sorted keys and without spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(*values: object) -> str:
    """SHA-256 of the canonical JSON of values, 64 hexadecimal digits."""
    return sha256(canonical(values).encode()).hexdigest()
