"""The parts of an archive, with functions to write, commit, verify and count them.

The manifest has one entry per part, and a part counts only through its entry. An entry is a small
JSON file that only one writer can create. So if two exports move the same block, one commits, and
the second one's file is never read. An entry's name derives from its metric, version and first
day. Its digest covers every field: it detects corruption, not tampering.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from hashlib import file_digest, sha256
from secrets import token_hex
from typing import Any
from urllib.parse import quote

import numpy as np

from collector.archive.parquet import (
    Bytes,
    Cohorts,
    Counts,
    open_part,
    read_group,
    reading,
    rows_in_group,
    sum_bits,
    write_reports,
)
from collector.archive.store import ArchiveDamagedError, Store
from rappor_core.errors import RapporError
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from rappor_core.strict_json import parse_strict_json

VERSION = 2
ENTRIES, REPORTS = "entries", "reports"


@dataclass(frozen=True, slots=True)
class ArchivedPart:
    """The manifest entry of one part of the archive."""

    metric: str
    params_id: str
    definition: Mapping[str, Any]  # the declaration of the metric
    first_day: str  # the ISO date on which its block begins
    last_day: str  # inclusive
    file: str  # the name of the Parquet file
    file_digest: str  # the SHA-256 of the file
    file_bytes: int
    rows_in_group: int  # in each row group except the last
    num_reports: int
    reports_per_cohort: tuple[int, ...]
    counts_digest: str  # see `PartCounts`

    @property
    def name(self) -> str:
        """Return the name of the part's file in the manifest."""
        return entry_name(self.metric, self.params_id, self.first_day)

    @property
    def params(self) -> RapporParams:
        """Return the parameters with which the part's reports were made."""
        return RapporParams.from_dict(self.definition["params"])

    def touches(self, first_day: date | str, last_day: date | str) -> bool:
        """Return whether the part and the window from `first_day` to `last_day` share a day."""
        return self.first_day <= str(last_day) and str(first_day) <= self.last_day


def folder_of(metric: str, params_id: str | None = None) -> str:
    """Return the folder of a metric, or of one version of it; `/` in names is quoted."""
    folder = f"metric={quote(metric, safe='')}"
    return folder if params_id is None else f"{folder}/params_id={params_id}"


def entry_name(metric: str, params_id: str, first_day: str) -> str:
    """Return the name of a part's manifest entry."""
    return f"{ENTRIES}/{folder_of(metric, params_id)}/{first_day}.json"


def commit(store: Store, entry: ArchivedPart) -> None:
    """Write the entry of a part, so that readers sum the part.

    Raises FileExistsError if this block already has an entry.
    """
    fields = {"version": VERSION, **asdict(entry), "digest": _digest(entry)}
    store.create(entry.name, json.dumps(fields, sort_keys=True, indent=1).encode() + b"\n")


def read_entries(store: Store, folder: str = "") -> Iterator[ArchivedPart]:
    """Read every entry, sorted by name. Raises ArchiveDamagedError if an entry is damaged."""
    for name in store.list(f"{ENTRIES}/{folder}" if folder else ENTRIES):
        yield read_entry(store, name)


def read_entry(store: Store, name: str) -> ArchivedPart:
    """Read one entry and check its digest and name. Raises ArchiveDamagedError if they differ."""
    try:
        fields = parse_strict_json(store.read(name))
        digest = fields.pop("digest")
        if fields.pop("version") != VERSION:
            raise ArchiveDamagedError(f"{name}: of another version; this reads {VERSION}")
        fields["reports_per_cohort"] = tuple(fields["reports_per_cohort"])
        entry = ArchivedPart(**fields)
    except (RapporError, LookupError, TypeError, AttributeError) as error:
        raise ArchiveDamagedError(f"{name}: not an entry of a manifest ({error})") from None
    if digest != _digest(entry) or entry.name != name:
        raise ArchiveDamagedError(
            f"{name}: changed after it was written; restore it, or delete it and its part"
        )
    return entry


def _digest(entry: ArchivedPart) -> str:
    fields = {"version": VERSION} | asdict(entry)
    content = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return sha256(b"rappor archive entry\x00" + content).hexdigest()


