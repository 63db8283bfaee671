"""The body of a batch, whose bytes never change once stored, and the collector's answer."""

import zlib
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from client_sdk.errors import TransportError
from client_sdk.randomization.key_derivation import Randomness
from rappor_core.errors import WireFormatError
from rappor_core.strict_json import parse_strict_json
from rappor_core.wire.binary import decode_binary, encode_binary
from rappor_core.wire.report import WIRE_VERSION, GroupedBatch, Report, make_batch

GZIP = 31  # zlib's code for "with a gzip header"
_GZIP_HEADER = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"  # deflate, an extra field, no time, no system
_EXTRA_ID = b"RP"  # our own subfield of zeros, to be skipped (RFC 1952, section 2.3.1.1)
_EXTRA_BYTES = 6  # two lengths and the subfield's name
MAX_REASON_CHARS = 64
TRANSIENT = frozenset({408, 425, 429})  # and every 5xx
PROBLEM_TYPE = "application/problem+json"
PROBLEM_URN = "urn:rappor-telemetry:problem:"
FINAL = frozenset({400, 409, 413, 415, 422})  # the same bytes will never be accepted
TOO_LARGE = "too_large"


def make_body(batch_id: bytes, reports: Iterable[Report], *, pad_to: int = 0) -> bytes:
    """Return the gzipped body of a batch, padded to a multiple of `pad_to` bytes.

    Reports are sorted by content, so that their order reveals nothing.
    """
    ordered = sorted(
        reports, key=lambda item: (item.metric, item.params_id, item.day, item.cohort, item.bits)
    )
    batch = make_batch(batch_id, ordered)
    return gzip_padded(encode_binary(batch), pad_to)


def read_body(body: bytes) -> GroupedBatch:
    """Decode the output of `make_body`. Raises WireFormatError if invalid."""
    try:
        return decode_binary(zlib.decompress(body, wbits=GZIP))
    except zlib.error as error:
        raise WireFormatError(f"the stored batch is not gzip: {error}") from error


def gzip_padded(data: bytes, pad_to: int) -> bytes:
    """Compress with gzip; zeros in a header field pad the result to a multiple of `pad_to`."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = deflate.compress(data) + deflate.flush()
    check = zlib.crc32(data).to_bytes(4, "little") + (len(data) & 0xFFFFFFFF).to_bytes(4, "little")
    size = len(_GZIP_HEADER) + _EXTRA_BYTES + len(packed) + len(check)
    zeros = bytes(-size % pad_to if pad_to else 0)
    extra = _EXTRA_ID + len(zeros).to_bytes(2, "little") + zeros
    return _GZIP_HEADER + len(extra).to_bytes(2, "little") + extra + packed + check


def shuffled(items: Sequence[int], randomness: Randomness) -> list[int]:
    """Return the items in random order (each is sorted by 8 random bytes)."""
    draws = randomness(8 * len(items))
    keys = [draws[start : start + 8] for start in range(0, len(draws), 8)]
    return [item for _, item in sorted(zip(keys, items, strict=True))]


class Ack(NamedTuple):
    """The collector's result for one report."""

    status: str
    reason: str = ""  # one word; "" if the report was accepted

    @property
    def accepted(self) -> bool:
        """Return whether the collector counted the report."""
        return self.status == "accepted"


class Answer(NamedTuple):
    """A collector's answer to a batch: one result for each report, in order."""

    results: tuple[Ack, ...]
    duplicate: bool  # the batch was already counted; the results are repeated from the first time


def read_answer(body: bytes, batch_id: str, num_reports: int) -> Answer:
    """Parse a 200 answer. Raises TransportError (retry) if the answer is not for this batch.

    A captive portal or a proxy may answer any request with 200. The device deletes a batch only if
    the answer is for exactly this batch and has a result for each report.
    """
    try:
        fields = parse_strict_json(body)
        if fields["version"] != WIRE_VERSION or fields["batch_id"] != batch_id:
            raise ValueError("the version or batch id does not match")
        results = tuple(map(_result, fields["results"]))
        if len(results) != num_reports:
            raise ValueError(f"{len(results)} results for {num_reports} reports")
    except (WireFormatError, ValueError, TypeError, KeyError) as error:
        raise TransportError(
            f"status 200, but not an answer to batch {batch_id}: {str(error)[:200]}",
            reason="strange_answer",
            retry=True,
        ) from None
    return Answer(results, fields.get("duplicate") is True)


def failure(
    status: int,
    answer: bytes,
    retry_after: str | None = None,
    content_type: str | None = None,
    body: bytes = b"",
) -> TransportError:
    """Return the error for a status other than 200, which states whether to send the batch again.

    The batch is dropped only if the collector itself rejects exactly these bytes, with a problem
    document that contains their digest. An intermediary (a proxy, a captive portal, a web server in
    front) does not know the batch, and may have lost or changed the body on the way. All other
    failures are retried: overload and timeouts soon, other errors slowly, because the operator may
    fix them (a wrong key, a wrong address, a redirect).

    Args:
        status: The HTTP status of the answer.
        answer: The body of the answer.
        retry_after: The Retry-After header.
        content_type: The Content-Type header.
        body: The body as it was sent.
    """
    problem = _problem(status, answer, content_type)
    detail, who = ascii(answer[:80]), "the collector, or something before it,"
    is_final = is_other = False
    if problem is not None:
        detail, who = ascii(problem.get("detail"))[:200], "the collector"
        digest = problem.get("body_sha256")
        is_final = status in FINAL and digest == sha256(body).hexdigest()
        is_other = digest is not None and not is_final
    reason = TOO_LARGE if status == 413 and not is_other else f"http_{status}"
    wait = _seconds(retry_after) if status in TRANSIENT or status >= 500 else None
    return TransportError(
        f"{who} answered {status}: {detail}", reason=reason, retry=not is_final, retry_after=wait
    )


def _result(fields: Any) -> Ack:
    status = fields["status"]
    if status == "accepted":
        return Ack("accepted")
    if status != "refused" or type(fields["reason"]) is not str:
        raise ValueError("a result is neither accepted, nor refused with a reason")
    return Ack("refused", fields["reason"][:MAX_REASON_CHARS])


def _problem(status: int, body: bytes, content_type: str | None) -> dict[str, Any] | None:
    """Return the fields of an answer that is the collector's problem document, or None."""
    if (content_type or "").partition(";")[0].strip().lower() != PROBLEM_TYPE:
        return None
    try:
        fields = parse_strict_json(body)
        ours = str(fields["type"]).startswith(PROBLEM_URN) and fields["status"] == status
    except (WireFormatError, KeyError, TypeError):
        return None
    return fields if ours else None


def _seconds(retry_after: str | None) -> float | None:
    """Parse Retry-After (RFC 9110, 10.2.3) into seconds to wait; None if missing or invalid."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after.strip()[:9])
    from email.utils import parsedate_to_datetime  # rarely needed, and slow to import
    from time import time

    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time())
    except (TypeError, ValueError):
        return None
