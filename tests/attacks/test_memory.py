"""Bodies that cannot be read, and answers that nobody reads (`pytest -s` prints the memory)."""

import gzip
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from rappor_core.wire.binary import encode_binary
from rappor_core.wire.report import BINARY_CONTENT_TYPE, make_batch
from tests.attacks.support import target, today
from tests.collector.support import Sender, make_metric

METRIC = make_metric()
MAX_BYTES = 300 << 20
SENDERS = 8
GZIP = {"content-encoding": "gzip"}


def hostile_bodies() -> list[tuple[bytes, dict[str, str]]]:
    """Bodies over 64 KiB that are no batch, each for another reason, and one that conflicts."""
    sender = Sender(random.Random(5))
    good = sender.body(sender.reports(METRIC, 7_000, today()), b"c" * 16)
    other = sender.body(sender.reports(METRIC, 7_000, today()), b"c" * 16)
    binary = encode_binary(make_batch(b"b" * 16, sender.reports(METRIC, 9_000, today())))
    json_type = {"content-type": "application/json"}
    binary_type = {"content-type": BINARY_CONTENT_TYPE}
    wide = b'{"version":1,"batch_id":"' + b"0" * 32 + b'","reports":[' + b"{}," * 300_000 + b"{}]}"
    return [
        (good, json_type),
        (other, json_type),  # 409: the same id with another body
        (good[:-2], json_type),
        (good.replace(b'"cohort":1', b'"cohort":x'), json_type),
        (good.replace(b'"bits":"', b'"bits":"\xff'), json_type),
        (b"[" + b"[]," * 300_000 + b"[]]", json_type),
        (gzip.compress(b" " * (4 << 20)), json_type | GZIP),
        (gzip.compress(wide + b" " * (3 << 20)), json_type | GZIP),
        (gzip.compress(good[:-2] * 3), json_type | GZIP),
        (binary[:-1], binary_type),
        (binary + b"x", binary_type),
    ]


def attack(port: int, count: int) -> dict[int, int]:
    """Send `count` hostile bodies from several connections; how often each status came."""
    bodies = hostile_bodies()

    def send(first: int) -> Iterator[int]:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            for number in range(first, count, SENDERS):
                body, headers = bodies[number % len(bodies)]
                yield http.post("/v1/reports", content=body, headers=headers).status_code

    statuses: dict[int, int] = {}
    with ThreadPoolExecutor(SENDERS) as pool:
        for found in pool.map(lambda first: list(send(first)), range(SENDERS)):
            for status in found:
                statuses[status] = statuses.get(status, 0) + 1
    return statuses


@pytest.mark.long
@pytest.mark.parametrize("count", [66, 2_400])
def test_bodies_that_cannot_be_read_do_not_stay(sqlite_url: str, count: int) -> None:
    """Without the mend, 240 of them left 2.5 GB until the next full garbage collection."""
    with target(sqlite_url, [METRIC], max_batch_reports=10_000) as collector:
        before = collector.rss
        statuses = attack(collector.port, count)
        after = collector.rss
    print(f"\n{count} hostile bodies: {before >> 20} MB before, {after >> 20} after, {statuses}")
    assert statuses.keys() <= {200, 400, 409, 503}
    assert statuses[400] > count / 2
    assert after < MAX_BYTES
