"""The JSON form of a batch, for any client with HTTP."""

import binascii
import json
import re
from datetime import date
from typing import Any

from rappor_core.calendar import EPOCH
from rappor_core.errors import WireFormatError, shown
from rappor_core.strict_json import parse_strict_json
from rappor_core.wire.binary import decode_binary
from rappor_core.wire.report import (
    BINARY_CONTENT_TYPE,
    JSON_CONTENT_TYPE,
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

MAX_BASE64_CHARACTERS = 4 * -(-MAX_REPORT_BYTES // 3)

# More values than any batch has (6 per report). A parsed value uses memory up to 30 times its size.
MAX_VALUES = 10 * MAX_REPORTS

_HEX_128 = re.compile(r"[0-9a-f]{32}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_BATCH_FIELDS = {"version", "batch_id", "reports"}
_REPORT_FIELDS = {"metric", "params_id", "cohort", "day", "bits"}


def encode_json(batch: Batch) -> bytes:
    """Encode a batch as compact JSON in UTF-8."""
    reports = [report_fields(report) for report in batch.reports]
    document = {"version": WIRE_VERSION, "batch_id": batch.batch_id, "reports": reports}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def report_fields(report: Report) -> dict[str, Any]:
    """Return the JSON object of a report in a batch."""
    return {
        "metric": report.metric,
        "params_id": report.params_id,
        "cohort": report.cohort,
        "day": report.day.isoformat(),
        "bits": binascii.b2a_base64(report.bits, newline=False).decode("ascii"),
    }


def decode_json(body: bytes, *, max_reports: int = MAX_REPORTS) -> GroupedBatch:
    """Decode a batch in JSON form; check a field once if consecutive reports repeat it.

    Args:
        body: The whole body of a request.
        max_reports: The maximum number of reports.

    Returns:
        The reports, grouped by equal metric, parameters, day and length, in order.

    Raises:
        WireFormatError: The body is not exactly one valid batch.
    """
    return read_json(parse_body(body), max_reports)


def parse_body(body: bytes) -> Any:
    """Parse a batch's JSON. Raises WireFormatError if it is invalid or has too many values."""
    _check_values(body)
    return parse_strict_json(body)


def read_json(document: Any, max_reports: int) -> GroupedBatch:
    """Read a batch from its parsed JSON; `decode_json` does the same from bytes."""
    check_fields("the batch", document, _BATCH_FIELDS)
    check_version(document["version"])
    batch_id = check_hex_128("batch_id", document["batch_id"])
    reports = document["reports"]
    if type(reports) is not list:
        raise WireFormatError("reports is not a list")
    check_count(len(reports), max_reports)
    groups: list[ReportGroup] = []
    shared: tuple[Any, ...] = ()
    rows: list[tuple[int, bytes]] = []
    for index, fields in enumerate(reports):
        if type(fields) is not dict or fields.keys() != _REPORT_FIELDS:
            check_fields(f"report {index}", fields, _REPORT_FIELDS)
        cohort, bits = fields["cohort"], bits_from_text(index, fields["bits"])
        if type(cohort) is not int or not 0 <= cohort < 1 << 16:
            where = f"report {index}: cohort {shown(cohort)}"
            raise WireFormatError(f"{where} is not an integer in [0, 65535]")
        key = (fields["metric"], fields["params_id"], fields["day"], len(bits))
        if key != shared:
            shared, rows = key, []
            groups.append(_group_from_json(index, fields, len(bits), rows))
        rows.append((cohort, bits))
    return GroupedBatch(batch_id, tuple(groups), len(reports))


def _check_values(body: bytes) -> None:
    """Limit the memory for parsing: estimate the number of values from commas and brackets."""
    count = sum(body.count(mark) for mark in (b",", b"[", b"{"))
    if count > MAX_VALUES:
        raise WireFormatError(f"the JSON has about {count} values; no batch has {MAX_VALUES}")


def _group_from_json(
    index: int, fields: dict[str, Any], num_bytes: int, rows: list[tuple[int, bytes]]
) -> ReportGroup:
    where = f"report {index}"
    return ReportGroup(
        metric=check_metric(fields["metric"]),
        params_id=check_hex_128(f"{where}: params_id", fields["params_id"]),
        day=day_from_text(where, fields["day"]),
        num_bytes=num_bytes,
        rows=rows,
    )


def bits_from_text(index: int, text: Any) -> bytes:
    """Decode the bits of a report.

    Args:
        index: The index of the report in its batch, for the error message.
        text: The base64 of 1 to `MAX_REPORT_BYTES` bytes, as received.

    Raises:
        WireFormatError: The text is not canonical base64.
    """
    try:
        if type(text) is not str or not 1 <= len(text) <= MAX_BASE64_CHARACTERS:
            raise ValueError
        bits = binascii.a2b_base64(text, strict_mode=True)
        if binascii.b2a_base64(bits, newline=False) != text.encode("ascii"):
            raise ValueError  # some unused bits are not zero
    except (ValueError, binascii.Error):
        raise WireFormatError(
            f"report {index}: bits {shown(text)} is not base64 of 1 to {MAX_REPORT_BYTES} bytes"
        ) from None
    return bits


def day_from_text(where: str, text: Any) -> date:
    """Parse an ISO date that is not before 1970.

    Args:
        where: The name of the field, for the error message.
        text: The date `YYYY-MM-DD`, as received.

    Raises:
        WireFormatError: The text is not such a date.
    """
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


def check_fields(where: str, fields: Any, expected: set[str]) -> None:
    """Raise WireFormatError unless a value is an object with exactly these fields."""
    if type(fields) is not dict:
        raise WireFormatError(f"{where} is not a JSON object")
    if fields.keys() != expected:
        wrong = [shown(name) for name in sorted(fields.keys() ^ expected)[:5]]
        raise WireFormatError(f"{where} has missing or unknown fields: {', '.join(wrong)}")


def check_hex_128(what: str, text: Any) -> str:
    """Check that a text is 32 lower-case hexadecimal digits, and return it.

    Args:
        what: The name of the field, for the error message.
        text: The text, as received.

    Raises:
        WireFormatError: The text does not have this form.
    """
    if type(text) is not str or not _HEX_128.fullmatch(text):
        raise WireFormatError(f"{what} {shown(text)} is not 32 lower-case hexadecimal digits")
    return text


def decode_batch(body: bytes, content_type: str, *, max_reports: int = MAX_REPORTS) -> GroupedBatch:
    """Decode a batch in the form that its content type names.

    Args:
        body: The whole body of a request.
        content_type: The content type of the request.
        max_reports: The maximum number of reports.

    Returns:
        The reports, grouped.

    Raises:
        WireFormatError: The form is unknown, or the body is not exactly one valid batch.
    """
    if content_type == BINARY_CONTENT_TYPE:
        return decode_binary(body, max_reports=max_reports)
    if content_type == JSON_CONTENT_TYPE:
        return read_json(parse_body(body), max_reports)
    raise WireFormatError(
        f"content type {content_type[:80]!r} is neither {JSON_CONTENT_TYPE} "
        f"nor {BINARY_CONTENT_TYPE}"
    )
