"""Decoded batches, with the digest that identifies a batch if it is sent again.

msgspec parses JSON into typed structs. It rejects everything but JSON of these types, such as NaN,
fractions, invalid UTF-8, lone surrogates, unknown or missing fields, and nesting. But it accepts
duplicate keys (the last one wins) and base64 with spare bits. A body that equals msgspec's own
output for the batch has neither; any other body is searched for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from rappor_core.errors import WireFormatError, shown
from rappor_core.wire.binary import decode_binary
from rappor_core.wire.json import bits_from_text, check_hex_128, day_from_text
from rappor_core.wire.report import (
    JSON_CONTENT_TYPE,
    MAX_REPORT_BYTES,
    MAX_REPORTS,
    GroupedBatch,
    ReportGroup,
    check_count,
    check_metric,
    check_version,
)

if TYPE_CHECKING:
    from collector.domain.report_validation import Day

_REPORT_OVERHEAD = 120  # the size of a decoded report in bytes, in addition to its bits
_QUOTES_OF_BATCH = 8  # three keys and the batch id
_QUOTES_OF_REPORT = 18  # five keys and four texts
_MAX_MESSAGE = 200  # characters, because the message may quote a field's name


@dataclass(frozen=True, slots=True)
class Content:
    """An uncompressed body, and its media type (JSON or the binary form)."""

    body: bytes
    kind: str


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch as received."""

    batch: GroupedBatch
    digest: bytes  # the digest of the uncompressed body, 16 bytes
    num_bytes: int  # the size in memory
    content: Content | None = None  # for a queue that passes it on
    received: Day | None = None  # the valid days at receipt; None means now


def read_submission(
    content: Content, *, keep: bool = False, received: Day | None = None
) -> Submission:
    """Decode a body.

    Args:
        content: The body and its media type.
        keep: Whether the submission includes its content.
        received: The valid days at receipt; None means now.

    Raises:
        WireFormatError: The body is not a batch.
    """
    body = content.body
    decode = decode_batch_json if content.kind == JSON_CONTENT_TYPE else decode_binary
    batch = decode(body)
    digest = blake2b(body, digest_size=16).digest()
    num_bytes = len(body) + _REPORT_OVERHEAD * batch.num_reports
    return Submission(batch, digest, num_bytes, content if keep else None, received)


class ReportFields(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A report as written in JSON (docs/protocol.md)."""

    metric: str
    params_id: str
    cohort: int
    day: str
    bits: bytes


class BatchFields(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A batch as written in JSON (docs/protocol.md)."""

    version: int
    batch_id: str
    reports: list[ReportFields]


class _BitsText(msgspec.Struct, gc=False):
    bits: str


class _BitsTexts(msgspec.Struct, gc=False):
    reports: list[_BitsText]


_DECODER = msgspec.json.Decoder(BatchFields)
_TEXTS = msgspec.json.Decoder(_BitsTexts)
_ENCODER = msgspec.json.Encoder()


def decode_batch_json(body: bytes, *, max_reports: int = MAX_REPORTS) -> GroupedBatch:
    """Decode a batch; check a field once if consecutive reports repeat it.

    Args:
        body: The uncompressed JSON in UTF-8.
        max_reports: The maximum number of reports.

    Returns:
        The batch; consecutive reports that differ only in cohort and bits form a group.

    Raises:
        WireFormatError: The body is not exactly a batch of version 1.
    """
    try:
        batch = _DECODER.decode(body)
    except msgspec.ValidationError as error:
        raise WireFormatError(f"the batch has another form: {error}"[:_MAX_MESSAGE]) from None
    except msgspec.DecodeError as error:
        raise WireFormatError(f"the body is not JSON: {error}") from None
    check_version(batch.version)
    batch_id = check_hex_128("batch_id", batch.batch_id)
    check_count(len(batch.reports), max_reports)
    if _ENCODER.encode(batch) != body:
        _refuse_repeated_keys(body, batch)
        for index, text in enumerate(_TEXTS.decode(body).reports):
            bits_from_text(index, text.bits)
    groups: list[ReportGroup] = []
    shared: tuple[str, str, str, int] | None = None
    rows: list[tuple[int, bytes]] = []
    for index, report in enumerate(batch.reports):
        bits = report.bits
        if not 0 <= report.cohort < 1 << 16:
            where = f"report {index}: cohort {shown(report.cohort)}"
            raise WireFormatError(f"{where} is not an integer in [0, 65535]")
        key = (report.metric, report.params_id, report.day, len(bits))
        if key != shared:
            shared, rows = key, []
            groups.append(_new_group(index, report, rows))
        rows.append((report.cohort, bits))
    return GroupedBatch(batch_id, tuple(groups), len(batch.reports))


def _new_group(index: int, report: ReportFields, rows: list[tuple[int, bytes]]) -> ReportGroup:
    """Return a new group that begins with a report; the caller adds the rows."""
    where, num_bytes = f"report {index}", len(report.bits)
    if not 1 <= num_bytes <= MAX_REPORT_BYTES:
        raise WireFormatError(f"{where}: bits hold {num_bytes} bytes, not 1 to {MAX_REPORT_BYTES}")
    return ReportGroup(
        metric=check_metric(report.metric),
        params_id=check_hex_128(f"{where}: params_id", report.params_id),
        day=day_from_text(where, report.day),
        num_bytes=num_bytes,
        rows=rows,
    )


def _refuse_repeated_keys(body: bytes, batch: BatchFields) -> None:
    """Raise WireFormatError unless the body has exactly the quotes of its fields.

    A repeated key adds two quotes. The other strings were checked and contain no quotes, so only
    metric names can have one, as `\\"`.
    """
    quotes = _QUOTES_OF_BATCH + _QUOTES_OF_REPORT * len(batch.reports)
    if b"\\" in body:
        quotes += sum(report.metric.count('"') for report in batch.reports)
    if body.count(b'"') != quotes or b"\\u0022" in body:
        raise WireFormatError("a key is repeated, or a quote is written as \\u0022")
