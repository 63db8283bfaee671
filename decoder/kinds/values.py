"""The kinds string, category and boolean: the frequencies of the values in a list."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from decoder.candidates.lists import Candidates, metric_candidates
from decoder.comparison.windows import Series, decode_over_time
from decoder.files import finite
from decoder.formats.google_rappor import read_map
from decoder.kinds.interface import KindDecoder
from decoder.kinds.over_time import SeriesFound, series_result
from decoder.kinds.result import (
    MANIFEST,
    RESULTS,
    PageParts,
    Question,
    Result,
    StoredResult,
    manifest_of,
)
from decoder.kinds.run import write_result
from decoder.options import DecodeOptions
from decoder.output.decoding_view import decoding_view
from decoder.pipeline import decode
from decoder.progress import Progress, silent
from decoder.results.tables import NOTES, Decoding
from decoder.sources.windows import sum_of
from decoder.tables.format import count, days
from decoder.tables.paging import TableQuery, page_of, page_of_parquet
from decoder.tables.table import SHARE_INTERVAL, Column, ColumnType, Table, TableSchema
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams
from rappor_core.text import counted

_NUMBER, _SHARE, _P_VALUE = ColumnType.NUMBER, ColumnType.SHARE, ColumnType.P_VALUE
# google/rappor's seven columns, then the p-values.
DETECTED = TableSchema(
    "results",
    "Values detected",
    (
        Column("string", ColumnType.TEXT, "The value, as text.", "value", shown=True),
        Column("estimate", _NUMBER, "Reports with the value.", unit="reports"),
        Column("std_error", _NUMBER, "Standard error of `estimate`.", unit="reports"),
        Column("proportion", _SHARE, "Share of the reports, shrunken.", "share", shown=True),
        Column("prop_std_error", _SHARE, "Standard error of `proportion`."),
        Column("prop_low_95", _SHARE,
               "Lower end after selection, at the decoding's level.", shown=True),
        Column("prop_high_95", _SHARE,
               "Upper end after selection, at the decoding's level.", shown=True),
        Column("p_value", _P_VALUE, "P-value of the test that no one has the value."),
        Column("p_adjusted", _P_VALUE, "The same, corrected for the whole list.",
               "corrected p", shown=True),
    ),
)  # fmt: skip
CANDIDATES = TableSchema(
    "candidates",
    "All candidates",
    (
        Column("value", ColumnType.TEXT, "The candidate.", shown=True),
        Column("estimate", _SHARE, "Unbiased share of the reports.", "share", shown=True),
        *SHARE_INTERVAL,
        Column("shrunken", _SHARE, "Posterior mean of the share: the best single guess."),
        Column("z", _NUMBER, "Score of the test that no one has the value."),
        Column("local_fdr", _P_VALUE, "Probability that no one has the value."),
        Column("p_value", _P_VALUE, "P-value of the test that no one has the value."),
        Column("p_adjusted", _P_VALUE, "The same, corrected for the whole list.",
               "corrected p", shown=True),
        Column("weight", _NUMBER, "Divisor of the p-value; absent without weights."),
        Column("detected", ColumnType.FLAG, "Whether the correction detects the value."),
        Column("selected_low", _SHARE, "Lower end after selection; empty if not detected."),
        Column("selected_high", _SHARE, "Upper end after selection; empty if not detected."),
        Column("same_bits_as", ColumnType.TEXT,
               "The first candidate that sets the same bits; empty if it is this one."),
        Column("forged", _SHARE,
               "Smallest share of fabricated reports that would explain the estimate."),
        Column("forged_low", _SHARE,
               "The same, for the part of the estimate above `selected_low`."),
        Column("forged_shift", _SHARE, "Largest change by 1 % of fabricated reports."),
        Column("note", ColumnType.TEXT, "Why the interval of a detected value reaches 0."),
    ),
    exact=True,
)  # fmt: skip
PRINTED = TableSchema(
    "results",
    "Values detected",
    (
        DETECTED.columns[0],
        Column("true_share", _SHARE, "The true share, where it is known.", "true", shown=True),
        *DETECTED.columns[3:],
        Column("found", ColumnType.TEXT, "possible: the interval reaches 0.", shown=True),
        Column("forged", _SHARE, "Fabricated reports of this share could explain the estimate.",
               "fabricated", shown=True),
        Column("note", ColumnType.TEXT, "Why the interval reaches 0."),
    ),
)  # fmt: skip
MAX_LISTED = 20  # the maximum number of values in a summary


class Values(KindDecoder):
    """The decoder for strings, categories and Boolean values."""

    title = "Frequencies"
    purpose = "how frequent each value is in one window"
    members = frozenset({"candidates", "weights"})
    operations = ("decode", "series", "compare")
    schemas = (DETECTED, CANDIDATES)
    published = (RESULTS, MANIFEST, "candidates.csv")

    def decode(self, counts: Sequence[Aggregate], question: Question) -> Result:
        """Decode the sum of the counts; see `KindDecoder.decode`."""
        # Do not keep the list in a variable: it would stay in memory while files are written.
        window = sum_of(counts)
        return decoding_result(
            decode(window, chosen_candidates(window, question), question.options, question.progress)
        )

    def series(self, windows: Sequence[Aggregate], question: Question) -> Result:
        """Decode all windows together; then estimate the detected values in each window."""
        candidates = chosen_candidates(windows[0], question)
        series = decode_over_time(windows, candidates, question.options, question.progress)
        return values_series(series, question.options)

    def page(self, stored: StoredResult, query: TableQuery) -> PageParts:
        """Return detected values (with a picture) or all candidates, and the fit's diagnostics."""
        content, manifest = stored.json(), stored.json(MANIFEST)
        if query.all and stored.own:
            named = replace(query, sort=query.sort.replace("share", "estimate"))
            page = page_of_parquet(stored.read("candidates.parquet"), named, CANDIDATES.names[:10])
            rows = [row | {"share": row["estimate"]} for row in page.rows]
            page = replace(page, rows=rows, query=query)
        else:
            page = page_of(content["detected"], "value", replace(query, all=False))
        first, last = manifest["first_day"], manifest["last_day"]
        window = f", {days(first, last)}" if first and last else ""
        params = RapporParams.from_dict(manifest["params"])
        return PageParts(
            "result_decode.html.j2",
            {**decoding_view(content, manifest, page), "params": params, "source": manifest},
            f"Frequencies recovered from {count(manifest['num_reports'])} randomized "
            f"reports{window}",
        )


