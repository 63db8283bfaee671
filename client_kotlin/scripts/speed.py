"""Compare what a value costs in the three clients, in turns on one machine, and show the sizes.

Run `python client_kotlin/scripts/speed.py` after `make js-built kotlin-built`. Each figure is a
median of batches, in microseconds; a durable record is kept when it is acknowledged.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from client_sdk import Client, Delivery, Encoder, parse_metrics
from tests.metric_texts import declaration

ROOT = Path(__file__).parents[2]
ROUNDS = 3
BUILD = ROOT / "build" / "kotlin"
STDLIB = ROOT / "client_kotlin/node_modules/kotlin-compiler/lib/kotlin-stdlib.jar"
WARM_UP = 4  # the first batches, one part in so many, are left out


def python_figures() -> dict[str, float]:
    """Measure the Python client in this process."""
    text = declaration(
        "homepage", "string", num_bits=128, num_hashes=2, num_cohorts=32, prob_f=0.5, prob_p=0.5,
        prob_q=0.75, max_memoized_values=3, fallback="other", max_reports_per_period=10_000,
    )  # fmt: skip
    file, numbers = parse_metrics(text), count()
    device = Encoder(file.metrics, os.urandom(32)).metric("homepage")

    def encode(value: str) -> None:
        device.digest(bits := device.value_bits(value))
        device.report_bits(bits)

    figures = {
        "fresh": median(500, lambda: encode(f"https://example.org/page/{next(numbers)}")),
        "known": median(2_500, lambda: encode("https://example.org/")),
    }
    with TemporaryDirectory() as folder:
        client = Client.open(
            file, state_dir=folder, collector="http://127.0.0.1:9", consent=True,
            delivery=Delivery(mean_delay=3600),
        )  # fmt: skip
        figures["durable"] = median(50, lambda: client.record("homepage", "value"))
        client.close()
    return figures


def median(number: int, act: Callable[[], object], batches: int = 40) -> float:
    """Return the median over batches of the microseconds of one act."""
    times = []
    for _ in range(batches):
        begun = perf_counter()
        for _ in range(number):
            act()
        times.append((perf_counter() - begun) * 1e6 / number)
    return sorted(times[batches // WARM_UP :])[(batches - batches // WARM_UP) // 2]


def measured(words: list[str]) -> dict[str, float]:
    """Run a program from the root of the repository; return what it printed last."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "DO_NOT_TRACK": ""}
    done = subprocess.run(  # noqa: S603
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Print a row for each client and the size of the jar."""
    path = f"{BUILD / 'classes'}:{BUILD / 'tests'}:{STDLIB}"
    programs = {
        "Kotlin": ["java", f"-Drappor.root={ROOT}", "-cp", path, "rappor.telemetry.SpeedKt"],
        "TypeScript (Node)": ["node", str(Path(__file__).with_name("speed.mjs"))],
        "Python": [sys.executable, __file__, "python"],
    }
    rows = {name: [measured(words) for _ in range(ROUNDS)] for name, words in programs.items()}
    print("| client | new value | known value | durable record |")
    print("|---|---|---|---|")
    for name, figures in rows.items():
        best = [min(row[key] for row in figures) for key in ("fresh", "known", "durable")]
        print(f"| {name} | {best[0]:.1f} us | {best[1]:.1f} us | {best[2]:.0f} us |")
    call = min(row["call"] for row in rows["Kotlin"])
    print(f"Kotlin, the thread that calls record: {call:.1f} us")
    size = (BUILD / "rappor-telemetry-client.jar").stat().st_size
    print(f"jar: {size / 1000:.0f} kB; Kotlin's library {STDLIB.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    print(json.dumps(python_figures())) if "python" in sys.argv else main()
