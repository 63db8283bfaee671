"""google/rappor's report files: `client,cohort,bloom,prr,irr`, bit strings, highest bit first.

Only `cohort` and `irr` are read; `client`, which would link reports of one device, is dropped. In
what is written every report is a client of its own, and `bloom` and `prr`, which no collector
knows, are empty.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import file_digest
from itertools import islice, pairwise
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from archive.bit_sums import Bytes
from archive.errors import ArchiveError, NotArchivedError
from archive.keys import ArchiveKey
from archive.layouts import LinkedLayout
from archive.manifest import ArchivedPart, folder_of, params_of, read_entries, touches
from archive.parquet import open_part, read_group, reading
from archive.parts import PartLabel, check_digest, write_part
from archive.store import Store
from archive.tasks import PartCounts, add_rows, no_counts
from rappor_core.errors import shown
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams

HEADER = ["client", "cohort", "bloom", "prr", "irr"]
_LINES = 100_000  # read at once
_ZERO, _ONE = ord("0"), ord("1")

Cohorts = NDArray[np.int64]


def import_reports(
    path: Path, store: Store, key: ArchiveKey, label: PartLabel, metric: Metric | None
) -> ArchivedPart:
    """Make a report file a part of an archive. Takes about 50 bytes of memory a report.

    label: its `source` is replaced by the digest of the file.  metric: whose `min_reports` and
    cohort floor the file must reach, where one is declared.
    Raises ArchiveError that names the line, or for a file or days that are there already.
    """
    params = label.params
    if isinstance(params, LinkedLayout):
        raise ArchiveError(f"{label.metric!a}: this file format has no linked reports")
    with path.open("rb") as file:
        label = replace(label, source=file_digest(file, "sha256").hexdigest())
    _refuse_twice(store, key, label)
    cohorts, rows = read_csv(path, params)
    order = np.argsort(cohorts, kind="stable")
    cohorts, rows = cohorts[order], rows[order]
    bounds = np.searchsorted(cohorts, np.arange(params.num_cohorts + 1))
    pieces = ((cohort, rows[start:end]) for cohort, (start, end) in enumerate(pairwise(bounds)))
    return write_part(store, key, label, pieces, lambda sums: _check_floors(sums, metric))


def _refuse_twice(store: Store, key: ArchiveKey, label: PartLabel) -> None:
    for entry in read_entries(store, key, folder_of(label.metric, label.params_id)):
        if entry.source == label.source:
            raise ArchiveError(f"this file is in the archive already, as {entry.name}")
        if label.first_day is None or label.last_day is None:
            if entry.first_day is not None:
                raise ArchiveError(f"{label.metric!a} has days in this archive; give --from, --to")
        elif entry.first_day is None or touches(entry, label.first_day, label.last_day):
            raise ArchiveError(f"{entry.name}: its days and these overlap: reports could be twice")


def read_csv(path: Path, params: RapporParams) -> tuple[Cohorts, Bytes]:
    """Read cohorts, (n,), and reports, (n, report_bytes). Raises ArchiveError that names the
    line."""
    pieces = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        header = [cell.strip() for cell in next(reader, [])]
        if header != HEADER:
            raise ArchiveError(f"{path}: expected the header {','.join(HEADER)}")
        line = 2
        while rows := list(islice(reader, _LINES)):
            pieces.append(_parse(path, line, rows, params))
            line += len(rows)
    if not pieces:
        raise ArchiveError(f"{path}: no reports")
    return np.concatenate([c for c, _ in pieces]), np.concatenate([b for _, b in pieces])


def write_csv(
    output: IO[str], entries: Iterable[ArchivedPart], store: Store, key: ArchiveKey
) -> Iterator[int]:
    """Write the reports of parts as lines; yield how many each row group gave.

    Raises ArchiveError for linked reports, and ArchiveDamagedError, maybe after lines were written,
    for a part that is missing, damaged, or not of the sums that its entry tells.
    """
    entries = list(entries)
    if any(entry.linked for entry in entries):
        raise ArchiveError("linked reports have no form in this file: its lines are of one metric")
    output.write(",".join(HEADER) + "\n")
    number = 0
    for entry in entries:
        params, counts = params_of(entry), no_counts(*entry.shape)
        with open_part(store, entry.file) as raw, reading(raw, entry.file, key) as opened:
            for group in range(opened.num_row_groups):
                cohorts, rows = read_group(opened, group)
                add_rows(counts, cohorts, rows)
                lines = zip(cohorts.tolist(), _bit_strings(rows, params.num_bits), strict=True)
                for cohort, bits in lines:
                    number += 1
                    output.write(f"{number},{cohort},,,{bits}\n")
                yield len(rows)
        check_digest(entry, counts)


def _parse(
    path: Path, first: int, rows: list[list[str]], params: RapporParams
) -> tuple[Cohorts, Bytes]:
    k, m = params.num_bits, params.num_cohorts
    cohorts = np.empty(len(rows), dtype=np.int64)
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
    if not np.isin(bits_of, (_ZERO, _ONE)).all():
        raise ArchiveError(f"{path}: lines from {first} on: irr has other digits than 0 and 1")
    return cohorts, np.packbits(bits_of[:, ::-1] == _ONE, axis=1, bitorder="little")


def _bit_strings(rows: Bytes, num_bits: int) -> Iterator[str]:
    bits = np.unpackbits(rows, axis=1, count=num_bits, bitorder="little")[:, ::-1]
    text = (bits + _ZERO).tobytes().decode("ascii")
    return (text[start : start + num_bits] for start in range(0, len(text), num_bits))


def _check_floors(sums: PartCounts, metric: Metric | None) -> None:
    """The collector's rule: so many reports in all, and in each cohort none or its floor."""
    if metric is None:
        return
    sizes = sums.reports_per_cohort
    smallest = int(sizes[sizes > 0].min(initial=sizes.sum()))
    if sizes.sum() < metric.min_reports or smallest < metric.cohort_floor:
        raise NotArchivedError(
            f"{int(sizes.sum())} reports, {smallest} in the smallest cohort; metric "
            f"{metric.name!a} asks for min_reports = {metric.min_reports} and "
            f"min_reports_per_cohort = {metric.cohort_floor}"
        )
