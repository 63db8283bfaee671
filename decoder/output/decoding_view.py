"""The view of a decoding from results.json and manifest.json, for report.html and the service."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from decoder.files import row_of
from decoder.inference.diagnostics import odd_cohorts
from decoder.inference.multiple_testing import PROMISES
from decoder.output.charts import forest
from decoder.results.tables import Detected
from decoder.tables.format import count, fraction, interval, p_text, percent, short
from decoder.tables.paging import TablePage

MAX_MARKS = 60  # the maximum number of rows in the picture


def decoding_view(
    content: Mapping[str, Any],
    manifest: Mapping[str, Any],
    table: TablePage,
) -> dict[str, Any]:
    """Return the variables of `result_decode.html.j2`.

    Args:
        content: The contents of results.json.
        manifest: The contents of manifest.json.
        table: The rows to show, of `found["detected"]`; or of all candidates if its query asks for
            all, with the names of `Detected`.
    """
    detected, listed = (
        [row_of(Detected, row, ("true_share",)) for row in some]
        for some in (content["detected"], [] if table.query.all else table.rows)
    )
    rows = table.rows if table.query.all else [vars(row) for row in listed]
    known = not table.query.all and any(row.true_share is not None for row in detected)
    correction, alpha, weights = (manifest[name] for name in ("correction", "alpha", "weights"))
    weighted = (
        ""
        if weights is None
        else (
            f", p-values divided by weights of {weights['least']:.2g} to {weights['most']:.2g}, "
            "declared before the counts were seen"
        )
    )
    headings = {"fdr-eb": "Mean local fdr", "none": "p-value"}
    method = content["diagnostics"]["method"]
    z = [math.nan if score is None else score for score in content["diagnostics"]["cohort_z"]]
    odd = odd_cohorts(np.array(z)).tolist()
    return {
        "found": content,
        "table": table,
        "rows": Markup("".join(  # noqa: S704 (escaped below)
            _row_html(row, content["summary"]["num_reports"], known) for row in rows
        )),
        "notes": sorted({(_mark(vars(row)), row.note) for row in listed if row.note}),
        "possible": sum(row.low <= 0 for row in detected),
        "forest": forest([(row.value + " (possible)" * (row.low <= 0), row.share, row.low,
                           row.high, row.true_share) for row in listed[:MAX_MARKS]])
        if listed else None,
        "known": known,
        "covered": sum(row.low <= row.true_share <= row.high for row in detected
                       if row.true_share is not None),
        "false_found": sum(row.true_share == 0.0 for row in detected),
        "weakest": min((row for row in detected if row.forged >= 0),
                       key=lambda row: row.forged, default=None),
        "level": f"{100 * manifest['level']:g} %",
        "promise": PROMISES[correction].format(level=f"{100 * alpha:g} %"),
        "p_heading": headings.get(correction, "Corrected p"),
        "method_text": f"{'one bit per value' if method == 'direct' else method}, {correction} at "
        f"{100 * alpha:g} %{weighted}",
        "checked": not all(map(math.isnan, z)),
        "odd_cohorts": [(cohort, round(z[cohort], 1)) for cohort in odd],
    }  # fmt: skip


def _mark(row: Mapping[str, Any]) -> str:
    return ("possible" if row["low"] <= 0 else "*") if row.get("note") else ""


def _row_html(row: Mapping[str, Any], num_reports: int, known: bool) -> str:
    """Return a table row, escaped; the template would take five times as long for ten thousand."""
    cells = [
        *([percent(row["true_share"])] if known else ()),
        percent(row["share"]),
        f"{interval(row['low'], row['high'])} {_mark(row)}".rstrip(),
        count(min(max(row["share"], 0.0), 1.0) * num_reports),
        escape(p_text(row["p_adjusted"])),
        *([fraction(row["forged"])] if "forged" in row else ()),
    ]
    value = f'<th scope="row" dir="auto">{escape(short(row["value"], 300))}</th>'
    return f"<tr>{value}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"
