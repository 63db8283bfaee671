"""The cost of embedding the client in an app: import, open, record, a raw fix, and size.

Recording is compared with the same insert in plain SQLite (WAL, synchronous=NORMAL, one row and one
commit); a fix, with appending a line to a file; and the import, with those of OpenTelemetry and
Sentry, each in a fresh process."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from time import process_time

import pytest

from benchmarks.conftest import OURS, Comparison, child
from client_sdk import Client, Delivery, parse_metrics

ROOT = Path(__file__).parents[1]
NOWHERE = "http://127.0.0.1:9"
START = 1_795_262_400.0
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
PLACES = """
[metrics.places]
kind = "location"
description = "The usual place of each part of a day"
owner = "bench@example.org"
expires = 2099-12-31
grid = "quadkey"
box = [40.5, -74.3, 40.95, -73.65]
levels = [15]
slots = ["night 22-6", "day 6-22"]
mode = "memo"
num_bits = 32
num_cohorts = 64
mechanism = "l-osue"
epsilon_infinity = 2.0
epsilon_one = 1.0
max_memoized_values = 3
"""
SQLITE, LINE = "one row and one commit in plain SQLite", "a line appended to a file"
CUTS = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
OPENED = f"""
from client_sdk import Client
Client.open({{metrics!r}}, state_dir={{state!r}}, collector={NOWHERE!r}, consent=True)
"""
RIVALS = ("opentelemetry.sdk.trace", "opentelemetry.sdk.metrics", "sentry_sdk")


def plain_sqlite(path: Path) -> Callable[[], object]:
    """Return a function that inserts one row and commits it."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL").fetchall()
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE TABLE queue (id INTEGER PRIMARY KEY, source, entry, day, bits)")
    insert = "INSERT INTO queue (source, entry, day, bits) VALUES (?, ?, ?, ?)"
    return lambda: database.execute(insert, (1, 1, 20_000, bytes(16)))


@pytest.mark.parametrize("limit", [100, 10_000])
@pytest.mark.parametrize("who", [OURS, SQLITE])
def bench_record(comparison: Comparison, tmp_path: Path, limit: int, who: str) -> None:
    """Measure a durable record; the clock advances a day when a period has all its reports."""
    numbers, clock = count(), [START]
    client = Client.open(
        parse_metrics(METRICS.format(limit=limit)), state_dir=tmp_path / "state", consent=True,
        collector=NOWHERE, delivery=Delivery(mean_delay=86_400), clock=lambda: clock[0],
    )  # fmt: skip

    def record() -> None:
        if next(numbers) % limit == 0:
            clock[0] += 86_400
        client.record("homepage", "example.org")

    comparison.name(f"record, durable, {limit:,} a period", who)
    action = record if who == OURS else plain_sqlite(tmp_path / "plain.sqlite")
    comparison.times(action, rounds=20_000)
    comparison.cuts(CUTS)
    client.close()


@pytest.mark.benchmark(timer=process_time)
@pytest.mark.parametrize("who", [OURS, LINE])
def bench_fix(comparison: Comparison, tmp_path: Path, who: str) -> None:
    """Measure the record of a raw fix in a state on disk; fixes are 30 seconds apart."""
    draw, clock = Random(1), [START]
    places = [(40.5 + draw.random() * 0.45, -74.3 + draw.random() * 0.65) for _ in range(1_000)]
    numbers = count()
    client = Client.open(
        parse_metrics(PLACES), state_dir=tmp_path / "state", consent=True, collector=NOWHERE,
        clock=lambda: clock[0],
    )  # fmt: skip
    with (tmp_path / "log.csv").open("w") as log:

        def fix() -> None:
            clock[0] += 30
            client.record_location("places", *places[next(numbers) % 1_000])

        def append() -> None:
            print(clock[0], *places[next(numbers) % 1_000], file=log, flush=True)

        comparison.name("a raw fix taken in", who)
        comparison.times(fix if who == OURS else append, rounds=10, iterations=20_000)
    client.close()


@pytest.mark.parametrize("what", ["import client_sdk", "import and open"])
@pytest.mark.parametrize("who", [OURS, *(f"import {name}" for name in RIVALS)])
def bench_import(comparison: Comparison, tmp_path: Path, what: str, who: str) -> None:
    """Measure a fresh process's processor time above a bare interpreter with mmh3."""
    if who == "import sentry_sdk":
        pytest.importorskip("sentry_sdk")
    metrics, state = tmp_path / "metrics.toml", tmp_path / "state"
    metrics.write_text(METRICS.format(limit=1))
    ours = "import client_sdk, mmh3"
    if what != "import client_sdk":
        ours = OPENED.format(metrics=str(metrics), state=str(state))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def spent(program: str) -> float:
        return 1e3 * child([sys.executable, "-c", program], env=environment).processor

    program = ours if who == OURS else who
    spent(program)  # Compiles the modules first
    comparison.name(f"{what}, over an interpreter with mmh3", who)
    comparison.values(lambda _: max(spent(program) - spent("import mmh3"), 0.0), 15, "ms")


def bench_wheel(comparison: Comparison, tmp_path: Path) -> None:
    """Measure the size of the device's wheel."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", tmp_path, ROOT / "packaging" / "client"], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    comparison.name("rappor_telemetry_client, a wheel of plain sources", OURS)
    comparison.values(lambda _: wheel.stat().st_size / 1e3, 1, "kB")
