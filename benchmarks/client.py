"""What embedding the client costs an app: import, open, record, memory, size.

Imports are measured in fresh processes, rivals in turn, in processor time (user and system) and in
elapsed time: a bare interpreter that imports mmh3, the SDKs of sentry and OpenTelemetry, and ours,
alone and with an open state. All are compiled before, as pip does. They run in a virtual
environment made for the purpose (needs pip), or in `--rivals PYTHON`, an interpreter that has mmh3,
sentry-sdk and opentelemetry-sdk.

Recording is measured beside the same insert in plain SQLite (WAL, synchronous=NORMAL, one row and
one commit) and beside one fsync, because both drift with the machine.

Usage: python benchmarks/client.py [--processes 20] [--times 1000000] [--rivals PYTHON]
       [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from _run import ROOT, Comparison, child, rival_python, run

from client_sdk import Client, Delivery, load_metrics, parse_metrics
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.metrics_file import MetricsFile

PEERS = ["mmh3", "sentry-sdk", "opentelemetry-sdk"]
RIVALS = ("opentelemetry.sdk.trace", "sentry_sdk", "opentelemetry.sdk.metrics")
NOWHERE = "http://127.0.0.1:9"
METRICS = """
[metrics.homepage]
kind = "string"
description = "Home page of the browser"
owner = "bench@example.org"
expires = 2099-12-31
num_bits = 128
num_hashes = 2
num_cohorts = 32
prob_f = 0.5
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 3
fallback = "other"
max_reports_per_period = {limit}
"""
OPEN = """
from client_sdk import Client
Client.open({metrics!r}, state_dir={state!r}, collector={nowhere!r}, consent=True)
"""


def sizes() -> Iterator[Comparison]:
    """The device's wheels, built; needs pip and the build backend."""
    packaging = ROOT / "packaging"
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder]
        projects = [packaging / f"client{part}" for part in ("", "_location", "_discover")]
        if subprocess.run([*build, *projects], check=False).returncode:
            yield Comparison("", "the device's wheels", note="not run: pip or hatchling is missing")
            return
        for wheel in sorted(Path(folder).glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                texts = [archive.read(name) for name in archive.namelist() if name.endswith(".py")]
            solid = len(zlib.compress(b"".join(texts), 9)) / 1000
            yield Comparison("", wheel.name.partition("-")[0] + ", a wheel", "kB",
                             (wheel.stat().st_size / 1000,),
                             note=f"its sources as one stream {solid:.1f} kB")  # fmt: skip


def imports(python: Path, processes: int, scratch: Path) -> Iterator[Comparison]:
    """Milliseconds over a bare interpreter with mmh3, in fresh processes in turn."""
    (scratch / "metrics.toml").write_text(METRICS.format(limit=1))
    opening = OPEN.format(
        metrics=str(scratch / "metrics.toml"), state=str(scratch / "opened"), nowhere=NOWHERE
    )
    (scratch / "metrics.json").write_text(compiled_text(load_metrics(scratch / "metrics.toml")))
    rivals = {name: f"import {name}" for name in RIVALS}
    programs = {
        "bare": "import mmh3",
        "import client_sdk": "import mmh3, client_sdk",
        "import client_sdk.Client": "from client_sdk import Client",
        "client_sdk, opened (later starts)": opening,
        "the same, metrics compiled": opening.replace("metrics.toml", "metrics.json"),
        **rivals,
    }
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    times: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(processes + 1):  # the first, which may have to compile, is left out
        for name, program in programs.items():
            used = child([python, "-c", program], env=environment)
            if number:
                times[name].append(1e3 * used.processor)
    bare = statistics.median(times["bare"])
    over = {name: tuple(max(t - bare, 0.0) for t in found) for name, found in times.items()}
    for name in programs:
        if name not in ("bare", *rivals):
            for rival in RIVALS if name == "client_sdk, opened (later starts)" else RIVALS[:1]:
                yield Comparison(
                    "", f"{name}, over an interpreter with mmh3 ({bare:.0f} ms)", "ms", over[name],
                    f"import {rival}", over[rival],
                )  # fmt: skip


def records(scratch: Path, limit: int, rounds: int) -> Iterator[Comparison]:
    """One durable record at a time, beside a plain insert and an fsync in the same minute."""
    metrics = parse_metrics(METRICS.format(limit=limit))
    clock = Clock()
    client = open_client(metrics, scratch / f"record{limit}", clock)
    database = plain_sqlite(scratch / f"plain{limit}.sqlite")

    def record() -> None:
        if clock.records % limit == 0:
            clock.now += 86_400
        clock.records += 1
        assert client.record("homepage", "example.org")

    row = 1, 1, 20_000, bytes(16)
    insert = "INSERT INTO queue (source, entry, day, bits) VALUES (?, ?, ?, ?)"
    rivals = {"record": record, "plain insert": lambda: database.execute(insert, row)}
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, action in rivals.items():
            times[name].extend(microseconds(action) for _ in range(1_000))
    client.close()
    database.close()
    cuts = {name: statistics.quantiles(found, n=1000) for name, found in times.items()}
    for name, place in (("p50", 499), ("p99", 989), ("p99.9", 998)):
        yield Comparison(
            "", f"record, durable, {limit:,} a period, {name} by the clock", "us",
            (cuts["record"][place],), "one row and one commit in plain SQLite",
            (cuts["plain insert"][place],), note=f"one fsync: {fsync_ms(scratch):.2f} ms",
        )  # fmt: skip


class Clock:
    """Moves to the next day when a period has all its reports."""

    def __init__(self) -> None:
        self.now = 1_795_262_400.0
        self.records = 0

    def __call__(self) -> float:
        return self.now


def open_client(metrics: MetricsFile, state_dir: Path, clock: Clock) -> Client:
    client = Client.open(
        metrics,
        state_dir=state_dir,
        collector=NOWHERE,
        consent=True,
        delivery=Delivery(mean_delay=86_400),
        clock=clock,
    )
    client.record("homepage", "example.org")  # memoised once, with an fsync
    return client


def plain_sqlite(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL").fetchall()
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute(
        "CREATE TABLE queue (id INTEGER PRIMARY KEY, source, entry, day, bits BLOB NOT NULL)"
    )
    return database


def microseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    action()
    return (time.perf_counter_ns() - start) / 1e3


def fsync_ms(scratch: Path) -> float:
    with (scratch / "fsync").open("wb") as file:

        def one() -> None:
            file.write(bytes(100))
            file.flush()
            os.fsync(file.fileno())

        return statistics.median(microseconds(one) for _ in range(50)) / 1e3


def memory(scratch: Path, times: int) -> Comparison:
    """Resident memory and the state file over many records, with the queue at its bound."""
    metrics = parse_metrics(METRICS.format(limit=10_000))
    clock, peaks, steps = Clock(), [], 5
    client = open_client(metrics, scratch / "memory", clock)
    for _ in range(steps):
        for _ in range(times // steps):
            if clock.records % 10_000 == 0:
                clock.now += 86_400
            clock.records += 1
            client.record("homepage", "example.org")
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    files = sum(path.stat().st_size for path in (scratch / "memory").iterdir()) / 1e6
    client.close()
    return Comparison(
        "", f"growth of memory from {times // steps:,} to {times:,} records", "MB",
        (peaks[-1] - peaks[0],), note=f"{peaks[-1]:.1f} MB resident, {files:.1f} MB of files",
    )  # fmt: skip


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """Memory first: peaks of what comes before would hide it."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        yield memory(scratch, chosen.times // (10 if chosen.small else 1))
        for limit in (100, 10_000):
            yield from records(scratch, limit, 3 if chosen.small else 20)
        if not chosen.small:
            yield from sizes()
            python = rival_python(chosen.rivals, scratch, PEERS)
            yield from imports(python, chosen.processes, scratch)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--times", type=int, default=1_000_000, help="records, for memory")
    parser.add_argument("--rivals", type=Path, help="a Python with them, made where not given")


if __name__ == "__main__":
    run(__doc__, measure, options)
