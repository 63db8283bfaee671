"""The compact binary form of a batch, which groups similar consecutive reports."""

import struct
from datetime import date, timedelta
from itertools import groupby
from typing import Any

from rappor_core.calendar import EPOCH
from rappor_core.errors import WireFormatError
from rappor_core.wire.report import (
    MAX_REPORT_BYTES,
    MAX_REPORTS,
    WIRE_VERSION,
    Batch,
    GroupedBatch,
    Report,
    ReportGroup,
    check_count,
    check_metric,
    check_version,
)

BINARY_MAGIC = b"RAPR"
HEADER = struct.Struct(">4sB16sH")  # magic, version, batch id, number of groups
_GROUP = struct.Struct(">16sIHI")  # params_id, day, bytes per report, number of reports
_COHORT = struct.Struct(">H")


def encode_binary(batch: Batch) -> bytes:
    """Encode a batch as bytes, in groups of reports that differ only in cohort and bits.

    Raises WireFormatError if no decoder would accept the batch.
    """
    try:
        return _packed(batch)
    except (struct.error, ValueError, OverflowError) as error:
        raise WireFormatError(f"the batch does not fit the binary form: {error}") from error


def _packed(batch: Batch) -> bytes:
    groups = [(key, list(run)) for key, run in groupby(batch.reports, _group_key)]
    parts = [HEADER.pack(BINARY_MAGIC, WIRE_VERSION, bytes.fromhex(batch.batch_id), len(groups))]
    for (metric, params_id, day, num_bytes), run in groups:
        name = metric.encode()
        parts.append(bytes([len(name)]) + name)
        days = (day - EPOCH).days
        parts.append(_GROUP.pack(bytes.fromhex(params_id), days, num_bytes, len(run)))
        parts.extend(_COHORT.pack(report.cohort) + report.bits for report in run)
    return b"".join(parts)


def decode_binary(body: bytes, *, max_reports: int = MAX_REPORTS) -> GroupedBatch:
    """Decode a batch in binary form.

    Args:
        body: The whole body of a request.
        max_reports: The maximum number of reports.

    Returns:
        The reports, grouped as they were sent.

    Raises:
        WireFormatError: The body is not exactly one valid batch.
    """
    magic, version, batch_id, num_groups = unpack(HEADER, body, 0)
    if magic != BINARY_MAGIC:
        raise WireFormatError(f"the body starts with {magic!r}, not {BINARY_MAGIC!r}")
    check_version(version)
    groups: list[ReportGroup] = []
    offset, total = HEADER.size, 0
    for _ in range(num_groups):
        group, offset = _read_group(body, offset, max_reports - total)
        groups.append(group)
        total += len(group.rows)
    if offset != len(body):
        raise WireFormatError(f"{len(body) - offset} bytes follow the last group")
    check_count(total, max_reports)
    return GroupedBatch(batch_id.hex(), tuple(groups), total)


def _read_group(body: bytes, offset: int, max_reports: int) -> tuple[ReportGroup, int]:
    name_end = offset + 1 + byte_at(body, offset)
    metric = check_metric(utf8(body[offset + 1 : name_end]))
    params_id, days, num_bytes, count = unpack(_GROUP, body, name_end)
    start = name_end + _GROUP.size
    end = start + (_COHORT.size + num_bytes) * count
    if count == 0 or not 1 <= num_bytes <= MAX_REPORT_BYTES:
        raise WireFormatError(f"a group of {count} reports of {num_bytes} bytes of bits")
    check_count(count, max_reports)
    if end > len(body):
        raise WireFormatError(f"the body ends {end - len(body)} bytes early")
    rows = list(struct.iter_unpack(f">H{num_bytes}s", body[start:end]))
    return ReportGroup(metric, params_id.hex(), day_from_number(days), num_bytes, rows), end


def _group_key(report: Report) -> tuple[str, str, date, int]:
    return report.metric, report.params_id, report.day, len(report.bits)


def day_from_number(days: int) -> date:
    """Return the date of a day number since 1970-01-01. Raises WireFormatError if invalid."""
    try:
        return EPOCH + timedelta(days=days)
    except OverflowError:
        raise WireFormatError(f"day {days} since 1970-01-01 is after the year 9999") from None


def unpack(layout: struct.Struct, body: bytes, offset: int) -> tuple[Any, ...]:
    """Unpack fields of a body at `offset`. Raises WireFormatError if the body is too short."""
    try:
        return layout.unpack_from(body, offset)
    except struct.error:
        raise WireFormatError(f"the body ends early, at byte {len(body)}") from None


def byte_at(body: bytes, offset: int) -> int:
    """Return the byte at an offset. Raises WireFormatError if it is beyond the end."""
    if offset >= len(body):
        raise WireFormatError(f"the body ends early, at byte {len(body)}")
    return body[offset]


def utf8(data: bytes) -> str:
    """Decode the name of a metric. Raises WireFormatError if it is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise WireFormatError("a metric name is not valid UTF-8") from None
