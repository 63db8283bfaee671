"""Make batches of queued reports; their bytes never change once they are stored."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

from client_sdk.delivery.options import json_form
from client_sdk.randomisation.randomness import Randomness
from rappor_core.errors import WireFormatError
from rappor_core.wire.binary import decode_binary, encode_binary
from rappor_core.wire.report import (
    BINARY_CONTENT_TYPE,
    JSON_CONTENT_TYPE,
    Batch,
    GroupedBatch,
    Report,
    make_batch,
)

GZIP = 31  # zlib's name for "with a gzip header"
_GZIP_HEADER = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"  # deflate, an extra field, no time, no system
_EXTRA_ID = b"RP"  # a subfield of our own: zeros, to be skipped (RFC 1952, section 2.3.1.1)
_EXTRA_BYTES = 6  # two lengths and the name


def make_body(
    batch_id: bytes, reports: Iterable[Report], *, pad_to: int = 0, json: bool = False
) -> bytes:
    """The gzipped body of a batch, padded to a multiple of `pad_to` bytes.

    Reports are sorted by what they say: their order tells nothing else.
    """
    batch = make_batch(batch_id, sorted(reports, key=_content))
    return gzip_padded(encode(batch, json=json), pad_to)


def encode(batch: Batch, *, json: bool) -> bytes:
    """Encode a batch in the binary or the JSON form. Raises ParameterError where the JSON form
    is not installed."""
    if not json:
        return encode_binary(batch)
    body: bytes = json_form().encode_json(batch)
    return body


def read_body(body: bytes, *, json: bool) -> GroupedBatch:
    """The inverse of `make_body`. Raises WireFormatError."""
    try:
        plain = zlib.decompress(body, wbits=GZIP)
    except zlib.error as error:
        raise WireFormatError(f"the stored batch is not gzip: {error}") from error
    if not json:
        return decode_binary(plain)
    from rappor_core.wire.decode import decode_batch

    return decode_batch(plain, JSON_CONTENT_TYPE)


def content_type(*, json: bool) -> str:
    """The content type of a body."""
    return JSON_CONTENT_TYPE if json else BINARY_CONTENT_TYPE


def gzip_padded(data: bytes, pad_to: int) -> bytes:
    """Gzip with zeros in the header's extra field up to a multiple of `pad_to` bytes."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = deflate.compress(data) + deflate.flush()
    check = zlib.crc32(data).to_bytes(4, "little") + (len(data) & 0xFFFFFFFF).to_bytes(4, "little")
    size = len(_GZIP_HEADER) + _EXTRA_BYTES + len(packed) + len(check)
    zeros = bytes(-size % pad_to if pad_to else 0)
    extra = _EXTRA_ID + len(zeros).to_bytes(2, "little") + zeros
    return _GZIP_HEADER + len(extra).to_bytes(2, "little") + extra + packed + check


def shuffled(items: Sequence[int], randomness: Randomness) -> list[int]:
    """The items in random order: sorted by 8 random bytes each."""
    draws = randomness(8 * len(items))
    keys = [draws[start : start + 8] for start in range(0, len(draws), 8)]
    return [item for _, item in sorted(zip(keys, items, strict=True))]


def _content(report: Report) -> tuple[str, str, int, int, bytes]:
    day = report.day.toordinal()
    return report.metric, report.params_id, day, report.cohort, report.bits
