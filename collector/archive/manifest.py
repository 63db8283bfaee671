"""The manifest: one entry a part, and a part counts only through its entry.

An entry is a small JSON file that one writer alone can create, so that of two exports of one block
one commits; what the other wrote is never read. Its name follows from the metric, the version and
the first day, and its digest covers every field: it detects corruption, not tampering.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import numpy as np

from collector.archive.errors import ArchiveDamagedError
from collector.archive.parquet import Counts
from collector.archive.store import Store
from rappor_core.errors import RapporError
from rappor_core.params import RapporParams
from rappor_core.strict_json import parse_strict_json

VERSION = 2
ENTRIES, REPORTS = "entries", "reports"


@dataclass(frozen=True, slots=True)
class ArchivedPart:
    """The manifest entry of one part of the archive.

    metric, params_id: of its reports.  definition: the metric as declared.
    first_day, last_day: ISO dates of its block, inclusive.
    file: name of the Parquet file.  file_digest: SHA-256 of it.  file_bytes: its length.
    rows_in_group: rows of each row group but the last.
    num_reports, reports_per_cohort: integers.  counts_digest: see `digest_of`.
    """

    metric: str
    params_id: str
    definition: Mapping[str, Any]
    first_day: str
    last_day: str
    file: str
    file_digest: str
    file_bytes: int
    rows_in_group: int
    num_reports: int
    reports_per_cohort: tuple[int, ...]
    counts_digest: str

    @property
    def name(self) -> str:
        """Name of the part's file in the manifest."""
        return entry_name(self.metric, self.params_id, self.first_day)

    @property
    def params(self) -> RapporParams:
        """The parameters of its reports."""
        return RapporParams.from_dict(self.definition["params"])

    def touches(self, first_day: date | str, last_day: date | str) -> bool:
        """Whether the part and a window have a day in common."""
        return self.first_day <= str(last_day) and str(first_day) <= self.last_day


def folder_of(metric: str, params_id: str) -> str:
    """The partition of a metric and a version; names with `/` are quoted."""
    return f"{metric_folder(metric)}/params_id={params_id}"


def metric_folder(metric: str) -> str:
    """The folder name of a metric in the archive, `metric=NAME`, with special characters
    escaped."""
    return f"metric={quote(metric, safe='')}"


def entry_name(metric: str, params_id: str, first_day: str) -> str:
    """The name of an entry."""
    return f"{ENTRIES}/{folder_of(metric, params_id)}/{first_day}.json"


def week_of(day: date) -> str:
    """The ISO week of a day, as `2026-W47`."""
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02}"


def digest_of(reports_per_cohort: Counts, bit_counts: Counts) -> str:
    """SHA-256 of reports per cohort (m,) and bit counts (m, k), as little-endian 64-bit
    integers."""
    digest = sha256(reports_per_cohort.astype("<i8").tobytes())
    digest.update(np.ascontiguousarray(bit_counts, dtype="<i8").tobytes())
    return digest.hexdigest()


def commit(store: Store, entry: ArchivedPart) -> None:
    """Write the entry of a part; from now on readers sum the part.

    Raises FileExistsError where this block has an entry already.
    """
    content = _content(entry)
    fields = json.loads(content) | {"digest": _digest(content)}
    store.create(entry.name, json.dumps(fields, sort_keys=True, indent=1).encode() + b"\n")


def read_entries(store: Store, folder: str = "") -> Iterator[ArchivedPart]:
    """Read every entry, in the order of their names. Raises ArchiveDamagedError."""
    for name in store.list(f"{ENTRIES}/{folder}" if folder else ENTRIES):
        yield read_entry(store, name)


def read_entry(store: Store, name: str) -> ArchivedPart:
    """Read one entry and check it against its digest and its name."""
    try:
        fields = parse_strict_json(store.read(name))
        digest = fields.pop("digest")
        if fields.pop("version") != VERSION:
            raise ArchiveDamagedError(f"{name}: of another version; this reads {VERSION}")
        fields["reports_per_cohort"] = tuple(fields["reports_per_cohort"])
        entry = ArchivedPart(**fields)
    except (RapporError, LookupError, TypeError, AttributeError) as error:
        raise ArchiveDamagedError(f"{name}: not an entry of a manifest ({error})") from None
    if digest != _digest(_content(entry)) or entry.name != name:
        raise ArchiveDamagedError(
            f"{name}: changed after it was written; restore it, or delete it and its part"
        )
    return entry


def _content(entry: ArchivedPart) -> bytes:
    """The bytes that the digest covers: every field, in one spelling."""
    fields = {"version": VERSION} | asdict(entry)
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _digest(content: bytes) -> str:
    return sha256(b"rappor archive entry\x00" + content).hexdigest()
