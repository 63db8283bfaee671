"""Checks of the bytes of requests with reports, and of batch ids."""

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from privacy_audit.black_box import bounds
from privacy_audit.black_box.checks import Check, counted, one_of, shifted, test
from rappor_core.errors import WireFormatError
from rappor_core.wire.binary import decode_binary
from rappor_core.wire.report import GroupedBatch

GZIP = 31  # `wbits` of zlib for a gzip header and trailer
GZIP_HEADER = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"  # no time, no system, one extra field


class Request(NamedTuple):
    """One HTTP request as its bytes on the wire."""

    connection: int  # the connection's number
    line: str  # method, path, version
    headers: tuple[tuple[str, str], ...]
    body: bytes  # as received, compressed


def batch_of(body: bytes) -> GroupedBatch:
    """Decode the batch in a body. Raises WireFormatError if invalid."""
    try:
        return decode_binary(zlib.decompress(body, wbits=GZIP))
    except zlib.error as error:
        raise WireFormatError(f"a body is not gzip: {error}") from error


def request_checks(
    devices: Sequence[Sequence[Sequence[Request]]], part: str, pad_to: int
) -> Iterator[Check]:
    """Yield the checks of all requests.

    Args:
        devices: The requests of each device, in one list per time that its app asked to send.
        part: The part of the audit.
        pad_to: Bodies are padded to a multiple of this number of bytes.
    """
    every = [r for device in devices for some in device for r in some]
    total = len(every)
    strays = sum(not holds_reports_alone(r.body) for r in every)
    text = f"{strays:,} of {total:,} bodies held something else"
    yield counted("", "bodies contain only reports and zeros", part, strays, text, total, "bodies")
    if strays:
        return
    batches = [batch_of(one.body) for one in every]
    ids = [batch.batch_id for batch in batches]
    odd = sum(len(one.body) % pad_to != 0 for one in every)
    odd += sum(dict(one.headers).get("Content-Length") != str(len(one.body)) for one in every)
    used = [Counter(one.connection for one in some) for device in devices for some in device]
    for what, wrong, noun in (
        ("a batch contains one metric: cohorts of several are a fingerprint",
         sum(len({group.metric for group in batch.groups}) > 1 for batch in batches), "batches"),
        (f"bodies are filled up to {pad_to} bytes, and Content-Length says so", odd, "requests"),
        ("the order of reports in a batch reveals no more than their contents",
         sum(not _in_order(batch) for batch in batches), "batches"),
        ("each batch has a separate connection",
         sum(count - 1 for one in used for count in one.values()), "requests"),
        ("every batch has a different id", total - len(set(ids)), "batches"),
    ):  # fmt: skip
        yield counted("", what, part, wrong, f"not so for {wrong:,} of {total:,}", total, noun)
    if not every:
        return
    table = np.array([list(bytes.fromhex(name)) for name in ids], dtype=np.uint8)
    bits = np.unpackbits(table, axis=1)
    each = bounds.two_sided(bits.sum(axis=0), np.full(bits.shape[1], total), 0.5)
    yield test(
        "", "batch ids are random", part, float(each.min()) * bits.shape[1],
        f"bit {int(each.argmin())} is 1 in {int(bits[:, each.argmin()].sum()):,} of {total:,}",
        shifted(0.5 / math.sqrt(total), "of a bit's chance", bits.shape[1]),
    )  # fmt: skip
    owners = [number for number, device in enumerate(devices) for some in device for _ in some]
    yield _ids_of_one_device(table, np.array(owners), part)


def _ids_of_one_device(table: np.ndarray, owners: np.ndarray, part: str) -> Check:
    """Check that no difference between the same bytes of successive ids is too frequent."""
    same = owners[1:] == owners[:-1]
    pairs = table[1:][same], table[:-1][same]
    steps = (pairs[0].astype(int) - pairs[1].astype(int)) % 256
    counts = np.bincount(steps.ravel(), minlength=256)
    total = int(counts.sum())
    each = bounds.two_sided(counts, np.full(256, total), 1 / 256)
    return test(
        "", "successive batch ids of a device have nothing in common", part,
        float(each.min()) * 256,
        f"bytes {int(each.argmin())} apart {int(counts[each.argmin()])} times in {total:,}",
        one_of(total, "bytes of ids that follow from the one before", 1 / 256),
    )  # fmt: skip


def _in_order(batch: GroupedBatch) -> bool:
    groups = [(group.metric, group.params_id, group.day) for group in batch.groups]
    return groups == sorted(groups) and all(
        list(group.rows) == sorted(group.rows) for group in batch.groups
    )


def holds_reports_alone(body: bytes) -> bool:
    """Return whether a gzipped body has only a bare header, padding zeros and a stream of reports.

    The decoder of the wire format reads the stream; it rejects everything except reports.
    """
    size = int.from_bytes(body[10:12], "little")
    stream = zlib.decompressobj(GZIP)
    try:
        stream.decompress(body)
    except zlib.error:
        return False
    extra = body[:10] != GZIP_HEADER or body[12:14] != b"RP" or any(body[16 : 12 + size])
    return not extra and stream.eof and not stream.unused_data
