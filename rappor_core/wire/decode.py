"""Reading a batch in either form."""

from __future__ import annotations

from typing import Any

from rappor_core.errors import WireFormatError
from rappor_core.wire.binary import decode_binary
from rappor_core.wire.json import parse_body, read_json
from rappor_core.wire.report import (
    BINARY_CONTENT_TYPE,
    JSON_CONTENT_TYPE,
    LINKED_VERSION,
    MAX_REPORTS,
    GroupedBatch,
)


def decode_batch(body: bytes, content_type: str, *, max_reports: int = MAX_REPORTS) -> GroupedBatch:
    """Read a batch in the form that its content type names. Raises WireFormatError."""
    document = None
    if content_type == BINARY_CONTENT_TYPE:
        version: object = body[4] if len(body) > 4 else 0
    elif content_type == JSON_CONTENT_TYPE:
        document = parse_body(body)
        version = type(document) is dict and document.get("version")
    else:
        raise WireFormatError(
            f"content type {content_type[:80]!r} is neither {JSON_CONTENT_TYPE} "
            f"nor {BINARY_CONTENT_TYPE}"
        )
    if version == LINKED_VERSION:
        return _decode_linked(body, document, max_reports)
    if document is None:
        return decode_binary(body, max_reports=max_reports)
    return read_json(document, max_reports)


def _decode_linked(body: bytes, document: Any, max_reports: int) -> GroupedBatch:
    """Loads what reads it only where there is such a batch."""
    if document is None:
        from rappor_core.wire.linked import decode_linked_binary

        return decode_linked_binary(body, max_reports=max_reports)
    from rappor_core.wire.linked_json import read_linked_json

    return read_linked_json(document, max_reports=max_reports)
