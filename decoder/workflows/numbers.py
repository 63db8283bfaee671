"""Decode jobs of metrics of numbers: the curve, quantiles and mean, in files and in a table."""

from __future__ import annotations

from decoder.errors import CandidatesError
from decoder.numbers.changes import NumberSeries, decode_numbers_over_time
from decoder.numbers.decoding import decode_numbers
from decoder.numbers.tables import NumberDecoding
from decoder.output.number_text import known, p_text
from decoder.output.numbers_files import numbers_content, write_numbers
from decoder.output.numbers_svg import change_text, edge_text
from decoder.progress import Progress
from decoder.results.warnings import percent
from decoder.sources.windows import sum_of
from decoder.workflows.decoding import CandidateChoice, DecodeJob
from decoder.workflows.kinds import AnswerTable, KindAnswer
from rappor_core.aggregate import Aggregate

SHOWN_CHANGES = 25


def run(
    job: DecodeJob, source: Aggregate | tuple[Aggregate, ...], progress: Progress
) -> KindAnswer:
    """Decode a window, or a series of windows; write the files if the job names a folder.

    Raises DecodeError for candidates, which a metric of numbers has none of, and what
    `decode_numbers` refuses; OutputError for the folder.
    """
    if job.candidates != CandidateChoice(cache=job.candidates.cache):
        raise CandidatesError("a metric of numbers has a curve, not candidates: leave them out")
    series: NumberSeries | None = None
    if isinstance(source, tuple):
        series = decode_numbers_over_time(source, job.options)
        source = sum_of(source)
    decoding = decode_numbers(source, job.options)
    progress("numbers", 1, 1)
    files = write_numbers(decoding, job.output, series) if job.output else ()
    tables = [_mean_table(decoding), _quantile_table(decoding), _curve_table(decoding)]
    if series is not None:
        tables.append(_change_table(series))
    return KindAnswer(
        numbers_content(decoding, series),
        tuple(table for table in tables if table.rows),
        decoding.warnings,
        files,
    )


def _title(decoding: NumberDecoding, what: str) -> str:
    of_data = ", of devices with data" if decoding.with_data else ""
    return f"{decoding.metric}: {what}{of_data}"


def _mean_table(decoding: NumberDecoding) -> AnswerTable:
    rows: list[tuple[str, ...]] = []
    if decoding.with_data:
        one = decoding.with_data
        rows.append(("devices with data", percent(one.estimate), percent(one.low),
                     percent(one.high)))  # fmt: skip
    mean = decoding.mean
    if mean is not None:
        name = f"{'geometric ' if mean.geometric else ''}mean, {decoding.number.unit}"
        three = (mean.estimate, mean.low, mean.high)
        rows.append((name, *(known(one, mean.low, mean.high) for one in three)))
        top = mean.at_or_above_top
        rows.append((f"at or above {edge_text(mean.clipped_to[1])}, where the mean is clipped",
                     *map(percent, (top.estimate, top.low, top.high))))  # fmt: skip
    title = f"{decoding.metric}: {decoding.num_reports:,} reports"
    return AnswerTable(title, ("", "estimate", "low", "high"), tuple(rows))


def _quantile_table(decoding: NumberDecoding) -> AnswerTable:
    rows = tuple(
        (percent(one.share), *(_end(end) for end in (one.low, one.high)), _end(one.fitted, ""))
        for one in decoding.quantiles
    )
    headings = ("share below", "from", "to below", "picture")
    return AnswerTable(_title(decoding, f"quantiles, {decoding.number.unit}"), headings, rows)


def _curve_table(decoding: NumberDecoding) -> AnswerTable:
    rows = tuple(
        (edge_text(p.edge), *map(percent, (p.estimate, p.low, p.high)), percent(p.fitted))
        for p in decoding.curve
    )
    headings = ("at or above", "share", "low", "high", "picture")
    return AnswerTable(_title(decoding, "the curve"), headings, rows)


def _change_table(series: NumberSeries) -> AnswerTable:
    rows = [
        (str(series.windows[change.first].first_day), str(series.windows[change.second].first_day),
         *change_text(row), p_text(row.p_adjusted))
        for change in series.changes
        for row in sorted(change.rows, key=lambda one: one.p_value)[:3]
    ]  # fmt: skip
    headings = ("from", "to", "quantity", "change", "low", "high", "p")
    title = "changes in points, with corrected p: the three clearest of each pair of windows"
    if len(rows) > SHOWN_CHANGES:
        title = f"{title}; the first {SHOWN_CHANGES} of {len(rows):,}"
    return AnswerTable(title, headings, tuple(rows[:SHOWN_CHANGES]))


def _end(end: float | None, missing: str = "open") -> str:
    return missing if end is None else edge_text(end)
