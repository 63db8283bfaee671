"""A program that ends without `close()`, at any moment of the sending thread's life."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from client_sdk.storage.directory import StateDirectory
from client_sdk.testing import MemoryCollector

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
def test_no_program_hangs_at_its_end(tmp_path, metrics_text, metrics, collector_is, times) -> None:
    """cpython #96387, deadline-cloud #935: a daemon thread stopped with the import lock in hand."""
    with MemoryCollector(metrics.metrics) as running:
        url = running.url if collector_is == "up" else "http://127.0.0.1:9"
        codes = run_apps(tmp_path, metrics_text, url, times)
    assert sorted(set(codes)) == [0, 1, 3]


CHILD = """
import multiprocessing, sqlite3, sys, time
from client_sdk import Client, Delivery

def work(metrics, state):
    with_open = Client.open(metrics, state_dir=state, collector="http://127.0.0.1:9", consent=True,
                            delivery=Delivery(mean_delay=86_400.0))
    assert with_open.record("theme", "dark")
    other = sqlite3.connect(state + "/state.sqlite", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    import threading
    threading.Timer(0.4, other.close).start()
    assert all(with_open.record("theme", "dark") for _ in range(20))

if __name__ == "__main__":
    child = multiprocessing.get_context(sys.argv[3]).Process(target=work, args=sys.argv[1:3])
    child.start(); child.join(); sys.exit(child.exitcode)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_of_multiprocessing_writes_what_waits(tmp_path, metrics_text, method) -> None:
    """Its end calls no atexit: what record said True for was lost."""
    text = metrics_text.replace(
        "max_memoized_values = 3\nprob_f = 0.5\nprob_p = 0.5\nprob_q = 0.75\nnum_cohorts = 4",
        "max_memoized_values = 3\nprob_f = 0.5\nprob_p = 0.5\nprob_q = 0.75\nnum_cohorts = 4\n"
        "max_reports_per_period = 100",
    )
    (tmp_path / "metrics.toml").write_text(text)
    (tmp_path / "app.py").write_text(CHILD)
    words = [str(tmp_path / "metrics.toml"), str(tmp_path / "state"), method]
    command = [sys.executable, str(tmp_path / "app.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    directory = StateDirectory(tmp_path / "state")
    state = directory.open(threading.RLock())
    assert state.rows("SELECT count(*) FROM queue") == [(21,)]
    state.close()
