"""How cost grows with devices, candidates, cells, windows, reports and people, over decades.

Each size runs in a process of its own, as a user runs it: seconds of its processors and its peak
memory. Of reports it is `rappor serve` on SQLite that is measured, of people the decoder service.
The slope is that of the last decade: 1 where ten times as many cost ten times as much.

1. devices: `rappor simulate fleet` of one week, k=128 m=32, decoded.
2. candidates: `rappor decode`, k=128 m=16, ten million reports.
3. cells: `rappor density` of one window of a square, a symbol of 2, m=64.
4. windows: `rappor density` of a series of windows of 64 cells.
5. reports: batches of 100, binary, to a collector that commits each; bytes of its database.
6. people: each with a key and a result; of 200 requests for the list of results, eight at once,
   the time of one by the clock.

Usage: python benchmarks/_growth.py [--axis candidates ...] [--page docs/growth.md]
       [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import http.client
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import _collect_servers
import decode
import density
from _collect_load import Load, make_requests
from _run import Comparison, Used, child, run

RAPPOR = [sys.executable, "-m", "rappor_cli"]
CONNECTIONS = 8
REQUESTS = 200  # of people
ABOUT = """\
# How cost grows

Written by `python benchmarks/_growth.py --page docs/growth.md`, {}, on the machine of
[the benchmarks](benchmarks.md); do not edit it. Seconds are of processors. The slope is that of
the last step: 1 where ten times as many cost ten times as much.

![cost against size, on logarithmic scales](assets/{})

