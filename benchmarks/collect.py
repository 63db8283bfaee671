"""Requests a second that a collector answers after the commit, against the plain way to do it.

Every server runs alone in a process of its own on 127.0.0.1; one client process keeps 32,
or 8, connections busy with batches that were made before the clock started. Rivals:

- plain: FastAPI, a pydantic model, SQLAlchemy, a row a report and a transaction a request;
- bare: an ASGI function with the same strict decoder, writer and counters, and nothing else.

Usage: python benchmarks/collect.py [--seconds 3] [--rounds 3] [--databases sqlite,postgresql]
       [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import uvloop
from _collect_load import CONNECTIONS, Load, Outcome, drive, make_requests
from _collect_servers import database_bytes, database_cpu_seconds, databases, fsync_ms, server
from _run import Comparison, run, scaled

WARM_SECONDS = 0.5
ENOUGH = {1: 24_000, 100: 12_000}  # requests a second: more than any server answers here
LOADS = ((100, CONNECTIONS), (1, CONNECTIONS), (100, 8))  # reports a request, connections


def serve(
    kind: str, database: str, load: Load, seconds: float, workers: int, connections: int
) -> Outcome:
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
        outcome = uvloop.run(drive(running.port, requests[warm:], seconds, connections))
        after = running.cpu_seconds(), database_cpu_seconds(database), time.process_time()
        count = outcome.rate * seconds
        cpu = [(late - early) / count for early, late in zip(before, after, strict=True)]
        grown = max(0, database_bytes(database) - stored) / (count * load.reports)
        return replace(outcome, stored=grown, cpu=cpu[0], database_cpu=cpu[1], load_cpu=cpu[2])


Server = tuple[str, str, int]  # name, form, workers
Rounds = dict[Server, list[Outcome]]


def compare(kind: str, seconds: float, rounds: int) -> Iterator[Comparison]:
    """All servers on one kind of database; in each round they take turns."""
    servers: list[Server] = [("plain", "json", 1), ("ours", "json", 1), ("ours", "binary", 1)]
    servers += [("bare", "binary", 1)]
    servers += [("ours", "binary", 2)] if kind == "postgresql" else []
    with databases(kind) as make:
        for reports, connections in LOADS:
            found: Rounds = {server: [] for server in servers}
            for _ in range(rounds):
                for server in servers:
                    name, form, workers = server
                    load = Load(form, reports)
                    found[server].append(serve(name, make(), load, seconds, workers, connections))
            where = f"{kind}, {reports} a request, {connections} connections"
            yield from comparisons_of(where, reports, found)


def comparisons_of(where: str, reports: int, found: Rounds) -> Iterator[Comparison]:
    """Ours against plain in requests and in processor time; the distance to bare; two workers."""
    one, plain, bare = ("ours", "binary", 1), ("plain", "json", 1), ("bare", "binary", 1)
    target = 5.0 if reports == 100 else 3.0
    for form in (("ours", "json", 1), one):
        beside = f"plain FastAPI and a row a report ({described(found[plain])})"
        yield Comparison(
            "", f"requests a second by the clock, {where}, {form[1]}", "/s",
            each(found[form], lambda o: o.rate), beside, each(found[plain], lambda o: o.rate),
            more=True, target=target, note=described(found[form]),
        )  # fmt: skip
        yield Comparison(
            "", f"processor time of a request, {where}, {form[1]}", "us",
            scaled(each(found[form], cpu), 1e6), "plain FastAPI and a row a report",
            scaled(each(found[plain], cpu), 1e6),
        )  # fmt: skip
    yield Comparison(
        "", f"requests a second by the clock, {where}, binary", "/s",
        each(found[one], lambda o: o.rate), f"bare ASGI, binary ({described(found[bare])})",
        each(found[bare], lambda o: o.rate), more=True,
    )  # fmt: skip
    two = found.get(("ours", "binary", 2))
    if two:
        yield Comparison(
            "", f"requests a second by the clock, {where}, binary, two workers", "/s",
            each(two, lambda o: o.rate), "one worker", each(found[one], lambda o: o.rate),
            more=True, note=described(two),
        )  # fmt: skip


def each(outcomes: list[Outcome], figure: Callable[[Outcome], float]) -> tuple[float, ...]:
    return tuple(map(figure, outcomes))


def cpu(outcome: Outcome) -> float:
    """Seconds of server and database for a request."""
    return outcome.cpu + outcome.database_cpu


def described(outcomes: list[Outcome]) -> str:
    """Medians of what stands beside the rate."""
    p50, p99, own, database, load = (
        statistics.median(each(outcomes, figure))
        for figure in (lambda o: 1e3 * o.p50, lambda o: 1e3 * o.p99, lambda o: 1e6 * o.cpu,
                       lambda o: 1e6 * o.database_cpu, lambda o: 1e6 * o.load_cpu)
    )  # fmt: skip
    stored = statistics.median(each(outcomes, lambda o: o.stored))
    return (
        f"p50 {p50:.0f} ms, p99 {p99:.0f} ms; processor, us: {own:.0f} server, {database:.0f} "
        f"database, {load:.0f} load; {stored:.1f} B a report"
    )


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """One database after the other."""
    rounds, seconds = (1, 1.0) if chosen.small else (chosen.rounds, chosen.seconds)
    for kind in chosen.databases.split(",")[: 1 if chosen.small else None]:
        with tempfile.TemporaryDirectory() as folder:
            yield Comparison("", f"{kind}: one fsync of 4 kB, by the clock", "ms",
                             (fsync_ms(Path(folder)),))  # fmt: skip
        yield from compare(kind, seconds, rounds)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--databases", default="sqlite,postgresql")


if __name__ == "__main__":
    run(__doc__, measure, options)
