"""One day of whole installations, in a process of its own, which imports nothing but the client.

It opens each device, records, sends, closes it and ends.
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, field
from threading import RLock

from client_sdk import Client, Delivery
from client_sdk.delivery.batches import GZIP, read_body
from client_sdk.storage.directory import StateDirectory
from client_sdk.testing import MemoryCollector
from privacy_audit.black_box.lives import Seen, Value
from privacy_audit.errors import client_errors
from rappor_core.calendar import SECONDS_A_DAY, day_of
from rappor_core.metrics.compiled_reading import read_compiled

CHANGING_HEADERS = frozenset({"content-length", "host"})
GZIP_HEADER = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"  # no time, no system, one extra field
SECONDS = 20.0  # to send what waits, at most
AFTER_FAILURE = 0.5  # the same, once a device of the day could not: the audit fails in any case


@dataclass
class Sent:
    """What one day's process saw: reports by device, and what each request looked like.

    other: of the twin.  secrets: of the devices, on the day of the twin; private.
    strays: bodies that hold more than their reports.
    """

    reports: list[list[Seen]]
    other: list[list[Seen]] = field(default_factory=list)
    secrets: list[bytes] = field(default_factory=list)
    strays: int = 0
    batch_ids: list[str] = field(default_factory=list)
    headers: Counter[str] = field(default_factory=Counter)
    mixed: int = 0


@dataclass(frozen=True)
class Day:
    """What all devices record on one day. directories: a state each.  values: one a device.

    twin: the name of a second metric that takes the same values on this day, or "".
    """

    metrics: str
    metric: str
    day: int
    directories: tuple[str, ...]
    values: tuple[Value, ...]
    twin: str = ""


def run_day(asked: Day) -> Sent:
    """One day, in a process of its own. Raises ClientError."""
    with client_errors():
        return _run(asked)


def _run(asked: Day) -> Sent:
    file = read_compiled(asked.metrics)
    sent, wait = Sent([]), SECONDS
    with MemoryCollector() as collector:
        for directory, value in zip(asked.directories, asked.values, strict=True):
            before = len(collector.reports)
            with Client.open(
                file,
                state_dir=directory,
                collector=collector.url,
                consent=True,
                delivery=Delivery(mean_delay=0),
                clock=lambda: float(asked.day * SECONDS_A_DAY + SECONDS_A_DAY // 2),
            ) as client:
                client.record(asked.metric, value)
                if asked.twin:
                    client.record(asked.twin, value)
                if not client.flush(wait):
                    wait = AFTER_FAILURE
            new = [
                Seen(r.metric, r.cohort, day_of(r.day), r.bits) for r in collector.reports[before:]
            ]
            sent.reports.append([r for r in new if r.metric == asked.metric])
            sent.other.append([r for r in new if r.metric != asked.metric])
            if asked.twin:
                sent.secrets.append(_secret(directory))
        _look_at_requests(collector, sent)
    return sent


def _secret(directory: str) -> bytes:
    """What the device made of the system's randomness, from its own files."""
    state = StateDirectory(directory).open(RLock())
    try:
        return state.identity().secret or b""
    finally:
        state.close()


def holds_reports_alone(body: bytes) -> bool:
    """Whether a gzipped body has a header that says nothing, zeros to fill it up, and one stream.

    What the stream holds is read by the wire's own rules, which refuse anything beside reports.
    """
    size = int.from_bytes(body[10:12], "little")
    stream = zlib.decompressobj(GZIP)
    try:
        stream.decompress(body)
    except zlib.error:
        return False
    said = body[:10] != GZIP_HEADER or body[12:14] != b"RP" or any(body[16 : 12 + size])
    return not said and stream.eof and not stream.unused_data


def _look_at_requests(collector: MemoryCollector, sent: Sent) -> None:
    for headers, body in collector.requests:
        batch = read_body(body, json="json" in headers.get("Content-Type", ""))
        sent.batch_ids.append(batch.batch_id)
        sent.strays += not holds_reports_alone(body)
        sent.mixed += len({group.metric for group in batch.groups}) > 1
        kept = {k.lower(): v for k, v in headers.items() if k.lower() not in CHANGING_HEADERS}
        sent.headers[str(sorted(kept.items()))] += 1