KIND = Values()


def values_series(series: Series, options: DecodeOptions) -> Result:
    """Return the result of a series of shares."""
    columns = zip(series.shares, series.std_errors, series.low, series.high, strict=True)
    over_time = SeriesFound(series.windows, series.values, list(columns), series.changes)
    return series_result(decoding_result(series.whole), over_time, options)


def decoding_result(decoding: Decoding) -> Result:
    """Return the result of a decoding with candidates."""
    content, rows = decoding_content(decoding), decoding.detected
    total, options = decoding.summary.num_reports, decoding.options
    keys = ("value", "share", "std_error", "low", "high", "p_value", "p_adjusted")
    numbers = ("num_candidates", "num_detected", "num_reports", "detectable_share")
    summary = {name: content["summary"][name] for name in numbers}
    digest, weights, weight = sha256(), options.weights, decoding.candidates.weight
    for value in decoding.candidates.values:
        digest.update(f"{value}\n".encode())
    detected = [
        (row.value, row.share * total, row.std_error * total, row.share, row.std_error,
         row.low, row.high, row.p_value, row.p_adjusted)
        for row in rows
    ]  # fmt: skip
    names = {"string": "value", "proportion": "share", "prop_std_error": "std_error",
             "prop_low_95": "low", "prop_high_95": "high"}  # fmt: skip
    possible = sum(row.low <= 0 for row in rows)
    marked = f", {possible:,} of them possible" * bool(possible)
    printed = {
        name: [getattr(row, names.get(name, name)) for row in rows]
        for name in PRINTED.names
        if {"true_share": options.true_shares is not None, "found": possible}.get(name, True)
    }
    remarks = dict.fromkeys(f"{row.value}: {row.note}" for row in rows if row.note)
    title = f"{decoding.metric}: {counted(len(rows), 'value')} found{marked}"
    return Result(
        content,
        summary
        | {
            "warnings": content["warnings"],
            "reason": content["reason"],
            "headline": f"{len(rows):,} of {summary['num_candidates']:,} found{marked}",
            "top": [{key: row[key] for key in keys} for row in content["detected"][:MAX_LISTED]],
        },
        (DETECTED.of_rows(detected), _candidate_table(decoding)),
        manifest=manifest_of(
            decoding,
            options,
            num_candidates=decoding.summary.num_candidates,
            candidates_sha256=digest.hexdigest(),  # one per line, in list order
            method=decoding.diagnostics.method,
            full_fit=options.full_fit,
            correction=options.correction,
            largest_p=options.largest_p,
            weights=None
            if weights is None or weight is None
            else {
                "sha256": weights.digest,
                "least": float(weight.min()),
                "most": float(weight.max()),
            },
            repeats=decoding.summary.repetition,
            target="population: the interval allows for the reporters being a sample of it",
        ),
        notes=(*decoding.warnings, *([decoding.reason] if decoding.reason else []), *remarks),
        printed=(PRINTED.table(printed, title),),
    )