@dataclass(frozen=True, slots=True)
class PartCounts:
    """The counts over some rows of a part: reports per cohort (m,) and bit counts (m, k)."""

    reports_per_cohort: Counts
    bit_counts: Counts

    @classmethod
    def zero(cls, params: RapporParams) -> PartCounts:
        """Return all-zero counts."""
        shape = params.num_cohorts, params.num_bits
        return cls(np.zeros(shape[0], dtype=np.int64), np.zeros(shape, dtype=np.int64))

    @property
    def digest(self) -> str:
        """Return the SHA-256 of both arrays as little-endian 64-bit integers."""
        digest = sha256(self.reports_per_cohort.astype("<i8").tobytes())
        digest.update(np.ascontiguousarray(self.bit_counts, dtype="<i8").tobytes())
        return digest.hexdigest()

    def as_tuples(self) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
        """Return reports per cohort and bit counts, in the form of an `Aggregate`."""
        return tuple(self.reports_per_cohort.tolist()), tuple(map(tuple, self.bit_counts.tolist()))

    def plus(self, other: PartCounts) -> PartCounts:
        """Return the sum of two counts."""
        return PartCounts(
            self.reports_per_cohort + other.reports_per_cohort, self.bit_counts + other.bit_counts
        )

    def add_rows(self, cohorts: Cohorts, rows: Bytes) -> None:
        """Add rows (n, report_bytes), sorted by cohort. Raises ArchiveDamagedError if invalid."""
        num_cohorts, num_bits = self.bit_counts.shape
        if rows.shape[1] != (num_bits + 7) // 8:
            raise ArchiveDamagedError(f"reports of {rows.shape[1]} bytes, for {num_bits} bits")
        if not len(cohorts):
            return
        if cohorts[0] < 0 or cohorts[-1] >= num_cohorts or bool((np.diff(cohorts) < 0).any()):
            raise ArchiveDamagedError("cohorts are not in order, or outside the parameters")
        bounds = np.searchsorted(cohorts, np.arange(cohorts[0], cohorts[-1] + 2))
        for cohort, start, end in zip(
            range(int(cohorts[0]), num_cohorts), bounds[:-1], bounds[1:], strict=False
        ):
            self.reports_per_cohort[cohort] += end - start
            self.bit_counts[cohort] += sum_bits(rows[start:end], num_bits)


def write_part(
    store: Store,
    metric: Metric,
    days: tuple[date, date],
    reports: Iterable[tuple[int, Bytes]],
    check: Callable[[PartCounts], None],
) -> ArchivedPart:
    """Write a part, read it back, and commit its entry.

    Args:
        store: The store of the archive.
        metric: The metric as declared.
        days: The first and last day of the reports, inclusive.
        reports: The reports as pairs of a cohort and rows (n, bytes), in the order of cohorts.
        check: A function that is called with the sums of the file as read back, and raises if they
            are wrong.

    Raises:
        FileExistsError: A different writer was faster. A failure leaves nothing behind; a killed
            process leaves a file without an entry, which is never counted.
    """
    folder = f"{folder_of(metric.name, metric.params_id)}/week={days[1]:%G-W%V}"
    name = f"{REPORTS}/{folder}/{days[0]}_{days[1]}-{token_hex(8)}.parquet"
    width = metric.params.report_bytes
    with store.writing(name) as file:
        write_reports(file, width, reports)
    try:
        digest, num_bytes = _digest_of_file(store, name)
        counts = count_groups(store, name, metric.params)
        check(counts)
        entry = ArchivedPart(
            metric=metric.name,
            params_id=metric.params_id,
            definition=metric.to_dict(),
            first_day=days[0].isoformat(),
            last_day=days[1].isoformat(),
            file=name,
            file_digest=digest,
            file_bytes=num_bytes,
            rows_in_group=rows_in_group(width),
            num_reports=int(counts.reports_per_cohort.sum()),
            reports_per_cohort=tuple(counts.reports_per_cohort.tolist()),
            counts_digest=counts.digest,
        )
        commit(store, entry)
    except BaseException:
        store.delete(name)
        raise
    return entry


def verify_part(store: Store, entry: ArchivedPart) -> None:
    """Read a whole part and compare its digest and its sums with its entry.

    Args:
        store: The archive.
        entry: The part's entry in the archive.

    Raises:
        ArchiveDamagedError: The bytes or the sums differ.
    """
    if _digest_of_file(store, entry.file)[0] != entry.file_digest:
        raise ArchiveDamagedError(f"{entry.file}: its bytes do not match the manifest")
    check_digest(entry, count_groups(store, entry.file, entry.params))


def check_digest(entry: ArchivedPart, counts: PartCounts) -> None:
    """Check that sums match the part's entry. Raises ArchiveDamagedError otherwise."""
    if counts.digest != entry.counts_digest:
        raise ArchiveDamagedError(
            f"{entry.file}: its reports do not match the sums in the manifest; "
            "restore the file, or delete it and its entry"
        )


def _digest_of_file(store: Store, name: str) -> tuple[str, int]:
    with open_part(store, name) as file:
        digest = file_digest(file, "sha256")  # type: ignore[arg-type]  # it has `readinto`
        return digest.hexdigest(), file.tell()


def count_groups(
    store: Store, name: str, params: RapporParams, first: int = 0, last: int | None = None
) -> PartCounts:
    """Count reports in row groups [first, last). Raises ArchiveDamagedError if damaged."""
    counts = PartCounts.zero(params)
    with open_part(store, name) as file, reading(file, name) as opened:
        there = opened.num_row_groups
        if last is not None and there < last:
            raise ArchiveDamagedError(f"{name}: {there} row groups, and {last} are expected")
        for group in range(first, there if last is None else last):
            counts.add_rows(*read_group(opened, group))
    return counts
