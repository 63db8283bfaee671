"""One sender with many slow uploads must not shut the others out."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from collector.errors import OverloadedError
from rappor_server.buffers import Buffers
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
            body = sender.body(sender.reports(METRIC, 300, today()))
            statuses.append(_post_in_pieces(collector, body, honest[number % 2]))
        print(f"\nhonest: {statuses.count(200)} of {len(statuses)} answered 200; ")
        print(f"{before >> 20} MB before, {held >> 20} with {STUCK} stuck uploads")
    assert statuses == [200] * HONEST_POSTS


async def _buffers_under_load() -> tuple[Buffers, list[float]]:
    """Ten bodies of one address fill all; the clock is at 10 then."""
    now = [0.0]
    buffers = Buffers(1 << 20, seconds=lambda: now[0])
    return buffers, now


def test_the_slowest_hoarder_is_given_up() -> None:
    async def attack() -> None:
        buffers, now = await _buffers_under_load()
        async with asyncio.timeout(60) as one, asyncio.timeout(60) as two:
            with buffers.arriving("a", one) as old, buffers.arriving("a", two) as new:
                buffers.take(old, 500 << 10)
                now[0] = 5.0
                buffers.take(new, 500 << 10)
                async with asyncio.timeout(60) as three:
                    with buffers.arriving("b", three) as honest:
                        buffers.take(honest, 100 << 10)
                        assert (old.evicted, new.evicted, honest.evicted) == (True, False, False)
                        assert buffers.num_bytes == 600 << 10
                assert one.when() == 0

    asyncio.run(attack())


def test_a_fair_share_is_not_given_up() -> None:
    async def attack() -> None:
        buffers, now = await _buffers_under_load()
        async with asyncio.timeout(60) as one, asyncio.timeout(60) as two:
            with buffers.arriving("honest", one) as honest, buffers.arriving("b", two) as greedy:
                buffers.take(honest, 100 << 10)
                now[0] = 9.0
                buffers.take(greedy, 900 << 10)
                with pytest.raises(OverloadedError):
                    buffers.take(greedy, 100 << 10)
                assert greedy.evicted
                assert not honest.evicted
            assert buffers.num_bytes == 0

    asyncio.run(attack())


def test_waiting_bodies_leave_room_for_arrivals() -> None:
    """Whole bodies cannot be given up: of one address a quarter waits, of all a half."""
    buffers = Buffers(1 << 20)
    with buffers.holding("a", 200 << 10):
        with pytest.raises(OverloadedError), buffers.holding("a", 100 << 10):
            pass
        with (
            buffers.holding("b", 300 << 10),
            pytest.raises(OverloadedError),
            buffers.holding("c", 100 << 10),
        ):
            pass
    assert buffers.num_bytes == 0
