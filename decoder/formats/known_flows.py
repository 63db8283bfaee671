"""A known matrix of flows, such as the last census: a CSV of origin,destination,count."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from decoder.errors import CountsError
from decoder.files import naming
from decoder.progress import Note, quiet
from decoder.tables.reading import read_table
from decoder.typing import Floats
from rappor_core.errors import shown
from rappor_core.grid.box import OTHER
from rappor_core.metrics.flow import Flow

COLUMNS = ("origin", "destination", "count")
_WAY_OUT = "give a UTF-8 CSV with columns origin, destination and count"


def read_known_flows(path: Path, flow: Flow, note: Note = quiet) -> Floats:
    """Read counts by pair of cells; those of the same pair add up.

    Args:
        path: a CSV with a header; further columns are passed over.
        flow: whose cells are named; any other name counts as `other`.
        note: called with a sentence on names that are no cells.

    Returns:
        (P,) counts, row by row of the K + 2 sides.

    Raises:
        CountsError: no such columns, a count that is no number of 0 or more, or no cell is named.
    """
    counts = np.zeros((flow.num_sides, flow.num_sides))
    unknown: set[str] = set()
    for pair, count in read_flow_counts(path).items():
        origin, destination = (_side(name, flow, unknown) for name in pair)
        counts[origin, destination] += count
    with naming(path, CountsError, _WAY_OUT):
        if not counts[: len(flow.cells), : len(flow.cells)].any():
            raise CountsError(
                f"no count of a pair of this metric's cells, such as {flow.cells[0]!r}: name cells "
                "as flows.csv does"
            )
    if unknown:
        note(
            f"{path}: names that are no cells of this metric ({len(unknown):,}, such as "
            f"{shown(min(unknown))}) count as {OTHER!r}"
        )
    return counts.ravel()


def read_flow_counts(path: Path) -> dict[tuple[str, str], float]:
    """Read counts by the names of both sides; those of the same pair add up.

    Raises CountsError for a file without these columns, without a count above 0, or with a count
    that is no number of 0 or more.
    """
    found: dict[tuple[str, str], float] = {}
    with naming(path, CountsError, _WAY_OUT):
        for row in read_table(path, COLUMNS):
            pair = row.text("origin", strip=True), row.text("destination", strip=True)
            found[pair] = found.get(pair, 0.0) + row.number("count", low=0)
        if not 0 < sum(found.values()) < math.inf:
            raise CountsError("the counts add up to 0, or to more than a number holds")
    return found


def flow_counts_csv(counts: Mapping[tuple[str, str], float]) -> str:
    """Counts as a CSV that `read_flow_counts` reads, by the names of both sides."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((*pair, repr(count)) for pair, count in sorted(counts.items()))
    return file.getvalue()


def _side(text: str, flow: Flow, unknown: set[str]) -> int:
    if text not in flow.side_index:
        unknown.add(text)
        text = OTHER
    return flow.side_index[text]
