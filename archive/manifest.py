"""The manifest: one entry a part, and a part counts only through its entry.

An entry is a small JSON file that one writer alone can create, so that of two exports of one block
one commits; what the other wrote is never read. Its name follows from the metric, the version and
the first day, and its seal covers every field. An entry that is out of time stays as a record
without reports.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import numpy as np

from archive.bit_sums import Counts
from archive.errors import ArchiveDamagedError, ArchiveKeyError
from archive.keys import ArchiveKey
from archive.layouts import linked_bits, shape_of
from archive.store import Store
from rappor_core.errors import RapporError
from rappor_core.params import RapporParams
from rappor_core.strict_json import parse_strict_json

VERSION = 1
ENTRIES, REPORTS = "entries", "reports"


@dataclass(frozen=True, slots=True)
class ArchivedPart:
    """The manifest entry of one part of the archive.

    metric, params_id: of its reports ("" where a params.csv declared them).
    definition: the metric as declared, or empty; of an association it and its metrics.
    params: as of `RapporParams.to_dict`, or of `LinkedLayout.to_dict`.
    first_day, last_day: ISO dates of its block, inclusive; None of an import without days.
    keep_until: ISO date of the last day on which it may be kept.
    file: name of the Parquet file.  file_digest: SHA-256 of it.
    file_bytes: its length.  rows_in_group: rows of each row group but the last.
    num_reports, reports_per_cohort: integers.  counts_digest: see `digest_of`.
    key: name of the key that it is encrypted with, or "".  source: "collector", or the digest of
    an imported file.  expired: its reports are deleted, or are to be.
    """

    metric: str
    params_id: str
    definition: Mapping[str, Any]
    params: Mapping[str, Any]
    first_day: str | None
    last_day: str | None
    keep_until: str
    file: str
    file_digest: str
    file_bytes: int
    rows_in_group: int
    num_reports: int
    reports_per_cohort: tuple[int, ...]
    counts_digest: str
    key: str
    source: str = "collector"
    expired: bool = False

    @property
    def name(self) -> str:
        """Name of the part's file in the manifest."""
        return entry_name(self.metric, self.params_id, self.first_day or self.source)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (m, k) of the part's counters."""
        return shape_of(self.params)

    @property
    def linked(self) -> tuple[int, int] | None:
        """The bits of each of two linked reports; None of a metric."""
        return linked_bits(self.params)

    def is_due(self, today: date) -> bool:
        """Whether it may no longer be kept."""
        return today > date.fromisoformat(self.keep_until)


def folder_of(metric: str, params_id: str) -> str:
    """The partition of a metric and a version; names with `/` are quoted."""
    return f"{metric_folder(metric)}/params_id={params_id or 'none'}"


def metric_folder(metric: str) -> str:
    """The folder name of a metric in the archive, `metric=NAME`, with special characters
    escaped."""
    return f"metric={quote(metric, safe='')}"


def entry_name(metric: str, params_id: str, start: str) -> str:
    """The name of an entry. start: the first day, or the digest of an imported file."""
    return f"{ENTRIES}/{folder_of(metric, params_id)}/{start}.json"


def week_of(last_day: date | None) -> str:
    """The ISO week of a day, as `2026-W47`; `none` where no day is known."""
    if last_day is None:
        return "none"
    year, week, _ = last_day.isocalendar()
    return f"{year}-W{week:02}"


def keep_until(first_day: date, keep_days: int) -> date:
    """The last day on which reports from `first_day` on may be kept, as in the collector."""
    return first_day + timedelta(days=keep_days)


def digest_of(reports_per_cohort: Counts, bit_counts: Counts) -> str:
    """SHA-256 of reports per cohort (m,) and bit counts (m, k), as little-endian 64-bit
    integers."""
    digest = sha256(reports_per_cohort.astype("<i8").tobytes())
    digest.update(np.ascontiguousarray(bit_counts, dtype="<i8").tobytes())
    return digest.hexdigest()


def commit(store: Store, entry: ArchivedPart, key: ArchiveKey) -> None:
    """Write the sealed entry of a part, from when on readers sum the part.

    Raises FileExistsError where this block has an entry already.
    """
    store.create(entry.name, _sealed(entry, key))


def retire(store: Store, entry: ArchivedPart, key: ArchiveKey) -> None:
    """Mark a part as expired, before its file is deleted."""
    store.replace(entry.name, _sealed(replace(entry, expired=True), key))


def read_entries(store: Store, key: ArchiveKey, folder: str = "") -> Iterator[ArchivedPart]:
    """Read every entry, in the order of their names. Raises ArchiveDamagedError,
    ArchiveKeyError."""
    for name in store.list(f"{ENTRIES}/{folder}" if folder else ENTRIES):
        yield read_entry(store, key, name)


def read_entry(store: Store, key: ArchiveKey, name: str) -> ArchivedPart:
    """Read one entry and check it against its seal and its name."""
    try:
        fields = parse_strict_json(store.read(name))
        seal = fields.pop("seal")
        if fields.pop("version") != VERSION:
            raise ArchiveDamagedError(f"{name}: of another version; this reads {VERSION}")
        fields["reports_per_cohort"] = tuple(fields["reports_per_cohort"])
        entry = ArchivedPart(**fields)
        key_name = entry.key
    except (RapporError, LookupError, TypeError, AttributeError) as error:
        raise ArchiveDamagedError(f"{name}: no entry of a manifest ({error})") from None
    if key_name != key.name:
        raise ArchiveKeyError(
            f"{name}: written with {_key_words(key_name)}, and opened with {_key_words(key.name)}"
        )
    expected = key.seal(_content(entry))
    if type(seal) is not str or not hmac.compare_digest(seal, expected) or entry.name != name:
        raise ArchiveDamagedError(
            f"{name}: changed after it was written; restore it, or delete it and its part"
        )
    return entry


def touches(entry: ArchivedPart, first_day: date | str, last_day: date | str) -> bool:
    """Whether a part and a window have a day in common. A part without days has none."""
    if entry.first_day is None or entry.last_day is None:
        return False
    return entry.first_day <= str(last_day) and str(first_day) <= entry.last_day


def params_of(entry: ArchivedPart) -> RapporParams:
    """The parameters of its reports."""
    return RapporParams.from_dict(entry.params)


def _sealed(entry: ArchivedPart, key: ArchiveKey) -> bytes:
    content = _content(entry)
    fields = json.loads(content) | {"seal": key.seal(content)}
    return json.dumps(fields, sort_keys=True, indent=1).encode() + b"\n"


def _content(entry: ArchivedPart) -> bytes:
    """The bytes under the seal: every field, in one spelling."""
    fields = {"version": VERSION} | asdict(entry)
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _key_words(name: str) -> str:
    return f"key {name}" if name else "no key (--archive-key FILE names one)"
