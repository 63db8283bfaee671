"""Jobs of kind `decode`: which values are how frequent in one window."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup, escape
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from decoder.output.decoding_html import guarantee, method_text, p_heading, promise, weights_text
from decoder.output.number_text import count, interval, p_text
from decoder.output.svg import Forest, forest
from decoder.output.tables import TablePage, TableQuery, page_of
from decoder.progress import Progress
from decoder.results.tables import Decoding, Detected, short
from decoder.results.warnings import odd_cohorts, percent
from decoder.workflows.decoding import run_decode
from decoder_service.job_kinds.of_values import JobOfValues, refuse_other_kinds, summary_of
from decoder_service.jobs.kinds import JobInputs, StoredResult

MOST_MARKS = 60  # rows of the picture
_OPTIONS = ("method", "correction", "alpha", "level", "repeats")
_OF_CANDIDATES = {
    "value": "value",
    "share": "estimate",
    "std_error": "std_error",
    "low": "low",
    "high": "high",
    "p_value": "p_value",
    "p_adjusted": "p_adjusted",
}


class DecodingJob(JobOfValues):
    """Candidates in one window."""

    name = "decode"
    title = "Frequencies"
    purpose = "which values are how frequent in one window"
    template = "result_decode.html.j2"
    tables = ("results.json", "results.csv", "candidates.parquet")
    published = ("results.json", "manifest.json", "candidates.csv")
    compared = True

    def run(self, inputs: JobInputs, progress: Progress) -> dict[str, Any]:
        """Decode the counts."""
        refuse_other_kinds(inputs)
        return write_decoding(run_decode(inputs.decoding(), progress), inputs.folder)

    def view(self, result: StoredResult, query: TableQuery) -> dict[str, Any]:
        """What was found, a table, the fit in words."""
        found = json.loads(result.read("results.json"))
        manifest = json.loads(result.read("manifest.json"))
        if query.all and result.own:
            page, marks = _page(result.read("candidates.parquet"), query), None
        else:
            page = page_of(found["detected"], "value", query)
            marks = _picture(page.rows)
        z = [math.nan if one is None else one for one in found["diagnostics"]["cohort_z"]]
        odd = odd_cohorts(np.array(z)).tolist()
        correction, alpha = manifest["correction"], manifest["alpha"]
        return {
            "table": page,
            "table_html": _rows_html(page.rows, found["summary"]["num_reports"]),
            "forest": marks,
            "numbers": found["summary"],
            "diagnostics": found["diagnostics"],
            "warnings": found["warnings"],
            "reason": found["reason"],
            "level": f"{100 * manifest['level']:g} %",
            "promise": promise(correction, alpha),
            "p_heading": p_heading(correction),
            "guarantee": guarantee(manifest["epsilon_one"], _life(manifest)),
            "method_text": method_text(found["diagnostics"]["method"], correction, alpha)
            + _weights_text(manifest),
            "notes_text": found["candidates_read"],
            "checked": not all(map(math.isnan, z)),
            "odd_cohorts": [(int(cohort), round(z[cohort], 1)) for cohort in odd],
            "versions": manifest["versions"],
        }

    def comparing(
        self, spec: Mapping[str, Any], before: Sequence[str], after: Sequence[str]
    ) -> list[tuple[str, str]]:
        """A comparison of their counts, with the candidates and options of the later."""
        given, options = spec["candidates"], spec["options"]
        fields = [("kind", "compare"), *(("before_aggregates", sha) for sha in before)]
        fields += [("aggregates", sha) for sha in after]
        if given["list"] is not None:
            version = "" if given["version"] is None else f":{given['version']}"
            fields.append(("list", given["list"] + version))
        ranges = ((name, given[name]) for name in ("numbers", "dates"))
        fields += [(name, ":".join(map(str, ends))) for name, ends in ranges if ends is not None]
        chosen = ((name, options.get(name)) for name in _OPTIONS)
        return fields + [(name, str(value)) for name, value in chosen if value is not None]


def write_decoding(decoding: Decoding, folder: Path) -> dict[str, Any]:
    """Add candidates.parquet; the summary."""
    with (folder / "candidates.csv").open("rb") as file:
        table = arrow_csv.read_csv(
            file,
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(  # text is quoted there, a null is not
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                column_types={
                    "value": pa.string(),
                    "same_bits_as": pa.string(),
                    "weight": pa.float64(),  # there where the job has weights
                },
            ),
        )
    parquet.write_table(table, folder / "candidates.parquet")
    return summary_of(decoding)


def _rows_html(rows: Sequence[dict[str, Any]], num_reports: int) -> Markup:
    """Rows of the table. Not by the template: ten thousand of them take it five times as long.

    Values are text of strangers and are escaped; the other cells are numbers that are written here.
    """
    return Markup("".join(_row_html(row, num_reports) for row in rows))  # noqa: S704 (escaped)


def _row_html(row: dict[str, Any], num_reports: int) -> str:
    return (
        f'<tr><th scope="row" dir="auto">{escape(short(row["value"], 300))}</th>'
        f"<td>{percent(row['share'])}</td><td>{interval(row['low'], row['high'])}</td>"
        f"<td>{percent(row['std_error'])}</td><td>{count(row['share'] * num_reports)}</td>"
        f"<td>{escape(p_text(row['p_adjusted']))}</td></tr>\n"
    )


def _picture(rows: Sequence[dict[str, Any]]) -> Forest | None:
    """The intervals of the rows of a page; None where there are none, or too many."""
    if not 0 < len(rows) <= MOST_MARKS:
        return None
    return forest([_detected(row) for row in rows])


def _detected(row: dict[str, Any]) -> Detected:
    """A row of results.json, whose unknown numbers are null."""
    known: dict[str, Any] = {
        name: math.nan if value is None else value for name, value in row.items()
    }
    known["true_share"] = row["true_share"]
    return Detected(**known)


def _weights_text(manifest: dict[str, Any]) -> str:
    given = manifest.get("weights")  # of a decoder of before there is no such member
    return weights_text(np.array([given["least"], given["most"]]) if given else None)


def _life(manifest: dict[str, Any]) -> float:
    life = manifest["epsilon_infinity"]
    return math.inf if life is None else float(life)


def _page(content: bytes, query: TableQuery) -> TablePage:
    """Every candidate: searched, sorted and cut in columns, so that a million are no matter."""
    names = list(_OF_CANDIDATES.values())
    table = parquet.read_table(io.BytesIO(content), columns=names)
    total = table.num_rows
    if query.q:
        table = table.filter(pc.match_substring(table["value"], query.q, ignore_case=True))
    column = _OF_CANDIDATES.get(query.column)
    if column is not None:
        order = "descending" if query.descending else "ascending"
        table = table.take(pc.sort_indices(table, sort_keys=[(column, order)]))
    shown: pa.Table = table.slice(query.span.start, query.rows)
    columns = {name: shown[theirs].to_pylist() for name, theirs in _OF_CANDIDATES.items()}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return TablePage(rows, table.num_rows, total, query)


KIND = DecodingJob()
