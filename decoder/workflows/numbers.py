"""Decode jobs of metrics of numbers: the curve, quantiles and mean, in files and in a table."""

from __future__ import annotations

from typing import Any

from decoder.errors import CandidatesError
from decoder.numbers.changes import ANY_DATA, NumberSeries, decode_numbers_over_time
from decoder.numbers.decoding import decode_numbers
from decoder.numbers.tables import NumberDecoding
from decoder.output.number_text import known, p_text
from decoder.output.number_view import number_view
from decoder.output.numbers_files import numbers_content, write_numbers
from decoder.output.numbers_svg import change_text, edge_text, quantity_text
from decoder.output.tables import TableQuery
from decoder.progress import Progress
from decoder.results.warnings import percent
from decoder.sources.windows import sum_of
from decoder.workflows.decoding import CandidateChoice, DecodeJob
from decoder.workflows.kinds import AnswerTable, DecoderKind, KindAnswer, KindSeries
from rappor_core.aggregate import Aggregate

SHOWN_CHANGES = 25
MOST_SUMMED = 20  # quantiles in a summary


class Numbers(DecoderKind):
    """The decoder of metrics of numbers."""

    name = "number"
    title = "Numbers"
    purpose = "curve, quantiles and mean of a metric of numbers"
    table = "curve.csv"
    template = "result_number.html.j2"
    has_series = True

    def run(self, job: DecodeJob, counts: Aggregate, progress: Progress) -> KindAnswer:
        """Decode a window; write the files if the job names a folder.

        Raises CandidatesError for candidates, which a metric of numbers has none of, and what
        `decode_numbers` refuses; OutputError for the folder.
        """
        return _answer(job, (counts,), None, progress)

    def run_series(
        self, job: DecodeJob, windows: tuple[Aggregate, ...], progress: Progress
    ) -> KindAnswer:
        """Decode the sum of the windows, and their changes; otherwise as `run`."""
        _refuse_candidates(job)
        return _answer(job, windows, decode_numbers_over_time(windows, job.options), progress)

    def summary(self, content: dict[str, Any]) -> dict[str, Any]:
        """Mean and quantiles, for lists of results."""
        return {
            "num_reports": content["num_reports"],
            "unit": content["unit"],
            "mean": content["mean"],
            "quantiles": content["quantiles"][:MOST_SUMMED],
            "warnings": content["warnings"],
        }

    def in_list(self, summary: dict[str, Any]) -> str:  # noqa: ARG002
        """The fixed words for a result in a list of results."""
        return "curve and quantiles"

    def view(self, content: dict[str, Any], query: TableQuery) -> dict[str, Any]:  # noqa: ARG002
        """The variables of the page: pictures and quantiles."""
        return number_view(content)

    def series(self, content: dict[str, Any]) -> KindSeries:
        """Shares at or above each edge in every window, with the means."""
        unit = content["unit"]
        return KindSeries(
            windows=[_days(one) | {"reports": one["num_reports"]} for one in content["windows"]],
            rows=[row for window in content["windows"] for row in _edge_rows(window, unit)],
            changes=[
                row | {"string": quantity_text(row["quantity"], unit)} for row in content["changes"]
            ],
            means=[_days(one) | one["mean"] for one in content["windows"] if one["mean"]],
            unit=unit,
        )

    def series_in_list(self, summary: dict[str, Any]) -> str:  # noqa: ARG002
        """The fixed words for a series in a list of results."""
        return "shares at or above each edge"


KIND = Numbers()


def _answer(
    job: DecodeJob,
    windows: tuple[Aggregate, ...],
    series: NumberSeries | None,
    progress: Progress,
) -> KindAnswer:
    _refuse_candidates(job)
    decoding = decode_numbers(sum_of(windows), job.options)
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


def _refuse_candidates(job: DecodeJob) -> None:
    if job.candidates != CandidateChoice():
        raise CandidatesError("a metric of numbers has a curve, not candidates: leave them out")


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
         *change_text(row, series.windows[0].number.unit), p_text(row.p_adjusted))
        for change in series.changes
        for row in sorted(change.rows, key=lambda one: one.p_value)[:3]
    ]  # fmt: skip
    headings = ("from", "to", "quantity", "change", "interval", "p")
    title = "changes, with corrected p: the three clearest of each pair of windows"
    if len(rows) > SHOWN_CHANGES:
        title = f"{title}; the first {SHOWN_CHANGES} of {len(rows):,}"
    return AnswerTable(title, headings, tuple(rows[:SHOWN_CHANGES]))


def _end(end: float | None, missing: str = "open") -> str:
    return missing if end is None else edge_text(end)


def _edge_rows(window: dict[str, Any], unit: str) -> list[dict[str, Any]]:
    """A row for each edge; first the share with data, where that is asked apart."""
    named = [(quantity_text(f"{one['edge']:.10g}", unit), one) for one in window["curve"]]
    if window["with_data"] is not None:
        named.insert(0, (quantity_text(ANY_DATA, unit), window["with_data"]))
    return [
        {
            **_days(window),
            "reports": window["num_reports"],
            "string": name,
            "proportion": one["estimate"],
            "std_error": one["std_error"],
            "low": one["low"],
            "high": one["high"],
        }
        for name, one in named
    ]


def _days(window: dict[str, Any]) -> dict[str, str]:
    return {name: str(window[name]) for name in ("first_day", "last_day")}
