"""What all benchmarks share: processor time, rounds that alternate, the command line, the data."""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import resource
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from rappor_cli.bench_records import Comparison, line

ROOT = Path(__file__).parents[1]
DATA = ROOT / ".." / "shared" / "data"
PICKUPS = DATA / "nyc_pickups_h3res8.csv.gz"
PICKUPS_ARE = (
    "nyc_pickups_h3res8.csv.gz (cell,lat,lon,count): taxi-app pickups of April 2014, of the NYC "
    "Taxi and Limousine Commission, by H3 cell of resolution 8"
)


class Used(NamedTuple):
    """By a process: seconds of the clock and of the processors, GiB of its peak memory."""

    clock: float
    processor: float
    peak: float


def child(command: Sequence[Any], **options: Any) -> Used:
    """A command in a process of its own. Ends the benchmark where it fails."""
    start = time.perf_counter()
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, **options)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed: {process.returncode}")
    clock, processor = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
    return Used(clock, processor, usage.ru_maxrss / 1024**2)


def spent() -> float:
    """Seconds of the processors, of this process and of its children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def seconds(action: Callable[[], Any]) -> float:
    """Seconds of the processors that an action takes."""
    start = spent()
    made = action()
    took = spent() - start
    _check_is_done(made)
    return took


def _check_is_done(made: Any) -> None:
    """Raises TypeError for an iterator: the action that returned it has done nothing yet."""
    if isinstance(made, Iterator):
        raise TypeError(f"{made!r} is an iterator: unpack it, or nothing is measured")


def alternate(
    actions: Mapping[str, Callable[[], Any]], rounds: int, repeats: Mapping[str, int] | None = None
) -> dict[str, tuple[float, ...]]:
    """Seconds of each action, a round of all after the other; the first round is not counted.

    repeats: how often an action is run in a round; its figure is that of once.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(rounds + 1):
        for name, action in actions.items():
            count = (repeats or {}).get(name, 1)
            start = spent()
            for _ in range(count):
                made = action()
            took = (spent() - start) / count
            _check_is_done(made)
            if number:
                times[name].append(took)
    return {name: tuple(found) for name, found in times.items()}


def rival_python(given: Path | None, scratch: Path, packages: Sequence[str]) -> Path:
    """The Python of an environment with rivals: the one that was given, or a new one."""
    if given is not None:
        return given
    venv.create(scratch / "rivals", with_pip=True)
    python = scratch / "rivals" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def missing(name: str, path: Path, what: str) -> Comparison | None:
    """A line that says what is not there, and what it is; None where the file is."""
    if path.exists():
        return None
    return Comparison("", name, note=f"not run: needs {what}; give its place with --data")


def pickups(path: Path) -> Iterator[tuple[str, float, float, float]]:
    """Cell, latitude, longitude and count of each row of the pickups."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield row["cell"], float(row["lat"]), float(row["lon"]), float(row["count"])


def scaled(values: Iterable[float], factor: float) -> tuple[float, ...]:
    """In another unit."""
    return tuple(factor * value for value in values)


def run(
    doc: str | None,
    measure: Callable[[argparse.Namespace], Iterator[Comparison]],
    options: Callable[[argparse.ArgumentParser], None] = lambda _: None,
) -> None:
    """Print each comparison as it is made; with --records FILE also as lines of JSON."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=Path, help="file to which lines of JSON are added")
    parser.add_argument("--small", action="store_true", help="a small form, in about a minute")
    options(parser)
    chosen = parser.parse_args()
    part = Path(sys.argv[0]).stem
    for one in measure(chosen):
        print(line(one), flush=True)
        if chosen.records:
            with chosen.records.open("a") as file:
                file.write(json.dumps(asdict(replace(one, part=part))) + "\n")
