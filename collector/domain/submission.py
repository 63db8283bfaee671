"""A batch as it came, with the digest by which it is known when it is sent again."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from collector.domain.batch_json import decode_batch_json
from rappor_core.wire.binary import decode_binary
from rappor_core.wire.report import JSON_CONTENT_TYPE, GroupedBatch

if TYPE_CHECKING:
    from collector.domain.report_validation import Day

_REPORT_OVERHEAD = 120  # bytes that a decoded report takes beside its bits


@dataclass(frozen=True, slots=True)
class Content:
    """A body as inflated, and its media type: JSON or the binary form."""

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
    content: Content, *, keep: bool = False, received: Day | None = None
) -> Submission:
    """Decode a body.

    Args:
        content: The body and its media type.
        keep: Whether the submission brings its content along.
        received: What the clock allowed when it came; None for now.

    Returns:
        The batch and its digest.

    Raises:
        WireFormatError: The body is not a batch.
    """
    body = content.body
    decode = decode_batch_json if content.kind == JSON_CONTENT_TYPE else decode_binary
    batch = decode(body)
    digest = blake2b(body, digest_size=16).digest()
    num_bytes = len(body) + _REPORT_OVERHEAD * batch.num_reports
    return Submission(batch, digest, num_bytes, content if keep else None, received)
