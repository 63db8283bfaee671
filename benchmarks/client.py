"""What embedding the client costs an app: import, open, record, memory, size.

Imports are measured in fresh processes, rivals in turn, in processor time (user and system) and in
elapsed time: a bare interpreter that imports mmh3, the SDKs of sentry and OpenTelemetry, and ours,
alone and with an open state. All are compiled before, as pip does. They run in a virtual
environment made for the purpose (needs pip), or in `--peers PYTHON`, an interpreter that has mmh3,
sentry-sdk and opentelemetry-sdk.

Recording is measured beside the same insert in plain SQLite (WAL, synchronous=NORMAL, one row and
one commit) and beside one fsync, because both drift with the machine.

Usage: python benchmarks/client.py [--processes 20] [--records 1000000] [--peers PYTHON]
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
import venv
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from client_sdk import Client, Delivery, load_metrics, parse_metrics
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.loading import MetricsFile

ROOT = Path(__file__).parents[1]
PEERS = ["mmh3", "sentry-sdk", "opentelemetry-sdk"]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--peers", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        report_size()
        report_imports(options.peers or make_peers(scratch), options.processes, scratch)
        for limit in (100, 10_000):
            report_records(scratch, limit)
        report_memory(scratch, options.records)


def report_size() -> None:
    """The device's wheels, built (bar: 60 kB); needs pip and the build backend."""
    packaging = ROOT / "packaging"
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder]
        projects = [packaging / f"client{part}" for part in ("", "_location", "_discover")]
        subprocess.run([*build, *projects], check=True)
        for wheel in sorted(Path(folder).glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                texts = [archive.read(name) for name in archive.namelist() if name.endswith(".py")]
            solid = len(zlib.compress(b"".join(texts), 9)) / 1000
            size = wheel.stat().st_size / 1000
            print(f"{wheel.name}: {size:.1f} kB; its sources as one stream {solid:.1f} (bar: 60)")


def make_peers(scratch: Path) -> Path:
    venv.create(scratch / "peers", with_pip=True)
    python = scratch / "peers" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return python


def report_imports(python: Path, processes: int, scratch: Path) -> None:
    """Milliseconds over a bare interpreter with mmh3; medians of fresh processes in turn."""
    (scratch / "metrics.toml").write_text(METRICS.format(limit=1))
    opening = OPEN.format(
        metrics=str(scratch / "metrics.toml"), state=str(scratch / "opened"), nowhere=NOWHERE
    )
    (scratch / "metrics.json").write_text(compiled_text(load_metrics(scratch / "metrics.toml")))
    programs = {
        "mmh3": "import mmh3",
        "client_sdk": "import mmh3, client_sdk",
        "client_sdk.Client": "from client_sdk import Client",
        "client_sdk, opened (later starts)": opening,
        "the same, metrics compiled": opening.replace("metrics.toml", "metrics.json"),
        "sentry_sdk": "import sentry_sdk",
        "opentelemetry.sdk.trace": "import opentelemetry.sdk.trace",
        "opentelemetry.sdk.metrics": "import opentelemetry.sdk.metrics",
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
    for _ in range(processes + 1):  # the first, which may have to compile, is left out
        for name, program in programs.items():
            times[name].append(milliseconds(python, program))
    bare = [statistics.median(column) for column in zip(*times["mmh3"][1:], strict=True)]
    print(
        f"import, ms over a bare interpreter with mmh3 ({bare[0]:.1f} of processor time, "
        f"{bare[1]:.1f} elapsed), {processes} processes:"
    )
    for name, measured in times.items():
        columns = zip(zip(*measured[1:], strict=True), bare, strict=True)
        cuts = [[cut - least for cut in statistics.quantiles(c, n=4)] for c, least in columns]
        texts = [f"{middle:6.1f} ({low:.1f} to {high:.1f})" for low, middle, high in cuts]
        print(f"  {name:36} processor {texts[0]:24} elapsed {texts[1]}")


def milliseconds(python: Path, program: str) -> tuple[float, float]:
    """Processor time and elapsed time of one fresh process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    process = os.posix_spawn(python, [python, "-c", program], environment)
    _, status, usage = os.wait4(process, 0)
    elapsed = time.perf_counter() - start
    if status != 0:
        raise SystemExit(f"{python} -c {program!r} failed with status {status}")
    return (usage.ru_utime + usage.ru_stime) * 1e3, elapsed * 1e3


def report_records(scratch: Path, limit: int) -> None:
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
    for _ in range(20):
        for name, action in rivals.items():
            times[name].extend(microseconds(action) for _ in range(1_000))
    client.close()
    database.close()
    print(f"record, {limit} a period (one fsync: {fsync_ms(scratch):.2f} ms), us:")
    for name, measured in times.items():
        cuts = statistics.quantiles(measured, n=1000)
        print(f"  {name:14} p50 {cuts[499]:6.1f}  p99 {cuts[989]:6.1f}  p99.9 {cuts[998]:7.1f}")


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


def report_memory(scratch: Path, records: int) -> None:
    """Resident memory and the state file over many records, with the queue at its bound."""
    metrics = parse_metrics(METRICS.format(limit=10_000))
    clock = Clock()
    client = open_client(metrics, scratch / "memory", clock)
    print(f"memory over {records:,} records:")
    steps = 5
    for step in range(steps):
        for _ in range(records // steps):
            if clock.records % 10_000 == 0:
                clock.now += 86_400
            clock.records += 1
            client.record("homepage", "example.org")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        files = sum(path.stat().st_size for path in (scratch / "memory").iterdir()) / 1e6
        number = (step + 1) * records // steps
        print(f"  after {number:>9,}: peak {peak:.1f} MB resident, {files:.1f} MB of files")
    client.close()


if __name__ == "__main__":
    sys.exit(main())
