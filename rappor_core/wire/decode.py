"""Reading a batch in either form."""

from __future__ import annotations

from rappor_core.errors import WireFormatError
from rappor_core.wire.binary import decode_binary
from rappor_core.wire.json import parse_body, read_json
from rappor_core.wire.report import (
    BINARY_CONTENT_TYPE,
    JSON_CONTENT_TYPE,
    MAX_REPORTS,
    GroupedBatch,
)


def decode_batch(body: bytes, content_type: str, *, max_reports: int = MAX_REPORTS) -> GroupedBatch:
    """Read a batch in the form that its content type names. Raises WireFormatError."""
    if content_type == BINARY_CONTENT_TYPE:
        return decode_binary(body, max_reports=max_reports)
    if content_type == JSON_CONTENT_TYPE:
        return read_json(parse_body(body), max_reports)
    raise WireFormatError(
        f"content type {content_type[:80]!r} is neither {JSON_CONTENT_TYPE} "
        f"nor {BINARY_CONTENT_TYPE}"
    )
