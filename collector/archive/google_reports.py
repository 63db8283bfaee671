"""Sum google/rappor's report files: `client,cohort,bloom,prr,irr`, bit strings, highest bit first.

Only `cohort` and `irr` are read; `client`, which would link reports of one device, is dropped.
"""

from __future__ import annotations

import csv
from itertools import islice
from pathlib import Path

import numpy as np

from collector.archive.parquet import Bytes
from collector.archive.parts import PartCounts
from collector.archive.store import ArchiveError
from rappor_core.aggregate import Aggregate
from rappor_core.errors import shown
from rappor_core.params import RapporParams

HEADER = ["client", "cohort", "bloom", "prr", "irr"]
_LINES = 100_000  # read at once
_ONE = ord("1")


def sum_report_file(path: Path, metric: str, params: RapporParams) -> Aggregate:
    """Sum a report file to an aggregate without days, in bounded memory.

    Args:
        path: of the file.
        metric: name of the aggregate.
        params: of the reports, such as those of google/rappor's params.csv.

    Raises:
        ArchiveError: names the line that is not a report.
    """
    counts = PartCounts.zero(params)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        header = [cell.strip() for cell in next(reader, [])]
        if header != HEADER:
            raise ArchiveError(f"{path}: expected the header {','.join(HEADER)}")
        line = 2
        while rows := list(islice(reader, _LINES)):
            cohorts, bits = _parse(path, line, rows, params)
            order = np.argsort(cohorts, kind="stable")
            counts.add_rows(cohorts[order], bits[order])
            line += len(rows)
    if not counts.reports_per_cohort.any():
        raise ArchiveError(f"{path}: no reports")
    reports_per_cohort, bit_counts = counts.as_tuples()
    return Aggregate(metric, params, reports_per_cohort, bit_counts)


def _parse(
    path: Path, first: int, rows: list[list[str]], params: RapporParams
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int32]], Bytes]:
    """Cohorts (n,) and reports (n, report_bytes) of lines. first: the number of the first one."""
    k, m = params.num_bits, params.num_cohorts
    cohorts = np.empty(len(rows), dtype=np.int32)
    for number, row in enumerate(rows):
        if len(row) != len(HEADER):
            raise ArchiveError(f"{path}: line {first + number}: {len(row)} cells of {len(HEADER)}")
        digits, bits = row[1].strip(), row[4].strip()
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 10 and int(digits) < m):
            raise ArchiveError(
                f"{path}: line {first + number}: cohort {shown(row[1])}; 0 to {m - 1} are expected"
            )
        if len(bits) != k or bits.strip("01"):
            raise ArchiveError(
                f"{path}: line {first + number}: irr {shown(row[4])}; {k} digits 0 and 1 are "
                "expected"
            )
        cohorts[number] = int(digits)
    text = "".join(row[4].strip() for row in rows).encode("ascii")
    bits_of = np.frombuffer(text, dtype=np.uint8).reshape(-1, k)
    return cohorts, np.packbits(bits_of[:, ::-1] == _ONE, axis=1, bitorder="little")
