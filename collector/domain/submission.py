"""A batch as it came, and how its body is read: once, and quickly where our own encoders wrote it.

JSON without spaces, keys in their order, names in ASCII, is read by one regular expression instead
of a parser. Whatever is not exactly that, down to the last byte, is left to the parser, which also
says what is wrong; so this only ever changes how long reading takes.
"""

from __future__ import annotations

import binascii
import re
from dataclasses import dataclass
from datetime import date
from hashlib import blake2b
from typing import TYPE_CHECKING

from rappor_core.calendar import EPOCH
from rappor_core.wire.json import decode_batch
from rappor_core.wire.report import (
    JSON_CONTENT_TYPE,
    MAX_REPORTS,
    GroupedBatch,
    ReportGroup,
    check_count,
)

if TYPE_CHECKING:
    from collector.domain.report_validation import Day

_REPORT_OVERHEAD = 120  # bytes that a decoded report takes beside its bits
_HEAD = re.compile(rb'\{"version":1,"batch_id":"([0-9a-f]{32})","reports":\[')
_REPORT = re.compile(
    rb'\{"metric":"([a-z0-9_./-]{1,128})","params_id":"([0-9a-f]{32})",'
    rb'"cohort":(0|[1-9][0-9]{0,4}),"day":"([0-9]{4}-[0-9]{2}-[0-9]{2})",'
    rb'"bits":"([A-Za-z0-9+/]{2,4096}={0,2})"\}[,\]]'
)
_REPORT_FRAME = len('{"metric":"","params_id":"","cohort":,"day":"","bits":""},')


@dataclass(frozen=True, slots=True)
class Content:
    """A body as inflated, and its media type."""

    body: bytes
    kind: str


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch as it came. digest: 16 bytes over the body as inflated.  num_bytes: in memory.

    content: for who passes it on.  received: what the clock allowed then; None for now.
    """

    batch: GroupedBatch
    digest: bytes
    num_bytes: int
    content: Content | None = None
    received: Day | None = None


def read_submission(
    content: Content, max_reports: int, *, keep: bool = False, received: Day | None = None
) -> Submission:
    """Decode a body. keep: with the body.

    Raises WireFormatError or UnsupportedMediaError.
    """
    body = content.body
    batch = decode_groups(body, content.kind, max_reports=max_reports)
    digest = blake2b(body, digest_size=16).digest()
    num_bytes = len(body) + _REPORT_OVERHEAD * batch.num_reports
    return Submission(batch, digest, num_bytes, content if keep else None, received)


def decode_groups(
    body: bytes, content_type: str, *, max_reports: int = MAX_REPORTS
) -> GroupedBatch:
    """As `rappor_core.wire.json.decode_batch`, and quicker. Raises WireFormatError."""
    batch = read_compact(body) if content_type == JSON_CONTENT_TYPE else None
    if batch is None:
        return decode_batch(body, content_type, max_reports=max_reports)
    check_count(batch.num_reports, max_reports)
    return batch


def read_compact(body: bytes) -> GroupedBatch | None:
    """The batch; None for anything that is not in the compact form."""
    head = _HEAD.match(body)
    if head is None or body.count(b"}]") != 1 or not body.endswith(b"}]}"):
        return None
    found = _REPORT.findall(body, head.end())
    read = sum([sum(map(len, fields)) for fields in found]) + _REPORT_FRAME * len(found)
    if head.end() + read + 1 != len(body):  # something stands between the reports
        return None
    try:
        return GroupedBatch(head[1].decode(), tuple(_groups(found)), len(found))
    except ValueError:  # bits that are not base64 in its one form, a cohort above 65,535, no date
        return None


def _groups(found: list[tuple[bytes, ...]]) -> list[ReportGroup]:
    """Runs of reports that share metric, params_id, day and length. Raises ValueError."""
    groups: list[ReportGroup] = []
    shared: tuple[bytes, bytes, bytes, int] | None = None
    rows: list[tuple[int, bytes]] = []
    for metric, params_id, cohort, day, text in found:
        bits = binascii.a2b_base64(text, strict_mode=True)
        number = int(cohort)
        if number > 65_535 or binascii.b2a_base64(bits, newline=False) != text:
            raise ValueError
        one = (metric, params_id, day, len(bits))
        if one != shared:
            shared, rows = one, []
            when = date.fromisoformat(day.decode())
            if when < EPOCH:
                raise ValueError
            groups.append(ReportGroup(metric.decode(), params_id.decode(), when, len(bits), rows))
        rows.append((number, bits))
    return groups
