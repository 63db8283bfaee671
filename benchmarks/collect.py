"""Requests a second that a collector answers after the commit, against the plain way to do it.

Every server runs alone in a process of its own on 127.0.0.1; one client process keeps 32
connections busy with batches that were made before the clock started. Rivals:

- plain: FastAPI, a pydantic model, SQLAlchemy, a row a report and a transaction a request;
- bare: an ASGI function with the same strict decoder, writer and counters, and nothing else.

Usage: python benchmarks/collect.py [--seconds 3] [--rounds 3] [--databases sqlite,postgresql]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop
from _collect_load import Load, Outcome, drive, make_requests
from _collect_servers import database_bytes, database_cpu_seconds, databases, fsync_ms, server

WARM_SECONDS = 0.5
ENOUGH = {1: 24_000, 100: 12_000}  # requests a second: more than any server answers here


def measure(kind: str, database: str, load: Load, seconds: float, workers: int = 1) -> Outcome:
    """One server, one load, warmed for half a second."""
    with (
        tempfile.TemporaryDirectory() as folder,
        server(kind, database, Path(folder), workers) as running,
    ):
        warm = int(ENOUGH[load.reports] * WARM_SECONDS)
        requests = make_requests(load, warm + int(ENOUGH[load.reports] * seconds))
        uvloop.run(drive(running.port, requests[:warm], WARM_SECONDS))
        stored = database_bytes(database)
        before = running.cpu_seconds(), database_cpu_seconds(database), time.process_time()
        outcome = uvloop.run(drive(running.port, requests[warm:], seconds))
        after = running.cpu_seconds(), database_cpu_seconds(database), time.process_time()
        count = outcome.rate * seconds
        cpu = [(late - early) / count for early, late in zip(before, after, strict=True)]
        grown = max(0, database_bytes(database) - stored) / (count * load.reports)
        return replace(outcome, stored=grown, cpu=cpu[0], database_cpu=cpu[1], load_cpu=cpu[2])


Server = tuple[str, str, int]  # name, form, workers


def compare(kind: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All servers on one kind of database; in each round they take turns."""
    rows = []
    servers: list[Server] = [("plain", "json", 1), ("ours", "json", 1), ("ours", "binary", 1)]
    servers += [("bare", "binary", 1)]
    servers += [("ours", "binary", 2)] if kind == "postgresql" else []
    with databases(kind) as make:
        for reports in (100, 1):
            rounds: dict[Server, list[Outcome]] = {server: [] for server in servers}
            for _ in range(arguments.rounds):
                for server in servers:
                    name, form, workers = server
                    load = Load(form, reports)
                    rounds[server].append(measure(name, make(), load, arguments.seconds, workers))
            for (name, form, workers), outcomes in rounds.items():
                rows.append(_row(kind, name, Load(form, reports), workers, outcomes))
                print(_line(rows[-1]), flush=True)
    return rows


def _row(kind: str, name: str, load: Load, workers: int, outcomes: list[Outcome]) -> dict[str, Any]:
    rates = [outcome.rate for outcome in outcomes]
    return {
        "database": kind,
        "server": name,
        "form": load.form,
        "reports": load.reports,
        "workers": workers,
        "rates": rates,
        "rate": statistics.median(rates),
        "spread": [min(rates), max(rates)],
        "p50_ms": 1000 * statistics.median(outcome.p50 for outcome in outcomes),
        "p99_ms": 1000 * statistics.median(outcome.p99 for outcome in outcomes),
        "cpus": [outcome.cpu for outcome in outcomes],
        "cpu_us": 1e6 * statistics.median(outcome.cpu for outcome in outcomes),
        "database_cpu_us": 1e6 * statistics.median(outcome.database_cpu for outcome in outcomes),
        "load_cpu_us": 1e6 * statistics.median(outcome.load_cpu for outcome in outcomes),
        "stored": statistics.median(outcome.stored for outcome in outcomes),
    }


def _line(row: dict[str, Any]) -> str:
    low, high = row["spread"]
    return (
        f"{row['database']:<11}{row['server']:<6} {row['form']:<7}{row['reports']:>4} a request  "
        f"{row['workers']} worker  {row['rate']:>7.0f}/s ({low:.0f} to {high:.0f})  "
        f"p50 {row['p50_ms']:6.1f} ms  p99 {row['p99_ms']:6.1f} ms  "
        f"{row['stored']:6.1f} B a report  "
        f"CPU a request, us: {row['cpu_us']:.0f} server, {row['database_cpu_us']:.0f} database, "
        f"{row['load_cpu_us']:.0f} load"
    )


def ratios(rows: list[dict[str, Any]]) -> Iterator[str]:
    """What the project holds itself to: ours against plain, and the distance to bare."""
    for row in rows:
        if row["server"] != "ours" or row["workers"] != 1:
            continue
        same = {
            other["server"]: other
            for other in rows
            if (other["database"], other["reports"]) == (row["database"], row["reports"])
            and other["server"] != "ours"
        }
        plain, bare = same["plain"], same["bare"]
        line = (
            f"{row['database']} {row['form']} {row['reports']} a request: "
            f"{_times(row['rates'], plain['rates'])} x plain in requests a second, "
            f"{_times(plain['cpus'], row['cpus'])} x in requests a second of CPU"
        )
        if row["form"] == "binary":
            line += f", {_times(row['rates'], bare['rates'])} of bare ASGI"
        yield line


def _times(ours: list[float], theirs: list[float]) -> str:
    """The ratio of each round: median, least and most."""
    found = sorted(one / other for one, other in zip(ours, theirs, strict=True))
    return f"{statistics.median(found):.2g} ({found[0]:.2g} to {found[-1]:.2g})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--databases", default="sqlite,postgresql")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for kind in arguments.databases.split(","):
        with tempfile.TemporaryDirectory() as folder:
            print(f"{kind}: one fsync of 4 kB takes {fsync_ms(Path(folder)):.2f} ms", flush=True)
        rows += compare(kind, arguments)
    for line in ratios(rows):
        print(line)
    if arguments.output:
        arguments.output.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
