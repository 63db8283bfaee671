"""Parts of an archive: written, read back, committed, verified; and the counts of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from secrets import token_hex

import numpy as np

from collector.archive.errors import ArchiveDamagedError
from collector.archive.manifest import (
    REPORTS,
    ArchivedPart,
    commit,
    digest_of,
    folder_of,
    week_of,
)
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
from collector.archive.store import Store
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams

_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class PartCounts:
    """Counts of some rows of a part: reports per cohort (m,) and bit counts (m, k)."""

    reports_per_cohort: Counts
    bit_counts: Counts

    @classmethod
    def zero(cls, num_cohorts: int, num_bits: int) -> PartCounts:
        """Counts of no rows."""
        shape = num_cohorts, num_bits
        return cls(np.zeros(num_cohorts, dtype=np.int64), np.zeros(shape, dtype=np.int64))

    @property
    def digest(self) -> str:
        """The digest that an entry keeps of them."""
        return digest_of(self.reports_per_cohort, self.bit_counts)

    def plus(self, other: PartCounts) -> PartCounts:
        """The sum of two counts."""
        return PartCounts(
            self.reports_per_cohort + other.reports_per_cohort, self.bit_counts + other.bit_counts
        )

    def add_rows(self, cohorts: Cohorts, rows: Bytes) -> None:
        """Add rows (n, report_bytes), sorted by cohort, in place. Raises ArchiveDamagedError."""
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
        store: of the archive.
        metric: as declared.
        days: first and last day of the reports, inclusive.
        reports: (cohort, (n, bytes)) in the order of cohorts.
        check: is given the sums of what was read back, and raises where they are not what they
            must be.

    Raises:
        FileExistsError: another writer was first. Nothing is left behind by a failure; a kill
            leaves a file that no entry names, which counts nowhere.
    """
    folder = f"{folder_of(metric.name, metric.params_id)}/week={week_of(days[1])}"
    name = f"{REPORTS}/{folder}/{days[0]}_{days[1]}-{token_hex(8)}.parquet"
    width = metric.params.report_bytes
    with store.writing(name) as file:
        write_reports(file, width, reports)
    try:
        digest, num_bytes = _digest_of_file(store, name)
        counts = _read_back(store, name, metric.params)
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
    """Read a part whole and compare its digest and its sums with its entry. Raises
    ArchiveDamagedError."""
    if _digest_of_file(store, entry.file)[0] != entry.file_digest:
        raise ArchiveDamagedError(
            f"{entry.file}: its bytes are not those of which the manifest tells"
        )
    check_digest(entry, _read_back(store, entry.file, entry.params))


def check_digest(entry: ArchivedPart, counts: PartCounts) -> None:
    """Refuse sums that are not those of the part. Raises ArchiveDamagedError."""
    if counts.digest != entry.counts_digest:
        raise ArchiveDamagedError(
            f"{entry.file}: its reports do not give the sums of which the manifest tells; "
            "restore the file, or delete it and its entry"
        )


def _digest_of_file(store: Store, name: str) -> tuple[str, int]:
    """SHA-256 of a file as the store has it, and its length in bytes."""
    digest, num_bytes = sha256(), 0
    with open_part(store, name) as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
            num_bytes += len(piece)
    return digest.hexdigest(), num_bytes


def _read_back(store: Store, name: str, params: RapporParams) -> PartCounts:
    """The sums of a whole file. Raises ArchiveDamagedError."""
    counts = PartCounts.zero(params.num_cohorts, params.num_bits)
    with open_part(store, name) as file, reading(file, name) as opened:
        for group in range(opened.num_row_groups):
            counts.add_rows(*read_group(opened, group))
    return counts
