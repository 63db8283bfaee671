"""Many requests in one write: a keyless sender must cost little memory, and keep nobody waiting."""

import threading
import time
from contextlib import suppress

import pytest

from tests.attacks.support import Socket, target

CONNECTIONS = 100
WRITTEN = 252 << 10  # bytes of each connection
MAX_GROWTH = 100 << 20  # 2,262 MB before, and no answer to others for 24 seconds
MAX_SECONDS = 2.0
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.long
def test_pipelined_requests_keep_nobody_waiting(sqlite_url: str) -> None:
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
    assert max(waits) < MAX_SECONDS


def _write(connection: Socket) -> None:
    with suppress(OSError):  # it is closed at the end
        connection.sendall(REQUEST * (WRITTEN // len(REQUEST)))