| what grows | seconds of | cost | slope | what gives way first |
|---|---|---|---|---|"""


@dataclass(frozen=True)
class Point:
    """One size of an axis. seconds: of processors.  memory: GiB at most.  note: what else."""

    size: int
    seconds: float
    memory: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class Axis:
    """What grows. sizes: of the full form.  measured: what the seconds are of.

    breaks: what gives way first as it grows, and what to do about it.
    """

    sizes: tuple[int, ...]
    measured: str
    breaks: str
    measure: Callable[[int, Path], Point]


def _devices(size: int, folder: Path) -> Point:
    fleet = [*RAPPOR, "simulate", "fleet", "--devices", size, "--weeks", 1, "--seed", 1]
    return _point(size, child([*fleet, "--workers", 1, "-o", folder]))


def _candidates(size: int, folder: Path) -> Point:
    counts, names = folder / "counts.json", folder / "candidates.txt"
    counts.write_text(decode.counts_of(decode.params_of()).to_json())
    names.write_text("\n".join(decode.strings(size)))
    job = [*RAPPOR, "decode", "--aggregate", counts, "--candidates", names, "-o", folder]
    return _point(size, child(job))


def _cells(size: int, folder: Path) -> Point:
    side = math.isqrt(size)
    return _density(side * side, side, 1, folder)


def _windows(size: int, folder: Path) -> Point:
    return _density(size, 8, size, folder)


def _density(size: int, side: int, windows: int, folder: Path) -> Point:
    files: list[Any] = []
    for number, one in enumerate(density.drawn("symbol-2", side, windows)):
        if number == windows:
            break  # one slot
        path = folder / f"{number}.json"
        path.write_text(one.to_json())
        files += ["--aggregate", path]
    return _point(size, child([*RAPPOR, "density", "places", *files, "-o", folder / "out"]))


def _reports(size: int, folder: Path) -> Point:
    requests = make_requests(Load("binary", 100), max(1, size // 100))
    database = f"sqlite:///{folder}/collector.sqlite"
    with _collect_servers.server("ours", database, folder) as running:
        before = running.cpu_seconds()
        _send_all(running.port, requests)
        used = running.cpu_seconds() - before
        memory = running.process.memory_info().rss / 1024**3
        stored = _collect_servers.database_bytes(database)
    return Point(size, used, memory, f"{stored / 1e6:.1f} MB of database")


def _send_all(port: int, requests: list[bytes]) -> None:
    """Whole requests over `CONNECTIONS` connections; each must be answered by 200."""

    def send(own: list[bytes]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.connect()
        for request in own:
            connection.sock.sendall(request)
            answer = http.client.HTTPResponse(connection.sock, method="POST")
            answer.begin()
            answer.read()
            if answer.status != 200:
                raise SystemExit(f"the collector answered {answer.status}")
        connection.close()

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        list(threads.map(send, (requests[i::CONNECTIONS] for i in range(CONNECTIONS))))


def _people(size: int, folder: Path) -> Point:
    from decoder_service.people.permissions import Role
    from tests.decoder_service.support import running, with_people
    from tests.decoder_service.test_pages import decoded, stored

    files, summary = decoded(folder, 0)
    with running(f"sqlite:///{folder}/decoder.sqlite") as service:
        names = {f"person{n}": Role.ANALYST for n in range(size)}
        crowd = with_people(service.url, service.service, **names)
        for number, name in enumerate(names):
            own = type(crowd)(crowd.url, crowd.service, crowd.keys, {"ana": crowd.people[name]})
            stored(own, number + 1, files, summary)
        clients = [crowd.client(name) for name in list(names)[:REQUESTS]]

        def ask(number: int) -> float:
            start = time.perf_counter()
            clients[number % len(clients)].get("/v1/results").raise_for_status()
            return time.perf_counter() - start

        list(map(ask, range(len(clients))))
        start = time.process_time()
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            walls = sorted(threads.map(ask, range(REQUESTS)))
        used = (time.process_time() - start) / REQUESTS
    note = f"by the clock p50 {statistics.median(walls) * 1e3:.0f} ms, worst {walls[-1] * 1e3:.0f}"
    return Point(size, used, 0.0, note)


def _point(size: int, used: Used) -> Point:
    return Point(size, used.processor, used.peak)


AXES = {
    "devices": Axis(
        (100_000, 1_000_000, 10_000_000, 100_000_000), "a week drawn and decoded",
        "Nothing here: a decoding sees counts, not devices. It is the collector that has to take "
        "their reports, a request each at worst.", _devices,
    ),
    "candidates": Axis(
        (1_000, 10_000, 100_000, 1_000_000), "the whole job, from a file to its files",
        "Memory, and before it what can be told: a longer list needs larger shares. Split the "
        "metric, or find strings with `discover`.", _candidates,
    ),
    "cells": Axis(
        (16, 144, 1_024, 10_000), "one map, with its page and files",
        "Above 2,500 cells changes between windows are not tested, and windows deviate by blocks "
        "of cells; a metric may have a million cells.", _cells,
    ),
    "windows": Axis(
        (1, 10, 100), "a series of maps of 64 cells, with its page and files",
        "Patience: the intervals of each window are sampled by themselves, so a thousand windows "
        "take ten times a hundred. `--each month` makes fewer.", _windows,
    ),
    "reports": Axis(
        (1_000, 10_000, 100_000, 1_000_000), "the collector's process",
        "Commits of one writer: SQLite takes one at a time, so another process does not help; "
        "PostgreSQL with workers does.", _reports,
    ),
    "people": Axis(
        (1, 10, 100, 1_000), "one request for the list of results, service and client",
        "The processor of the one process that serves pages.", _people,
    ),
}  # fmt: skip


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """Each size of each axis in turn; at last the page."""
    found: dict[str, list[Point]] = {}
    for name in chosen.axis:
        axis = AXES[name]
        for size in axis.sizes[: 2 if chosen.small else None]:
            with tempfile.TemporaryDirectory() as folder:
                point = axis.measure(size, Path(folder))
            found.setdefault(name, []).append(point)
            memory = f"{point.memory:.2f} GiB at most" if point.memory else ""
            yield Comparison(
                "", f"{size:,} {name}: {axis.measured}", "s", (point.seconds,),
                note="; ".join(filter(None, (memory, point.note))),
            )  # fmt: skip
    if chosen.page:
        _write(chosen.page, found)


def slope(points: list[Point]) -> float:
    """Of the last step, on logarithmic scales."""
    low, high = points[-2:]
    return math.log(high.seconds / low.seconds) / math.log(high.size / low.size)


def _write(page: Path, found: dict[str, list[Point]]) -> None:
    """The page, and the picture beside it in `assets/`."""
    picture = page.parent / "assets" / "growth.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    _draw(picture, found)
    lines = [ABOUT.format(date.today(), picture.name)]
    for name, points in found.items():
        axis = AXES[name]
        costs = "<br>".join(
            f"{p.size:,}: {p.seconds:.3g} s" + (f", {p.memory:.2f} GiB" if p.memory else "")
            + (f", {p.note}" if p.note else "")
            for p in points
        )  # fmt: skip
        row = (name, axis.measured, costs, f"{slope(points):.2f}", axis.breaks)
        lines.append(f"| {' | '.join(row)} |")
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _draw(picture: Path, found: dict[str, list[Point]]) -> None:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    columns = 3
    rows = -(-len(found) // columns)
    with matplotlib.rc_context({"svg.hashsalt": "growth", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 2.7 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for panel in panels[len(found) :]:
            panel.set_axis_off()
        for panel, (name, points) in zip(panels, found.items(), strict=False):
            sizes = [point.size for point in points]
            panel.loglog(sizes, [point.seconds for point in points], "o-", label="seconds")
            if points[-1].memory:
                panel.loglog(sizes, [point.memory for point in points], "s--", label="GiB")
                panel.legend(fontsize=8)
            low, high = panel.get_ylim()
            panel.set(xlabel=name, ylim=(min(low, high / 10), high))  # a decade at least
            panel.grid(visible=True, alpha=0.3)
        FigureCanvasSVG(figure).print_svg(picture, metadata={"Date": None})


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--axis", nargs="+", choices=list(AXES), default=list(AXES))
    parser.add_argument("--page", type=Path, help="page to write, with assets/ beside it")


if __name__ == "__main__":
    run(__doc__, measure, options)
