"""Reports and batches: what travels from devices to a collector.

A report is public by construction: its bits have been through both rounds of the mechanism. The
two forms on the wire are in `wire.json` and `wire.binary`; `docs/protocol.md` writes them out.
Both are strict: what is not exactly a batch of version 1 raises WireFormatError. Whether a metric
exists, its parameters match and its day is open is not a matter of form; the collector answers
those report by report.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, NamedTuple

from rappor_core.errors import WireFormatError, shown
from rappor_core.params import MAX_BITS

WIRE_VERSION = 1
JSON_CONTENT_TYPE = "application/json"
BINARY_CONTENT_TYPE = "application/vnd.rappor.batch"
MAX_METRIC_BYTES = 128
MAX_REPORT_BYTES = MAX_BITS // 8
MAX_REPORTS = 10_000


class Report(NamedTuple):
    """One message of one device about one metric.

    metric: its name.  params_id: 32 hexadecimal digits.  cohort: 0 to 65,535.
    day: UTC, as the device states it.  bits: bit i of S is bit i % 8 of byte i // 8.
    """

    metric: str
    params_id: str
    cohort: int
    day: date
    bits: bytes


class Batch(NamedTuple):
    """Reports that travel together under one random id (32 hexadecimal digits)."""

    batch_id: str
    reports: tuple[Report, ...]


class ReportGroup(NamedTuple):
    """Consecutive reports that differ in cohort and bits alone, as a collector counts them.

    num_bytes: length of the bits of each.  rows: (cohort, bits), in the order of the batch.
    """

    metric: str
    params_id: str
    day: date
    num_bytes: int
    rows: Sequence[tuple[int, bytes]]


class GroupedBatch(NamedTuple):
    """A decoded batch in groups of reports, without an object for each report.

    num_reports: over all groups, 1 or more.
    """

    batch_id: str
    groups: tuple[ReportGroup, ...]
    num_reports: int

    def ungrouped(self) -> Batch:
        """Return the same batch as single reports."""
        return Batch(
            self.batch_id,
            tuple(
                Report(group.metric, group.params_id, cohort, group.day, bits)
                for group in self.groups
                for cohort, bits in group.rows
            ),
        )


def make_batch(batch_id: bytes, reports: Iterable[Report]) -> Batch:
    """Make a batch.

    Args:
        batch_id: 16 random bytes.
        reports: Of one metric, where a device makes them.

    Raises:
        WireFormatError: Another number of bytes.
    """
    if len(batch_id) != 16:
        raise WireFormatError(f"a batch id has 16 bytes, not {len(batch_id)}")
    return Batch(batch_id.hex(), tuple(reports))


def check_metric(name: Any) -> str:
    """Check the form of a metric's name, and return it. Raises WireFormatError."""
    if type(name) is not str or not name or len(name.encode()) > MAX_METRIC_BYTES:
        raise WireFormatError(
            f"metric {shown(name)} is not a name of 1 to {MAX_METRIC_BYTES} bytes"
        )
    return name


def check_version(version: Any) -> None:
    """Raises WireFormatError for any version but this one."""
    if type(version) is not int or version != WIRE_VERSION:
        raise WireFormatError(f"version {shown(version)} is not known; this is {WIRE_VERSION}")


def check_count(count: int, max_reports: int) -> None:
    """Check the number of reports of a batch.

    Args:
        count: Reports of the batch.
        max_reports: Reports at most.

    Raises:
        WireFormatError: The batch is empty or too large.
    """
    if not 1 <= count <= max_reports:
        raise WireFormatError(f"{count} reports in a batch; between 1 and {max_reports} are taken")
