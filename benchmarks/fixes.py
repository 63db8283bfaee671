"""What a raw fix costs on a device: time, memory and the size of the state.

The fixes of one device, one every 30 seconds, go through `Client.record_location` over a state on
disk. The alternative in the same run is to append each fix to a file, as a log of places would.

Usage: python benchmarks/fixes.py [--fixes 1000000]
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from pathlib import Path

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


def main() -> None:
    """Record, and print time a fix, growth of memory, size of the state, and the alternative."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fixes", type=int, default=1_000_000)
    total = parser.parse_args().fixes
    draw = random.Random(1)
    places = [(40.5 + draw.random() * 0.45, -74.3 + draw.random() * 0.65) for _ in range(1_000)]
    now = [START]
    with tempfile.TemporaryDirectory() as folder:
        client = Client.open(
            parse_metrics(DECLARED), state_dir=Path(folder) / "state", consent=True,
            collector="http://127.0.0.1:9", clock=lambda: now[0],
        )  # fmt: skip
        costs, memory = [], []
        for part in range(10):
            began = time.process_time()
            for number in range(total // 10):
                now[0] += EVERY
                latitude, longitude = places[number % 1_000]
                client.record_location("places", latitude, longitude)
            costs.append((time.process_time() - began) / (total // 10) * 1e6)
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
            print(f"part {part}: {costs[-1]:.1f} us a fix, peak memory {memory[-1] / 1024:.1f} MB")
        client.close()
        size = sum(path.stat().st_size for path in (Path(folder) / "state").iterdir())
        log = Path(folder) / "log.csv"
        began = time.process_time()
        with log.open("w") as file:
            for number in range(total // 10):
                latitude, longitude = places[number % 1_000]
                print(now[0], latitude, longitude, file=file, flush=True)
        plain = (time.process_time() - began) / (total // 10) * 1e6
    spread = f"({min(costs):.1f} to {max(costs):.1f})"
    print(f"median {sorted(costs)[5]:.1f} us a fix {spread}; appending to a file: {plain:.1f} us")
    grown = (memory[-1] - memory[0]) / 1024
    print(f"memory grew by {grown:.1f} MB after the first tenth; the state: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
