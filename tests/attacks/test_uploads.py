"""Connections that send much or nothing more: they cost little memory, and shut nobody out."""

import os
import random
import threading
import time
from contextlib import suppress

import pytest

from tests.attacks.support import Socket, Target, request, target, today
from tests.collector.support import Sender, make_metric

METRIC = make_metric()
STUCK = 70
HELD = (1 << 20) - 4096
HONEST_POSTS = 60


def _stuck(collector: Target, source: str, held: int = HELD) -> Socket:
    """A connection that has sent `held` bytes of a body of 1 MiB, and sends no more."""
    one = collector.connect(source)
    one.sendall(request(b" " * (1 << 20))[: held + 128])
    return one


def _post_in_pieces(collector: Target, body: bytes, source: str) -> int:
    """Send an honest batch in pieces, as a slow line does; its status."""
    whole = request(body, "Connection: close")
    with collector.connect(source) as one:
        for start in range(0, len(whole), 8_000):
            one.sendall(whole[start : start + 8_000])
            time.sleep(0.002)
        answer = one.recv(100)
    return int(answer[9:12])


@pytest.mark.long
def test_stuck_uploads_shut_nobody_out(sqlite_url: str) -> None:
    """70 of one address; honest posts come from another, and from the very same one."""
    honest = ("127.0.0.2", "127.0.0.1")
    sender = Sender(random.Random(3))
    with target(sqlite_url, [METRIC]) as collector:
        before = collector.rss
        stuck = [_stuck(collector, "127.0.0.1") for _ in range(STUCK)]
        stuck += [_stuck(collector, "127.0.0.1", 16_000) for _ in range(STUCK)]  # the last gaps
        held = collector.rss
        statuses = []
        for number in range(HONEST_POSTS):
            if number % 10 == 5:  # what was cut off comes again
                stuck.append(_stuck(collector, "127.0.0.1"))
            body = sender.body(sender.reports(METRIC, 200, today()))
            statuses.append(_post_in_pieces(collector, body, honest[number % 2]))
        print(f"\nhonest: {statuses.count(200)} of {len(statuses)} answered 200; ")
        print(f"{before >> 20} MB before, {held >> 20} with {STUCK} stuck uploads")
    assert statuses == [200] * HONEST_POSTS


CONNECTIONS = 100
WRITTEN = 252 << 10  # bytes of each connection
MAX_GROWTH = 100 << 20  # 2,262 MB before, and no answer to others for 24 seconds
MAX_SECONDS = 2.0
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.long
def test_pipelined_requests_keep_nobody_waiting(sqlite_url: str) -> None:
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # other work on this machine
    with target(sqlite_url, []) as collector:
        before = peak = collector.rss
        senders = [collector.connect() for _ in range(CONNECTIONS)]
        threads = [threading.Thread(target=_write, args=(one,)) for one in senders]
        for thread in threads:
            thread.start()
        waits = []
        for _ in range(30):
            started = time.monotonic()
            assert collector.http.get("/healthz").status_code == 200
            waits.append(time.monotonic() - started)
            peak = max(peak, collector.rss)
        print(f"\n+{peak - before >> 20} MiB; others waited {max(waits):.2f} s at most")
        for one in senders:
            one.close()
        for thread in threads:
            thread.join()
    assert peak - before < MAX_GROWTH
    assert max(waits) < MAX_SECONDS * busy


def _write(connection: Socket) -> None:
    with suppress(OSError):  # it is closed at the end
        connection.sendall(REQUEST * (WRITTEN // len(REQUEST)))
