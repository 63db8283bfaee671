"""Jobs of kind `decode`: which values are how frequent in one window."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from decoder.output.decoding_view import decoding_view
from decoder.output.tables import TablePage, TableQuery, page_of
from decoder.progress import Progress
from decoder.results.tables import Decoding
from decoder.workflows.decoding import run_decode
from decoder_service.job_kinds.of_values import JobOfValues, refuse_other_kinds, summary_of
from decoder_service.jobs.kinds import JobInputs, StoredResult

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
        """What was found, or every candidate; the fit in words."""
        found = json.loads(result.read("results.json"))
        if query.all and result.own:
            page = _page(result.read("candidates.parquet"), query)
        else:
            page = page_of(found["detected"], "value", replace(query, all=False))
        return decoding_view(found, json.loads(result.read("manifest.json")), page)

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
