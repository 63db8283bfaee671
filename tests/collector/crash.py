"""Kill a collector at random moments under load; each acknowledged report is counted once."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx

from tests.collector.support import Bench, Sender, make_metric, set_bits
from tests.waiting import until

METRIC = make_metric("crash", min_reports=1, num_bits=64, num_cohorts=8)
ROOT = Path(__file__).parent.parent.parent
SENDERS = 4
REPORTS_A_BATCH = 20


@dataclass
class Tally:
    """What was acknowledged: how many reports, and the counts of their bits by cohort."""

    reports: int = 0
    duplicates: int = 0
    refused: int = 0
    bits: dict[tuple[int, int], int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, reports: list, duplicate: bool) -> None:  # type: ignore[type-arg]
        with self.lock:
            self.reports += len(reports)
            self.duplicates += duplicate
            for report in reports:
                for position in set_bits(report.bits):
                    key = (report.cohort, position)
                    self.bits[key] = self.bits.get(key, 0) + 1

    def assert_counted(self, bench: Bench) -> None:
        """That what was acknowledged of `METRIC` is served, report by report, after a closing."""
        bench.collector.close_day(bench.clock.now.date(), "test")
        aggregate = bench.collector.read_aggregate("test", METRIC.name)
        bench.database.close()
        assert aggregate.num_reports == self.reports
        for cohort, row in enumerate(aggregate.bit_counts):
            assert list(row) == [self.bits.get((cohort, bit), 0) for bit in range(len(row))]


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A socket that collectors inherit, one after the other; no other process has its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield listener


def port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


def announced_port(process: subprocess.Popen[str]) -> int:
    assert process.stderr is not None
    for text in process.stderr:
        line = json.loads(text)
        if line["event"] == "listening":
            port: int = line["port"]
            return port
    raise AssertionError("the collector ended without listening")


def start(
    database: str, listener: socket.socket, *, workers: int = 1, **more: str
) -> subprocess.Popen[bytes]:
    """A collector in a separate process. more: further environment variables."""
    environment = os.environ | {
        "RAPPOR_DATABASE": database,
        "RAPPOR_LISTEN_FD": str(listener.fileno()),
        "RAPPOR_REQUIRE_KEYS": "false",
        "RAPPOR_WORKERS": str(workers),
        "RAPPOR_LOG_LEVEL": "error",
        "PYTHONPATH": str(ROOT),
        **more,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "rappor_cli", "serve"],
        env=environment,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=[listener.fileno()],
    )


def await_ready(port: int, seconds: float = 150) -> None:
    """Long enough for four workers to load their code on a machine with much other work."""

    def is_ready() -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=2).status_code == 200
        return False

    until(is_ready, seconds, every=0.02)


Post = Callable[[httpx.Client, bytes], tuple[int, bytes]]


def post_directly(http: httpx.Client, body: bytes) -> tuple[int, bytes]:
    answer = http.post("/v1/reports", content=body, headers={"content-type": "application/json"})
    return answer.status_code, answer.content


def send_until(
    port: int, seed: int, stop: threading.Event, tally: Tally, post: Post = post_directly
) -> None:
    """Send batches until stopped; each until it is answered with 200."""
    sender = Sender(random.Random(seed))
    day = datetime.now(UTC).date()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as http:
        while not stop.is_set():
            reports = sender.reports(METRIC, REPORTS_A_BATCH, day)
            body = sender.body(reports)
            answer = deliver(http, body, post)
            refused = [r for r in answer["results"] if r["status"] != "accepted"]
            tally.refused += len(refused)
            tally.add(reports, answer["duplicate"])


def deliver(  # type: ignore[type-arg]
    http: httpx.Client, body: bytes, post: Post = post_directly
) -> dict:
    while True:
        try:
            status, answer = post(http, body)
        except httpx.TransportError:
            time.sleep(0.01)
            continue
        if status == 200:
            document: dict = json.loads(answer)  # type: ignore[type-arg]
            return document
        assert status == 503, answer
        time.sleep(0.02)


def await_more(tally: Tally) -> None:
    before = tally.reports
    until(lambda: tally.reports > before, 60)


Send = Callable[[int, int, threading.Event, Tally], None]


@contextmanager
def senders(port: int, tally: Tally, send: Send = send_until) -> Iterator[None]:
    """Load from several threads; on leaving, every batch that was begun is delivered."""
    stop = threading.Event()
    threads = [
        threading.Thread(target=send, args=(port, seed, stop, tally)) for seed in range(SENDERS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(150)
        assert not any(thread.is_alive() for thread in threads)


def crash_test(
    database: str,
    kills: int,
    *,
    workers: int = 1,
    seed: int = 3,
    send: Send = send_until,
    at_end: Callable[[], object] = lambda: None,
    **more: str,
) -> Tally:
    """Kill the collector at random moments; what was acknowledged. at_end: called under load."""
    rng, tally = random.Random(seed), Tally()
    with listening() as listener:
        port = port_of(listener)
        process = start(database, listener, workers=workers, **more)
        try:
            await_ready(port)
            with senders(port, tally, send):
                for _ in range(kills):
                    time.sleep(rng.uniform(0.02, 0.2))
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    process = start(database, listener, workers=workers, **more)
                    await_ready(port)
                await_more(tally)
                at_end()
        finally:
            process.terminate()
            process.wait(60)
    return tally