def write_outputs(
    decoding: Decoding, directory: str | Path, progress: Progress = silent
) -> tuple[Path, ...]:
    """Write all files of a decoding or none.

    Args:
        decoding: The result of `decode`.
        directory: The folder, created if it does not exist.
        progress: A callback, called after each file.

    Returns:
        The paths of the files.

    Raises:
        OutputError: A file cannot be written.
    """
    return write_result(decoding_result(decoding), KIND, "decode", Path(directory), progress)


def decoding_content(decoding: Decoding) -> dict[str, Any]:
    """Return the contents of results.json, with NaN and infinity as null."""
    content = {
        "metric": decoding.metric,
        "summary": asdict(decoding.summary),
        "diagnostics": asdict(decoding.diagnostics)
        | {"cohort_z": decoding.diagnostics.cohort_z.tolist()},
        "warnings": list(decoding.warnings),
        "reason": decoding.reason,
        "candidates_read": decoding.notes,
        "detected": [asdict(row) for row in decoding.detected],
    }
    return {name: finite(value) for name, value in content.items()}


_EXACT = ("p_value", "p_adjusted", "weight")  # these may be too small for single precision


def _candidate_table(decoding: Decoding) -> Table:
    """Return every candidate in list order, with shares to seven significant digits."""
    table = decoding.candidates
    columns: dict[str, Any] = {name: getattr(table, name, None) for name in CANDIDATES.names}
    for name, values in columns.items():
        if isinstance(values, np.ndarray) and values.dtype == float and name not in _EXACT:
            columns[name] = values.astype(np.float32)
    columns["value"], total = table.values, len(table.values)
    others = np.flatnonzero(table.group != np.arange(total))
    first = {i: table.values[table.group[i]] for i in others.tolist()}
    same = pa.array(map(first.get, range(total)), pa.string()) if first else None
    columns["same_bits_as"] = pa.nulls(total, pa.string()) if same is None else same
    columns["note"] = pa.DictionaryArray.from_arrays(table.note, list(NOTES)).cast(pa.string())
    return CANDIDATES.table(
        {name: column for name, column in columns.items() if column is not None}
    )


def chosen_candidates(counts: Aggregate, question: Question) -> Candidates:
    """Return a question's list, or the metric's own values. Raises CandidatesError if invalid."""
    choice = question.candidates
    if choice.map_file:
        return read_map(choice.map_file, counts.params)
    if choice.file:
        return Candidates.from_file(choice.file, choice.column)
    if choice.numbers is not None:
        return Candidates.numbers(*choice.numbers)
    if choice.dates is not None:
        return Candidates.dates(*choice.dates)
    return metric_candidates(counts)
