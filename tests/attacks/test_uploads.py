"""One sender with many slow uploads must not shut the others out."""

import random
import time

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
    """70 stuck uploads of one address, before 2,037 of 2,059 honest posts were refused.

    Honest ones come from another address, and from the very same one, as behind a shared line.
    """
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
