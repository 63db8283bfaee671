"""Jobs of kind `compare`: the difference of two windows, each value with an interval of its own."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from decoder.errors import DecodeError
from decoder.files import finite, write_json
from decoder.output.series_files import change_rows, windows_of
from decoder.output.svg import Tick, axis_step, tick_text
from decoder.output.tables import TablePage, TableQuery, page_of
from decoder.progress import Progress
from decoder.series.series import Series
from decoder.sources.windows import sum_of
from decoder.workflows.decoding import run_series
from decoder.workflows.kinds import FetchedCounts
from decoder_service.job_kinds.of_values import (
    MOST_SHOWN,
    JobOfValues,
    refuse_other_kinds,
    summary_of,
)
from decoder_service.jobs.kinds import JobInputs, StoredResult
from decoder_service.jobs.known_counts import KnownCounts, sum_of_known

if TYPE_CHECKING:
    from decoder_service.jobs.specs import JobSpec

COMPARE_COLUMNS = (
    "string",
    "before",
    "after",
    "difference",
    "std_error",
    "low",
    "high",
    "p_value",
    "p_adjusted",
)
MOST_MARKS = 200
MORE, LESS, UNCHANGED = "More", "Less", "No change shown"


@dataclass(frozen=True)
class DifferencePage:
    """A page of differences and the picture's axis: places in per cent of its width."""

    table: TablePage
    ticks: tuple[Tick, ...]
    marks: tuple[tuple[float, float, float], ...]


class ComparisonJob(JobOfValues):
    """Two windows of one version of a metric."""

    name = "compare"
    title = "Difference of two windows"
    purpose = "two windows of one metric: differences with their own intervals"
    template = "result_compare.html.j2"
    members = JobOfValues.members | {"before"}
    tables = ("compare.json", "compare.csv", "compare.parquet")

    def check(self, spec: JobSpec, counts: Sequence[Sequence[KnownCounts] | None]) -> None:
        """Check that the counts fit, and the later window follows the earlier.

        Raises RequestError.
        """
        super().check(spec, counts)
        if all(counts):
            both = [sum_of_known(known, "leave one of them out") for known in counts if known]
            sum_of_known(both, "compare two windows of one version, one after the other")

    def run(self, inputs: JobInputs, progress: Progress) -> dict[str, Any]:
        """Decode both as a series of two windows."""
        refuse_other_kinds(inputs)
        before, after = map(sum_of, inputs.groups)
        if (before.params_id, before.params) != (after.params_id, after.params):
            raise DecodeError(
                f"the windows have params_id {before.params_id!a} and {after.params_id!a}: their "
                "reports mean different things; decode each by itself"
            )
        job = inputs.decoding(FetchedCounts((before, after)))
        return _write(run_series(job, inputs.spec.each, progress), inputs.folder)

    def view(self, result: StoredResult, query: TableQuery) -> dict[str, Any]:
        """A page of differences, grouped by what changed, in each those that are surest first."""
        content = json.loads(result.read("compare.json"))
        alpha = content.get("alpha", 0.05)
        rows = [row | {"group": _group(row, alpha)} for row in content["rows"]]
        return {
            "differences": _page(rows, query),
            "changed": sum(1 for row in rows if row["group"] != UNCHANGED),
            "windows": content["windows"],
            "alpha": alpha,
            "level": f"{100 * content.get('level', 0.95):g} %",
            "grouped": not query.sort,
            "unchanged": UNCHANGED,
        }

    def command(self, spec: JobSpec, metric: str, sources: Sequence[Sequence[str]]) -> list[str]:
        """`rappor decode` of a series of both."""
        return [*super().command(spec, metric, sources), "--each", "day"]


def _write(series: Series, folder: Path) -> dict[str, Any]:
    """Add compare.csv, compare.json and compare.parquet; the summary."""
    rows = change_rows(series, series.changes[0])
    with (folder / "compare.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COMPARE_COLUMNS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    windows = windows_of(series)
    options = series.whole.options
    levels = {"level": options.level, "alpha": options.alpha}
    write_json({"windows": windows, **levels, "rows": rows}, folder / "compare.json", indent=1)
    parquet.write_table(pa.Table.from_pylist(rows), folder / "compare.parquet")
    changes = finite(_ranked(rows)[:MOST_SHOWN])
    return {**summary_of(series.whole), "windows": windows, "changes": changes}


def _ranked(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(rows, key=lambda row: (row["p_adjusted"], -abs(row["difference"])))


def _group(row: Mapping[str, Any], alpha: float) -> str:
    """What changed of a value."""
    if row["p_adjusted"] > alpha:
        return UNCHANGED
    return MORE if row["difference"] > 0 else LESS


def _page(rows: Sequence[Mapping[str, Any]], query: TableQuery) -> DifferencePage:
    """Rows of compare.json as a table with its marks."""
    groups = (MORE, LESS, UNCHANGED)
    ordered = sorted(_ranked(rows), key=lambda row: groups.index(row["group"]))
    table = page_of(ordered, "string", query)
    shown = table.rows if len(table.rows) <= MOST_MARKS else ()
    top = max((abs(row[end]) for row in shown for end in ("low", "high")), default=1.0) or 1.0
    step, end = axis_step(top, most=3)

    def at(share: float) -> float:
        return round(50 + 50 * max(-1.0, min(1.0, share / end)), 2)

    marks = tuple((at(row["low"]), at(row["difference"]), at(row["high"])) for row in shown)
    ticks = (
        Tick(0, _points(-end, step)),
        Tick(50, _points(0, step)),
        Tick(100, f"+{_points(end, step)}"),
    )
    return DifferencePage(table, ticks, marks)


def _points(share: float, step: float) -> str:
    return tick_text(share, step).removesuffix(" %")


KIND = ComparisonJob()
