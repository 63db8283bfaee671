"""Parts of an archive: written, read back, committed, verified, deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from secrets import token_hex
from typing import IO, Any

from archive.bit_sums import Bytes
from archive.errors import ArchiveDamagedError
from archive.keys import ArchiveKey
from archive.layouts import Layout, LinkedLayout, layout_of
from archive.manifest import REPORTS, ArchivedPart, commit, digest_of, folder_of, week_of
from archive.parquet import open_part, read_group, reading, rows_in_group, write_reports
from archive.store import Store
from archive.tasks import PartCounts, add_rows, no_counts

_READ_BYTES = 1 << 20
Expected = Callable[[PartCounts], None]


@dataclass(frozen=True, slots=True)
class PartLabel:
    """What identifies a new part: the fields of `ArchivedPart` that do not depend on its file."""

    metric: str
    params_id: str
    definition: Mapping[str, Any]
    params: Layout
    first_day: date | None
    last_day: date | None
    keep_until: date
    source: str = "collector"

    def file_name(self) -> str:
        """A new random file name, so that two exports of one block never write the same file."""
        days = f"{self.first_day or 'import'}_{self.last_day or self.source[:16]}"
        folder = f"{REPORTS}/{folder_of(self.metric, self.params_id)}/week={week_of(self.last_day)}"
        return f"{folder}/{days}-{token_hex(8)}.parquet"


def write_part(
    store: Store,
    key: ArchiveKey,
    label: PartLabel,
    reports: Iterable[tuple[int, Bytes]],
    check: Expected,
) -> ArchivedPart:
    """Write a part, read it back, and commit its entry.

    reports: (cohort, (n, bytes)) in the order of cohorts.  check: is given the sums of what was
    read back, and raises where they are not what they must be.
    Raises FileExistsError where another writer was first. Nothing is left behind by a failure;
    a kill leaves a file that no entry names, which counts nowhere.
    """
    name = label.file_name()
    with store.writing(name) as raw:
        file = _Hashing(raw)
        write_reports(file, name, label.params.report_bytes, reports, key)  # type: ignore[arg-type]
    try:
        counts = read_back(store, key, name, label.params)
        check(counts)
        entry = _entry(label, name, file, counts, key)
        commit(store, entry, key)
    except BaseException:
        store.delete(name)
        raise
    return entry


def read_back(store: Store, key: ArchiveKey, name: str, params: Layout) -> PartCounts:
    """The sums of a whole file. Raises ArchiveDamagedError."""
    counts = no_counts(params.num_cohorts, params.num_bits)
    linked = params.shape if isinstance(params, LinkedLayout) else None
    with open_part(store, name) as file, reading(file, name, key) as opened:
        for group in range(opened.num_row_groups):
            add_rows(counts, *read_group(opened, group), linked)
    return counts


def verify_part(store: Store, key: ArchiveKey, entry: ArchivedPart) -> None:
    """Read a part whole and compare its digest and its sums with its entry. Raises
    ArchiveDamagedError."""
    name, digest = entry.file, sha256()
    with open_part(store, name) as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    if digest.hexdigest() != entry.file_digest:
        raise ArchiveDamagedError(f"{name}: its bytes are not those of which the manifest tells")
    counts = read_back(store, key, name, layout_of(entry.params))
    check_digest(entry, counts)


def check_digest(entry: ArchivedPart, counts: PartCounts) -> None:
    """Refuse sums that are not those of the part. Raises ArchiveDamagedError."""
    if digest_of(counts.reports_per_cohort, counts.bit_counts) != entry.counts_digest:
        raise ArchiveDamagedError(
            f"{entry.file}: its reports do not give the sums of which the manifest tells; "
            "restore the file, or delete it and its entry"
        )


def _entry(
    label: PartLabel, name: str, file: _Hashing, counts: PartCounts, key: ArchiveKey
) -> ArchivedPart:
    return ArchivedPart(
        metric=label.metric,
        params_id=label.params_id,
        definition=label.definition,
        params=label.params.to_dict(),
        first_day=_iso(label.first_day),
        last_day=_iso(label.last_day),
        keep_until=label.keep_until.isoformat(),
        file=name,
        file_digest=file.digest.hexdigest(),
        file_bytes=file.tell(),
        rows_in_group=rows_in_group(label.params.report_bytes),
        num_reports=int(counts.reports_per_cohort.sum()),
        reports_per_cohort=tuple(counts.reports_per_cohort.tolist()),
        counts_digest=digest_of(counts.reports_per_cohort, counts.bit_counts),
        key=key.name,
        source=label.source,
    )


def _iso(day: date | None) -> str | None:
    return None if day is None else day.isoformat()


class _Hashing:
    """A file to write that knows the SHA-256 of what went through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._size = 0
        self.digest = sha256()
        self.closed = False

    def write(self, data: Any) -> int:
        """Write all of it."""
        self.digest.update(data)
        self._file.write(data)
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        """How many bytes were written."""
        return self._size

    def flush(self) -> None:
        """Hand on what is buffered."""
        self._file.flush()

    def close(self) -> None:
        """The file below is closed by who opened it."""
        self.closed = True
