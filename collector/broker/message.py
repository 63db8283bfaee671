"""The message of a batch: its body and the verdicts of its receipt, without address, header or
time.

One byte each for the version and the media type; the UTC day of receipt, and the latest day that a
device might state then, as days since 1970-01-01; how many reports were acknowledged as accepted;
then the body, as inflated. Numbers are big-endian.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from collector.domain.report_validation import Day
from collector.domain.submission import Content, Submission, read_submission
from rappor_core.errors import RapporError
from rappor_core.wire.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE

VERSION = 1
_KINDS = (JSON_CONTENT_TYPE, BINARY_CONTENT_TYPE)
_HEAD = Struct(">BBiiI")
HEAD_BYTES = _HEAD.size


class UnreadableError(RapporError):
    """The message was not made by a collector of this version or an earlier one."""


@dataclass(frozen=True, slots=True)
class Message:
    """A batch on its way through the broker.

    received: what the clock allowed then.  accepted: reports acknowledged as accepted.
    """

    submission: Submission
    received: Day
    accepted: int


def encode_message(content: Content, received: Day, accepted: int) -> bytes:
    """The value of a message."""
    kind = _KINDS.index(content.kind)
    return _HEAD.pack(VERSION, kind, received.today, received.latest, accepted) + content.body


def decode_message(value: bytes) -> Message:
    """Read a message. Raises UnreadableError, whose text repeats nothing of the body."""
    if len(value) < HEAD_BYTES:
        raise UnreadableError(f"a message of {len(value)} bytes")
    version, kind, today, latest, accepted = _HEAD.unpack_from(value)
    if version != VERSION or kind >= len(_KINDS):
        raise UnreadableError(f"a message of version {version} and kind {kind}")
    if today < 0:
        raise UnreadableError(f"a message of day {today}")
    content = Content(value[HEAD_BYTES:], _KINDS[kind])
    received = Day(today, latest)
    try:
        submission = read_submission(content, received=received)
    except RapporError as error:
        raise UnreadableError("a message without a batch") from error
    if accepted > submission.batch.num_reports:
        raise UnreadableError(f"a message that acknowledges {accepted} reports, and has fewer")
    return Message(submission, received, accepted)
