"""What a raw fix costs on a device: time, memory and the size of the state.

The fixes of one device, one every 30 seconds, go through `Client.record_location` over a state on
disk. The alternative in the same run is to append each fix to a file, as a log of places would.

Usage: python benchmarks/fixes.py [--fixes 1000000] [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

from _run import Comparison, run, scaled, seconds

from client_sdk import Client, parse_metrics

DECLARED = """
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
START = 1_790_000_000.0
EVERY = 30.0


PARTS = 10


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """Time a fix beside a line of a file, growth of memory, size of the state."""
    each = chosen.fixes // (10 if chosen.small else 1) // PARTS
    draw = random.Random(1)
    places = [(40.5 + draw.random() * 0.45, -74.3 + draw.random() * 0.65) for _ in range(1_000)]
    now, ours, theirs, memory = [START], [], [], []
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log.csv").open("w") as log:
        client = Client.open(
            parse_metrics(DECLARED), state_dir=Path(folder) / "state", consent=True,
            collector="http://127.0.0.1:9", clock=lambda: now[0],
        )  # fmt: skip

        def record() -> None:
            for number in range(each):
                now[0] += EVERY
                client.record_location("places", *places[number % 1_000])

        def append() -> None:
            for number in range(each):
                print(now[0], *places[number % 1_000], file=log, flush=True)

        for _ in range(PARTS):
            ours.append(seconds(record) / each)
            theirs.append(seconds(append) / each)
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        client.close()
        size = sum(path.stat().st_size for path in (Path(folder) / "state").iterdir())
    yield Comparison(
        "", f"a fix taken in, of {PARTS * each:,}", "us", scaled(ours, 1e6),
        "a line appended to a file", scaled(theirs, 1e6),
    )  # fmt: skip
    yield Comparison(
        "", "growth of memory after the first tenth", "MB", (memory[-1] - memory[0],),
        note=f"{memory[-1]:.1f} MB at the end; the state is {size / 1e6:.2f} MB of files",
    )  # fmt: skip


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fixes", type=int, default=1_000_000)


if __name__ == "__main__":
    run(__doc__, measure, options)
