"""Flow jobs: from an aggregate of a metric of flows to files, for the command line and a
service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from decoder.errors import CandidatesError, DecodeError
from decoder.files import claim_folder, finite, make_folder
from decoder.flows.changes import FlowChanges, band_changes, band_shares
from decoder.flows.decoding import decode_flows, flow_of
from decoder.flows.tables import FlowDecoding
from decoder.formats.known_flows import read_known_flows
from decoder.options import DecodeOptions
from decoder.output.flows_content import FlowDisplay, flows_content
from decoder.output.flows_files import FILES, MARK, write_flows
from decoder.output.flows_map import side_text
from decoder.output.flows_tables import FlowPlaces, band_texts
from decoder.output.flows_view import flows_view
from decoder.output.number_text import interval, p_text, points_interval
from decoder.output.tables import TableQuery
from decoder.progress import Note, Progress, quiet, silent
from decoder.results.warnings import percent, points
from decoder.sources.aggregates import AggregateSource
from decoder.sources.windows import sum_of
from decoder.workflows.decoding import CandidateChoice, DecodeJob
from decoder.workflows.kinds import (
    SERIES_COLUMNS,
    AnswerTable,
    DecoderKind,
    FetchedCounts,
    KindAnswer,
    KindSeries,
)
from rappor_core.aggregate import Aggregate
from rappor_core.errors import shown

PRINTED = 25  # rows of a table
MOST_SUMMED = 20  # flows in a summary
APART = "two different cells"


@dataclass(frozen=True)
class FlowsJob:
    """Flows of a metric.

    source: of the counts.  metric: the name that they should be of, None for any.  prior: a file
    of a known matrix.  display: which flows are shown.  output: the folder of the files.
    """

    source: AggregateSource
    metric: str | None = None
    options: DecodeOptions = field(default_factory=DecodeOptions)
    prior: Path | None = None
    display: FlowDisplay = field(default_factory=FlowDisplay)
    output: Path | None = None


def run_flows(job: FlowsJob, progress: Progress = silent, note: Note = quiet) -> KindAnswer:
    """Read the counts, decode, and write the files.

    Args:
        job: what is wanted.
        progress: called with (stage, done, total).
        note: called with a sentence on names of the known matrix that are no cells.

    Returns:
        The answer; its content is that of results.json.

    Raises:
        RapporError: what the source, the known matrix, the decoder or the disk refuse.
    """
    counts = job.source.read()
    if job.metric not in (None, counts.metric):
        raise DecodeError(
            f"the counts are of metric {counts.metric!r}, not of {shown(job.metric)}: name that "
            "one, or give its aggregate"
        )
    flow = flow_of(counts)
    if job.output:
        claim_folder(job.output, FILES, MARK)
        make_folder(job.output)
    notes: list[str] = []
    known = read_known_flows(job.prior, flow, notes.append) if job.prior else None
    for text in notes:
        note(text)
    found = decode_flows(counts, job.options, known, progress)
    return _answer(found, job.display, job.output, tuple(notes), progress=progress)


class Flows(DecoderKind):
    """The decoder of metrics of flows between usual cells."""

    name = "flow"
    title = "Flows"
    purpose = "how many people of one cell are usually in another, with intervals"
    table = "flows.csv"
    template = "result_flow.html.j2"
    has_series = True
    published = (MARK, table)
    members = frozenset({"known", "flows"})
    command = "flows"

    def run(self, job: DecodeJob, counts: Aggregate, progress: Progress) -> KindAnswer:
        """Decode a window; write the files if the job names a folder.

        Raises CandidatesError for candidates, and what `decode_flows` refuses; OutputError for the
        folder.
        """
        _refuse_candidates(job)
        source, name = FetchedCounts((counts,)), counts.metric
        own = FlowsJob(source, name, job.options, job.known, job.display, job.output)
        return run_flows(own, progress)

    def run_series(
        self, job: DecodeJob, windows: tuple[Aggregate, ...], progress: Progress
    ) -> KindAnswer:
        """Decode the sum of the windows, and the change of its distance bands; otherwise as
        `run`."""
        _refuse_candidates(job)
        each = [decode_flows(one, job.options, progress=progress) for one in windows]
        changes = band_changes(each)
        found = decode_flows(sum_of(windows), job.options, progress=progress)
        content = {"windows": _window_rows(each), "changes": _change_rows(each, changes)}
        return _answer(found, FlowDisplay(), job.output, series=content, progress=progress)

    def summary(self, content: dict[str, Any]) -> dict[str, Any]:
        """How many flows are detected, the share that moved, and the largest flows."""
        names = ("origin", "destination", "estimate", "low", "high")
        detected = [row for row in content["flows"] if row["detected"]]
        return {
            name: content[name]
            for name in ("num_reports", "num_detected", "detected_share", "detectable_share",
                         "own_cell", "moved", "warnings")
        } | {
            "lag": content["flow"]["lag"],
            "top": [{name: row[name] for name in names} for row in detected[:MOST_SUMMED]],
        }  # fmt: skip

    def in_list(self, summary: dict[str, Any]) -> str:
        """How many flows are detected; of moves, the share that moved."""
        if summary["lag"]:
            return f"{percent(summary['moved']['estimate'])} changed their cell"
        detected = summary["num_detected"]
        return f"{detected:,} {'flow' if detected == 1 else 'flows'} detected"

    def view(self, content: dict[str, Any], query: TableQuery) -> dict[str, Any]:
        """The variables of the page: map, matrix and tables."""
        return flows_view(content, query)

    def series(self, content: dict[str, Any]) -> KindSeries:
        """Distance bands in every window, and the share of two different cells."""
        windows = [
            {name: one[name] for name in ("first_day", "last_day")} | {"reports": one["reports"]}
            for one in content["windows"]
        ]
        return KindSeries(
            windows=windows,
            rows=[row for one in content["windows"] for row in one["rows"]],
            changes=content["changes"],
        )

    def series_in_list(self, summary: dict[str, Any]) -> str:  # noqa: ARG002
        """The fixed words for a series in a list of results."""
        return "distance bands"


KIND = Flows()


def _refuse_candidates(job: DecodeJob) -> None:
    if job.candidates != CandidateChoice():
        raise CandidatesError("a metric of flows has cells, not candidates: leave them out")


def _answer(
    found: FlowDecoding,
    display: FlowDisplay,
    output: Path | None,
    notes: tuple[str, ...] = (),
    series: dict[str, Any] | None = None,
    progress: Progress = silent,
) -> KindAnswer:
    """The answer of a decoding; its files, if a folder is given. series: more for results.json."""
    places = FlowPlaces(found.flow, display.layer)
    content = flows_content(found, display, places, notes) | (finite(series) if series else {})
    files = write_flows(found, content, places, output, progress) if output else ()
    tables = [_flow_table(content), _band_table(content)]
    if series:
        tables.append(_change_table(content))
    return KindAnswer(content, tuple(one for one in tables if one.rows), found.warnings, files)


def _flow_table(content: dict[str, Any]) -> AnswerTable:
    detected = [row for row in content["flows"] if row["detected"]]
    rows = tuple(
        (side_text(row, "origin"), side_text(row, "destination"), f"{row['km']:.3g}",
         percent(row["estimate"]), interval(row["low"], row["high"]))
        for row in detected[:PRINTED]
    )  # fmt: skip
    title = (
        f"{content['metric']}: {content['num_reports']:,} reports; {content['num_detected']:,} "
        f"flows detected, {percent(content['detected_share'])} of people; one of "
        f"{percent(content['detectable_share'])} is found 8 times in 10"
    )
    if len(detected) > PRINTED:
        title = f"{title}; the {PRINTED} largest"
    return AnswerTable(title, ("from", "to", "km", "of people", "interval"), rows)


def _band_table(content: dict[str, Any]) -> AnswerTable:
    named = [(row["band"], row) for row in content["bands"]] + [(APART, content["moved"])]
    rows = tuple(
        (name, percent(row["estimate"]), interval(row["low"], row["high"])) for name, row in named
    )
    title = f"{content['metric']}: between the two cells"
    return AnswerTable(title, ("distance", "of people", "interval"), rows)


def _change_table(content: dict[str, Any]) -> AnswerTable:
    rows = tuple(
        (row["string"], row["first_day"], row["later_first_day"], points(row["difference"]),
         points_interval(row["low"], row["high"]), p_text(row["p_adjusted"]))
        for row in sorted(content["changes"], key=lambda one: one["p_adjusted"])[:PRINTED]
    )  # fmt: skip
    headings = ("distance", "from", "to", "change", "interval", "corrected p")
    return AnswerTable(f"{content['metric']}: changes, the clearest first", headings, rows)


def _quantities(found: FlowDecoding) -> list[str]:
    return [*band_texts(found.flow.bands_km), APART]


def _window_rows(windows: Sequence[FlowDecoding]) -> list[dict[str, Any]]:
    """Each window with a row for each quantity, by `SERIES_COLUMNS`."""
    made = []
    for one in windows:
        days = {"first_day": str(one.first_day), "last_day": str(one.last_day)}
        common = days | {"reports": one.num_reports}
        shares, errors = band_shares(one)
        tables = (one.bands, one.moved)
        ends = [[float(end) for table in tables for end in getattr(table, side)]
                for side in ("low", "high")]  # fmt: skip
        rows = [
            dict(zip(SERIES_COLUMNS, (*common.values(), *row), strict=True))
            for row in zip(_quantities(one), shares.tolist(), errors.tolist(), *ends, strict=True)
        ]
        made.append(common | {"rows": rows})
    return made


def _change_rows(windows: Sequence[FlowDecoding], changes: FlowChanges) -> list[dict[str, Any]]:
    """A row for each quantity of each pair of windows."""
    named = [
        {"string": quantity, "first_day": str(windows[before].first_day),
         "last_day": str(windows[before].last_day),
         "later_first_day": str(windows[after].first_day),
         "later_last_day": str(windows[after].last_day)}
        for before, after in changes.pairs
        for quantity in _quantities(windows[0])
    ]  # fmt: skip
    numbers = ("difference", "std_error", "low", "high", "p_value", "p_adjusted")
    columns = [getattr(changes.rows, name).tolist() for name in numbers]
    return [
        name | dict(zip(numbers, row, strict=True))
        for name, row in zip(named, zip(*columns, strict=True), strict=True)
    ]
