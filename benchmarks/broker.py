"""Requests a second that a collector answers when a broker has them, against after its own commit.

The broker is the mock cluster of librdkafka, three brokers in a process of their own: it speaks
Kafka's protocol and writes nothing to a disk, so it stands for a broker that costs nothing. What is
shown is the cost of the front and of the consumer, not that of a broker. One worker, 32
connections, binary batches; in each round the ways take turns.

- direct: the answer comes after the commit in PostgreSQL;
- front: it comes after the broker's acknowledgement, and nobody consumes meanwhile;
- front and consumer: a consumer counts meanwhile on the same machine;
- consumer: counts what is in the broker, with nobody else at work.

Usage: python benchmarks/broker.py [--seconds 3] [--rounds 3] [--reports 100]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import uvloop
from _collect_load import Load, Outcome, drive, make_requests
from _collect_servers import Running, database_cpu_seconds, databases, server

_CLUSTER = """
import sys, time
from confluent_kafka import Producer
owner = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "none", "log_level": 0})
found = owner.list_topics(timeout=20).brokers.values()
print(",".join(f"{one.host}:{one.port}" for one in found), flush=True)
sys.stdin.read()
"""
_WARM = 0.5
_RATE = 12_000  # requests a second: more than any way answers here


@contextmanager
def cluster() -> Iterator[str]:
    """A mock cluster in a process of its own; yields its address."""
    command = [sys.executable, "-c", _CLUSTER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def make_topic(servers: str) -> str:
    from confluent_kafka import Producer

    topic = f"b{os.urandom(5).hex()}"
    Producer({"bootstrap.servers": servers, "log_level": 0}).list_topics(topic, timeout=10)
    return topic


def drive_server(running: Running, database: str, load: Load, seconds: float) -> Outcome:
    """Requests for a time, after half a second of others."""
    warm = int(_RATE * _WARM)
    requests = make_requests(load, warm + int(_RATE * seconds))
    uvloop.run(drive(running.port, requests[:warm], _WARM))
    before = running.cpu_seconds(), database_cpu_seconds(database)
    outcome = uvloop.run(drive(running.port, requests[warm:], seconds))
    after = running.cpu_seconds(), database_cpu_seconds(database)
    count = outcome.rate * seconds
    own, stored = ((late - early) / count for early, late in zip(before, after, strict=True))
    return Outcome(outcome.rate, outcome.p50, outcome.p99, cpu=own, database_cpu=stored)


def counted(database: str) -> int:
    """Reports that are in the database."""
    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
        row = connection.execute("SELECT coalesce(sum(num_reports), 0) FROM counters").fetchone()
    return int(row[0]) if row else 0


@contextmanager
def consumer(database: str) -> Iterator[psutil.Process]:
    command = [sys.executable, "-m", "rappor_cli", "consume", "--database", database]
    given = os.environ | {"RAPPOR_LOG_LEVEL": "error",
                          "PYTHONPATH": str(Path(__file__).parent.parent)}  # fmt: skip
    process = subprocess.Popen(command, env=given)
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(60)


def await_reader(database: str) -> None:
    """Wait until a consumer has partitions: a group waits some seconds for others first."""
    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
        while not connection.execute("SELECT 1 FROM broker_positions").fetchone():
            time.sleep(0.05)


def drain(database: str) -> tuple[float, float, float]:
    """Reports a second that a consumer counts; us of processor a report: its own, PostgreSQL's."""
    with consumer(database) as process:
        while not (first := counted(database)):
            time.sleep(0.01)
        began, at = time.perf_counter(), first
        before = sum(process.cpu_times()[:2]), database_cpu_seconds(database)
        quiet = 0
        while quiet < 150:
            time.sleep(0.02)
            now = counted(database)
            quiet = 0 if now != at else quiet + 1
            if now != at:
                at, ended = now, time.perf_counter()
                after = sum(process.cpu_times()[:2]), database_cpu_seconds(database)
    many = at - first
    used = [1e6 * (late - early) / many for early, late in zip(before, after, strict=True)]
    return many / (ended - began), used[0], used[1]


def measure(servers: str, load: Load, seconds: float, rounds: int) -> None:
    found: dict[str, list[Outcome]] = {}
    drained: list[tuple[float, float, float]] = []
    kept: list[float] = []
    with databases("postgresql") as make, tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for way in ("direct", "front", "front and consumer"):
                os.environ.pop("RAPPOR_BROKER", None)
                if way != "direct":
                    os.environ["RAPPOR_BROKER"] = servers
                    os.environ["RAPPOR_BROKER_TOPIC"] = make_topic(servers)
                    os.environ["RAPPOR_BROKER_GROUP"] = os.environ["RAPPOR_BROKER_TOPIC"]
                database = make()
                with server("ours", database, Path(folder)) as running:
                    if way == "front and consumer":
                        with consumer(database):
                            await_reader(database)
                            outcome = drive_server(running, database, load, seconds)
                            sent = outcome.rate * seconds * load.reports
                            kept.append(min(1.0, counted(database) / sent))
                    else:
                        outcome = drive_server(running, database, load, seconds)
                    found.setdefault(way, []).append(outcome)
                if way == "front":
                    drained.append(drain(database))
    for way, outcomes in found.items():
        rate, p50, p99, own, stored = (
            statistics.median(getattr(one, name) for one in outcomes)
            for name in ("rate", "p50", "p99", "cpu", "database_cpu")
        )
        print(
            f"{way}: {rate:.0f} requests a second, p50 {1e3 * p50:.0f} ms, p99 {1e3 * p99:.0f} ms; "
            f"processor a request: {1e6 * own:.0f} us of the server, {1e6 * stored:.0f} of "
            "PostgreSQL"
        )
    print(f"at the end of it {100 * statistics.median(kept):.0f} % of the reports were counted")
    rate, own, stored = (statistics.median(column) for column in zip(*drained, strict=True))
    print(
        f"consumer alone: {rate:.0f} reports a second ({rate / load.reports:.0f} batches); "
        f"processor a batch: {load.reports * own:.0f} us of its own, "
        f"{load.reports * stored:.0f} of PostgreSQL"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reports", type=int, default=100, choices=(1, 100))
    parser.add_argument("--form", default="binary", choices=("binary", "json"))
    chosen = parser.parse_args()
    with cluster() as servers:
        measure(servers, Load(chosen.form, chosen.reports), chosen.seconds, chosen.rounds)


if __name__ == "__main__":
    main()
