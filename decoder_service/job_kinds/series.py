"""Jobs of kind `series`: shares, or what a kind of metric gives, over days or weeks."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from decoder.errors import DecodeError
from decoder.files import write_json
from decoder.options import DecodeOptions
from decoder.output.series_files import series_content
from decoder.output.series_view import latest, series_view
from decoder.progress import Note, Progress
from decoder.series.series import Series
from decoder.sources.aggregates import CollectorWindow
from decoder.sources.windows import Each, window_end, windows_of_files
from decoder.workflows.decoding import run_series
from decoder.workflows.kinds import (
    SERIES_COLUMNS,
    DecoderKind,
    FetchedCounts,
    KindAnswer,
    decoder_kind,
    decoder_kind_names,
    run_own,
)
from decoder_service.job_kinds.of_values import (
    JobOfValues,
    refuse_other_kinds,
    summary_of,
)
from decoder_service.jobs.kinds import JobInputs, StoredResult
from decoder_service.jobs.known_counts import KnownCounts
from decoder_service.shell.errors import RequestError
from rappor_core.aggregate import Aggregate

if TYPE_CHECKING:
    from decoder.output.tables import TableQuery
    from decoder_service.jobs.specs import CountSource, JobSpec, WindowSpec

_TYPES = {"reports": pa.int64(), **dict.fromkeys(("first_day", "last_day", "string"), pa.string())}
_SCHEMA = pa.schema([(name, _TYPES.get(name, pa.float64())) for name in SERIES_COLUMNS])


class SeriesJob(JobOfValues):
    """Windows of one metric, decoded as one."""

    name = "series"
    title = "Frequencies over time"
    purpose = "the same quantities over days or weeks, with tests for change"
    template = "result_series.html.j2"
    members = JobOfValues.members | {"each"}
    tables = ("series.json", "series.csv", "series.parquet")

    def decodes(self, metric_kind: str | None) -> bool:
        """Values, and kinds of metric whose decoder takes a series."""
        return metric_kind in kinds_with_series() or super().decodes(metric_kind)

    @property
    def decoded(self) -> str:
        """A clause on which metrics a job of this kind decodes."""
        return super().decoded + "".join(f", and kind {name}" for name in kinds_with_series())

    def check(self, spec: JobSpec, counts: Sequence[Sequence[KnownCounts] | None]) -> None:
        """Check that the counts fit, and are two windows or more. Raises RequestError."""
        super().check(spec, counts)
        for source, known_counts in zip(spec.sources, counts, strict=True):
            if known_counts:
                _check_windows(spec.each, source, known_counts)

    def in_parts(self, spec: JobSpec) -> bool:
        """True: each window is a part, and one that is not served yet is left out."""
        del spec
        return True

    def fetch(
        self, spec: JobSpec, window: WindowSpec, collector: str, note: Note
    ) -> Iterable[Aggregate]:
        """One aggregate for each window."""
        source = CollectorWindow(collector, window.metric, window.first, window.last)
        return source.windows(spec.each, note)

    def run(self, inputs: JobInputs, progress: Progress) -> dict[str, Any]:
        """Decode windows as one series."""
        each, kind = inputs.spec.each, decoder_kind(inputs.declared_kind)
        job = inputs.decoding(FetchedCounts(tuple(windows_of_files(inputs.groups[0], each))))
        if kind is None or not kind.has_series:
            refuse_other_kinds(inputs)
            return _write(run_series(job, each, progress), inputs.folder)
        answer = run_own(job, each, progress)
        if not isinstance(answer, KindAnswer):
            raise DecodeError("the metric has no decoder of its own")
        return _write_own(kind, answer.content, job.options, inputs.folder)

    def in_list(self, summary: Mapping[str, Any]) -> str:
        """How many values were found; of a kind of metric what its decoder says."""
        own = decoder_kind(summary.get("metric_kind"))
        return super().in_list(summary) if own is None else own.series_in_list(dict(summary))

    def view(self, result: StoredResult, query: TableQuery) -> dict[str, Any]:
        """A panel for each value."""
        return series_view(json.loads(result.read("series.json")), query)

    def command(self, spec: JobSpec, metric: str, sources: Sequence[Sequence[str]]) -> list[str]:
        """`rappor decode --each`."""
        return [*super().command(spec, metric, sources), "--each", spec.each.value]


def kinds_with_series() -> tuple[str, ...]:
    """The kinds of metric whose own decoder takes a series, too."""
    return tuple(kind.name for kind in map(decoder_kind, decoder_kind_names())
                 if kind is not None and kind.has_series)  # fmt: skip


def _check_windows(each: Each, source: CountSource, counts: Sequence[KnownCounts]) -> None:
    """Check that a series has two windows or more. Raises RequestError."""
    days = [(one.first_day, one.last_day) for one in counts]
    for one, (first, last) in zip(counts, days, strict=True):
        if first is None or last is None:
            raise RequestError(
                f"an aggregate of {one.metric!a} does not say its days, and so has no place in a "
                "series; fetch it by rappor aggregate --from DAY --to DAY"
            )
    dated = [(first, last) for first, last in days if first and last]
    if source.collector is not None:
        ((first, last),) = dated
        several = window_end(first, each, last) < last
    else:
        several = len({window_end(first, each) for first, _ in dated}) > 1
    if not several:
        named = " and ".join(sorted({f"{first} to {last}" for first, last in dated}))
        raise RequestError(
            f"{named}: one window by {each}, and a series needs two or more; take more days, or "
            "start a job of kind decode"
        )


def _write(series: Series, folder: Path) -> dict[str, Any]:
    """Add series.json and series.parquet; the summary."""
    content = series_content(series)
    write_json(content, folder / "series.json", indent=1)
    parquet.write_table(pa.Table.from_pylist(content["rows"]), folder / "series.parquet")
    return summary_of(series.whole) | {"windows": content["windows"], "latest": latest(content)}


def _write_own(
    kind: DecoderKind, content: dict[str, Any], options: DecodeOptions, folder: Path
) -> dict[str, Any]:
    """Add series.json, series.csv and series.parquet of a kind's own series; the summary.

    They have the columns of any series. Means, which are no shares, are beside them in series.json.
    content: results.json of a series.
    """
    found = kind.series(content)
    document = {"windows": found.windows, "level": options.level, "alpha": options.alpha,
                "rows": found.rows, "changes": found.changes, "means": found.means,
                "unit": found.unit}  # fmt: skip
    write_json(document, folder / "series.json", indent=1)
    with (folder / "series.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, SERIES_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found.rows)
    parquet.write_table(pa.Table.from_pylist(found.rows, _SCHEMA), folder / "series.parquet")
    summary = kind.summary(content) | {"metric_kind": kind.name, "windows": found.windows}
    return summary | {"latest": latest(document)}


KIND = SeriesJob()
