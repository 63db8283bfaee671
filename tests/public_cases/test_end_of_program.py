"""A program that ends without `close()`, at any moment of the sending thread's life."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from client_sdk.testing import MemoryCollector
from rappor_core.metrics.file import MetricsFile

APP = '''
import sys, time
from client_sdk import Client, Delivery, load_metrics

class Scratch:
    """Imports when it goes, as objects of many libraries do."""

    def __del__(self):
        import getpass

scratch = Scratch()
unclosed = open(__file__)  # of which a warning is shown at the end
_, metrics, state, collector, pause, end = sys.argv
client = Client.open(load_metrics(metrics), state_dir=state, collector=collector, consent=True,
                     delivery=Delivery(mean_delay=0, first_pause=0.001))
assert client.record("theme", "dark")
time.sleep(float(pause))
if end == "exit":
    sys.exit(3)
if end == "raise":
    raise ValueError("uncaught")
'''
PAUSES = [0.0, 0.001, 0.003, 0.01, 0.02, 0.03, 0.05]
ENDS = ["exit", "raise", "fall"]


def run_apps(folder: Path, text: str, collector: str, times: int) -> list[int]:
    """Run the app so many times, two at once. Returns the exit codes; raises for one that hangs."""
    (folder / "app.py").write_text(APP)
    (folder / "metrics.toml").write_text(text)

    def run(number: int) -> int:
        pause, end = PAUSES[number % len(PAUSES)], ENDS[number % len(ENDS)]
        words = [folder / "metrics.toml", folder / f"state{number}", collector, str(pause), end]
        command = [sys.executable, "-W", "always", str(folder / "app.py"), *map(str, words)]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        return done.returncode

    with ThreadPoolExecutor(2) as two:
        return list(two.map(run, range(times)))


@pytest.mark.parametrize("collector_is", ["up", "down"])
@pytest.mark.parametrize("times", [6, pytest.param(100, marks=pytest.mark.long)])
def test_no_program_hangs_at_its_end(
    tmp_path: Path, metrics_text: str, metrics: MetricsFile, collector_is: str, times: int
) -> None:
    """cpython #96387, deadline-cloud #935: a daemon thread stopped with the import lock in hand."""
    with MemoryCollector(metrics.metrics) as running:
        url = running.url if collector_is == "up" else "http://127.0.0.1:9"
        codes = run_apps(tmp_path, metrics_text, url, times)
    assert sorted(set(codes)) == [0, 1, 3]
