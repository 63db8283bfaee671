"""Reports and batches on the wire: JSON for any client that speaks HTTP, binary for volume.

A report is public by construction: its bits have been through both rounds of the mechanism.
Both forms are strict: what is not exactly a batch of version 1 raises WireFormatError. Whether a
metric exists, its parameters match and its day is open is not a matter of form; the collector
answers those report by report. The byte layout is written out in docs/protocol.md.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from rappor_core.errors import WireFormatError, shown
from rappor_core.params import MAX_BITS
from rappor_core.report_compact import Run, read_compact
from rappor_core.strict_json import parse_strict_json

WIRE_VERSION = 1
BINARY_MAGIC = b"RAPR"
JSON_CONTENT_TYPE = "application/json"
BINARY_CONTENT_TYPE = "application/vnd.rappor.batch"
MAX_METRIC_BYTES = 128
MAX_REPORT_BYTES = MAX_BITS // 8
MAX_BASE64_CHARACTERS = 4 * -(-MAX_REPORT_BYTES // 3)
MAX_REPORTS = 10_000
EPOCH = date(1970, 1, 1)

_HEADER = struct.Struct(">4sB16sH")  # magic, version, batch id, number of groups
_GROUP = struct.Struct(">16sIHI")  # params_id, day, bytes of bits, number of reports
_COHORT = struct.Struct(">H")
_HEX_128 = re.compile(r"[0-9a-f]{32}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_BATCH_FIELDS = {"version", "batch_id", "reports"}
_REPORT_FIELDS = {"metric", "params_id", "cohort", "day", "bits"}


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


@dataclass(frozen=True, slots=True)
class Batch:
    """Reports that travel together under one random id (32 hexadecimal digits)."""

    batch_id: str
    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True)
class ReportGroup:
    """A run of reports alike in all but cohort and bits, as a collector counts them.

    num_bytes: length of the bits of each.  rows: (cohort, bits), in the order of the batch.
    """

    metric: str
    params_id: str
    day: date
    num_bytes: int
    rows: Sequence[tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class GroupedBatch:
    """A batch read into groups. `num_reports`: over all groups, 1 or more."""

    batch_id: str
    groups: tuple[ReportGroup, ...]
    num_reports: int


def encode_json(batch: Batch) -> bytes:
    """Write a batch as compact JSON, UTF-8."""
    reports = [
        {
            "metric": report.metric,
            "params_id": report.params_id,
            "cohort": report.cohort,
            "day": report.day.isoformat(),
            "bits": base64.b64encode(report.bits).decode("ascii"),
        }
        for report in batch.reports
    ]
    document = {"version": WIRE_VERSION, "batch_id": batch.batch_id, "reports": reports}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def decode_json(body: bytes, *, max_reports: int = MAX_REPORTS) -> Batch:
    """Read a batch. Raises WireFormatError for anything that is not exactly one."""
    return _ungrouped(decode_json_groups(body, max_reports=max_reports))


def decode_json_groups(body: bytes, *, max_reports: int = MAX_REPORTS) -> GroupedBatch:
    """Read a batch, group by group: what a run of reports shares is checked once."""
    compact = read_compact(body)
    if compact is not None:
        return _from_compact(*compact, max_reports)
    document = parse_strict_json(body)
    _check_fields("the batch", document, _BATCH_FIELDS)
    _check_version(document["version"])
    batch_id = _hex_128("batch_id", document["batch_id"])
    reports = document["reports"]
    if type(reports) is not list:
        raise WireFormatError("reports is not a list")
    _check_count(len(reports), max_reports)
    groups: list[ReportGroup] = []
    shared: tuple[Any, ...] = ()
    rows: list[tuple[int, bytes]] = []
    for index, fields in enumerate(reports):
        if type(fields) is not dict or fields.keys() != _REPORT_FIELDS:
            _check_fields(f"report {index}", fields, _REPORT_FIELDS)
        cohort, bits = fields["cohort"], _bits_from_text(index, fields["bits"])
        if type(cohort) is not int or not 0 <= cohort < 1 << 16:
            where = f"report {index}: cohort {shown(cohort)}"
            raise WireFormatError(f"{where} is not an integer in [0, 65535]")
        key = (fields["metric"], fields["params_id"], fields["day"], len(bits))
        if key != shared:
            shared, rows = key, []
            groups.append(_group_from_json(index, fields, len(bits), rows))
        rows.append((cohort, bits))
    return GroupedBatch(batch_id, tuple(groups), len(reports))


def _from_compact(batch_id: bytes, runs: list[Run], max_reports: int) -> GroupedBatch:
    """A batch that `read_compact` read."""
    total = sum(len(rows) for _, rows in runs)
    _check_count(total, max_reports)
    groups = []
    index = 0
    for (metric, params_id, day, num_bytes), rows in runs:
        when = _day_from_text(f"report {index}", day.decode())
        groups.append(ReportGroup(metric.decode(), params_id.decode(), when, num_bytes, rows))
        index += len(rows)
    return GroupedBatch(batch_id.decode(), tuple(groups), total)


def encode_binary(batch: Batch) -> bytes:
    """Write a batch as bytes; a run of reports alike in all but cohort and bits is one group.

    Raises WireFormatError for a batch that no decoder would take.
    """
    try:
        return _packed(batch)
    except (struct.error, ValueError, OverflowError) as error:
        raise WireFormatError(f"the batch does not fit the binary form: {error}") from error


def _packed(batch: Batch) -> bytes:
    groups = [(key, list(run)) for key, run in groupby(batch.reports, _group_key)]
    parts = [_HEADER.pack(BINARY_MAGIC, WIRE_VERSION, bytes.fromhex(batch.batch_id), len(groups))]
    for (metric, params_id, day, num_bytes), run in groups:
        name = metric.encode()
        parts.append(bytes([len(name)]) + name)
        days = (day - EPOCH).days
        parts.append(_GROUP.pack(bytes.fromhex(params_id), days, num_bytes, len(run)))
        parts.extend(_COHORT.pack(report.cohort) + report.bits for report in run)
    return b"".join(parts)


def decode_binary(body: bytes, *, max_reports: int = MAX_REPORTS) -> Batch:
    """Read a binary batch. Raises WireFormatError for anything that is not exactly one."""
    return _ungrouped(decode_binary_groups(body, max_reports=max_reports))


def decode_binary_groups(body: bytes, *, max_reports: int = MAX_REPORTS) -> GroupedBatch:
    """Read a binary batch, group by group; a report costs no object of its own."""
    magic, version, batch_id, num_groups = _unpack(_HEADER, body, 0)
    if magic != BINARY_MAGIC:
        raise WireFormatError(f"the body starts with {magic!r}, not {BINARY_MAGIC!r}")
    _check_version(version)
    groups: list[ReportGroup] = []
    offset, total = _HEADER.size, 0
    for _ in range(num_groups):
        group, offset = _read_group(body, offset, max_reports - total)
        groups.append(group)
        total += len(group.rows)
    if offset != len(body):
        raise WireFormatError(f"{len(body) - offset} bytes follow the last group")
    _check_count(total, max_reports)
    return GroupedBatch(batch_id.hex(), tuple(groups), total)


def decode_groups(
    body: bytes, content_type: str, *, max_reports: int = MAX_REPORTS
) -> GroupedBatch:
    """Read a batch in the form that its content type names (JSON or binary), group by group."""
    if content_type == BINARY_CONTENT_TYPE:
        return decode_binary_groups(body, max_reports=max_reports)
    if content_type == JSON_CONTENT_TYPE:
        return decode_json_groups(body, max_reports=max_reports)
    raise WireFormatError(
        f"content type {content_type[:80]!r} is neither {JSON_CONTENT_TYPE} "
        f"nor {BINARY_CONTENT_TYPE}"
    )


def decode_batch(body: bytes, content_type: str, *, max_reports: int = MAX_REPORTS) -> Batch:
    """Read a batch in the form that its content type names (JSON or binary)."""
    return _ungrouped(decode_groups(body, content_type, max_reports=max_reports))


def _read_group(body: bytes, offset: int, max_reports: int) -> tuple[ReportGroup, int]:
    """The group at `offset`, and where the next one starts."""
    name_end = offset + 1 + _byte_at(body, offset)
    metric = _metric_name(_utf8(body[offset + 1 : name_end]))
    params_id, days, num_bytes, count = _unpack(_GROUP, body, name_end)
    start = name_end + _GROUP.size
    end = start + (_COHORT.size + num_bytes) * count
    if count == 0 or not 1 <= num_bytes <= MAX_REPORT_BYTES:
        raise WireFormatError(f"a group of {count} reports of {num_bytes} bytes of bits")
    _check_count(count, max_reports)
    if end > len(body):
        raise WireFormatError(f"the body ends {end - len(body)} bytes early")
    rows = list(struct.iter_unpack(f">H{num_bytes}s", body[start:end]))
    return ReportGroup(metric, params_id.hex(), _day_from_number(days), num_bytes, rows), end


def _group_from_json(
    index: int, fields: dict[str, Any], num_bytes: int, rows: list[tuple[int, bytes]]
) -> ReportGroup:
    """A new group, filled by the caller, from the report that begins it."""
    where = f"report {index}"
    return ReportGroup(
        metric=_metric_name(fields["metric"]),
        params_id=_hex_128(f"{where}: params_id", fields["params_id"]),
        day=_day_from_text(where, fields["day"]),
        num_bytes=num_bytes,
        rows=rows,
    )


def _ungrouped(batch: GroupedBatch) -> Batch:
    return Batch(
        batch.batch_id,
        tuple(
            Report(group.metric, group.params_id, cohort, group.day, bits)
            for group in batch.groups
            for cohort, bits in group.rows
        ),
    )


def _bits_from_text(index: int, text: Any) -> bytes:
    try:
        if type(text) is not str or not 1 <= len(text) <= MAX_BASE64_CHARACTERS:
            raise ValueError
        bits = binascii.a2b_base64(text, strict_mode=True)
        if binascii.b2a_base64(bits, newline=False) != text.encode("ascii"):
            raise ValueError  # spare bits that are not zero
    except (ValueError, binascii.Error):
        raise WireFormatError(
            f"report {index}: bits {shown(text)} is not base64 of 1 to {MAX_REPORT_BYTES} bytes"
        ) from None
    return bits


def _day_from_text(where: str, text: Any) -> date:
    try:
        if type(text) is not str or not _DAY.fullmatch(text):
            raise ValueError
        day = date.fromisoformat(text)
        if day < EPOCH:
            raise ValueError
    except ValueError:
        raise WireFormatError(
            f"{where}: day {shown(text)} is not a date YYYY-MM-DD from 1970 on"
        ) from None
    return day


def _day_from_number(days: int) -> date:
    try:
        return EPOCH + timedelta(days=days)
    except OverflowError:
        raise WireFormatError(f"day {days} since 1970-01-01 is after the year 9999") from None


def _metric_name(name: Any) -> str:
    if type(name) is not str or not name or len(name.encode()) > MAX_METRIC_BYTES:
        raise WireFormatError(
            f"metric {shown(name)} is not a name of 1 to {MAX_METRIC_BYTES} bytes"
        )
    return name


def _hex_128(what: str, text: Any) -> str:
    if type(text) is not str or not _HEX_128.fullmatch(text):
        raise WireFormatError(f"{what} {shown(text)} is not 32 lower-case hexadecimal digits")
    return text


def _check_fields(where: str, fields: Any, expected: set[str]) -> None:
    if type(fields) is not dict:
        raise WireFormatError(f"{where} is not a JSON object")
    if fields.keys() != expected:
        wrong = [shown(name) for name in sorted(fields.keys() ^ expected)[:5]]
        raise WireFormatError(f"{where} has missing or unknown fields: {', '.join(wrong)}")


def _check_version(version: Any) -> None:
    if type(version) is not int or version != WIRE_VERSION:
        raise WireFormatError(f"version {shown(version)} is not known; this is {WIRE_VERSION}")


def _check_count(count: int, max_reports: int) -> None:
    if not 1 <= count <= max_reports:
        raise WireFormatError(f"{count} reports in a batch; between 1 and {max_reports} are taken")


def _group_key(report: Report) -> tuple[str, str, date, int]:
    return report.metric, report.params_id, report.day, len(report.bits)


def _unpack(layout: struct.Struct, body: bytes, offset: int) -> tuple[Any, ...]:
    try:
        return layout.unpack_from(body, offset)
    except struct.error:
        raise WireFormatError(f"the body ends early, at byte {len(body)}") from None


def _byte_at(body: bytes, offset: int) -> int:
    if offset >= len(body):
        raise WireFormatError(f"the body ends early, at byte {len(body)}")
    return body[offset]


def _utf8(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise WireFormatError("a metric name is not valid UTF-8") from None


def bits_to_bytes(bits: int, num_bits: int) -> bytes:
    """k bits held in an integer, as the wire's bytes (bit i is bit i % 8 of byte i // 8)."""
    return bits.to_bytes((num_bits + 7) // 8, "little")


def bits_from_bytes(data: bytes) -> int:
    """The inverse of `bits_to_bytes`."""
    return int.from_bytes(data, "little")


def set_bits(bits: int) -> Iterator[int]:
    """Positions of the bits that are set, lowest first."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def make_batch(batch_id: bytes, reports: Iterable[Report]) -> Batch:
    """A batch from 16 random bytes. Raises WireFormatError for another number of bytes."""
    if len(batch_id) != 16:
        raise WireFormatError(f"a batch id has 16 bytes, not {len(batch_id)}")
    return Batch(batch_id.hex(), tuple(reports))
