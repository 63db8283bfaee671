"""Reports and batches: the messages from devices to a collector.

A report is public by construction: its bits have been through both rounds of the mechanism. The two
wire forms are in `wire.json` and `wire.binary`; `docs/protocol.md` describes them. Both are strict:
anything but a batch of version 1 raises WireFormatError. The decoders do not check that a
report's metric exists, that its parameters match or that its day is open. The collector checks
this for each report.
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
    """One message from one device for one metric."""

    metric: str  # the name of the metric
    params_id: str  # 32 hexadecimal digits
    cohort: int  # 0 to 65,535
    day: date  # UTC, as the device states it
    bits: bytes  # the bits S; bit i is bit i % 8 of byte i // 8


class Batch(NamedTuple):
    """Reports that are sent together under one random id (32 hexadecimal digits)."""

    batch_id: str
    reports: tuple[Report, ...]


class ReportGroup(NamedTuple):
    """Consecutive reports that differ only in cohort and bits, as a collector counts them."""

    metric: str
    params_id: str
    day: date
    num_bytes: int  # the length of the bits of each report
    rows: Sequence[tuple[int, bytes]]  # pairs of cohort and bits, in the order of the batch


class GroupedBatch(NamedTuple):
    """A decoded batch in groups of reports, without an object for each report."""

    batch_id: str
    groups: tuple[ReportGroup, ...]
    num_reports: int  # over all groups, 1 or more

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
    """Return a batch of reports under a batch id.

    Args:
        batch_id: The id, 16 random bytes.
        reports: The reports; a device sends only reports for one metric together.

    Raises:
        WireFormatError: The id does not have 16 bytes.
    """
    if len(batch_id) != 16:
        raise WireFormatError(f"a batch id has 16 bytes, not {len(batch_id)}")
    return Batch(batch_id.hex(), tuple(reports))


def check_metric(name: Any) -> str:
    """Check the form of a metric's name, and return it. Raises WireFormatError if it is invalid."""
    if type(name) is not str or not name or len(name.encode()) > MAX_METRIC_BYTES:
        raise WireFormatError(
            f"metric {shown(name)} is not a name of 1 to {MAX_METRIC_BYTES} bytes"
        )
    return name


def check_version(version: Any) -> None:
    """Raise WireFormatError if the version is not the supported version."""
    if type(version) is not int or version != WIRE_VERSION:
        raise WireFormatError(f"version {shown(version)} is not known; this is {WIRE_VERSION}")


def check_count(count: int, max_reports: int) -> None:
    """Check the number of reports in a batch.

    Args:
        count: The number of reports.
        max_reports: The maximum number of reports.

    Raises:
        WireFormatError: The batch is empty or too large.
    """
    if not 1 <= count <= max_reports:
        raise WireFormatError(f"{count} reports in a batch; between 1 and {max_reports} are taken")
