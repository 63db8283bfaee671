"""Killed, forked and side by side: processes on one state directory."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Relay
from client_sdk.testing import MemoryCollector
from rappor_core.ohttp.encapsulation import encode_keys
from tests.relay_support import OpeningRelay, new_keys

PATH = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
PROGRAM = Path(__file__).with_name("device_process.py")


@pytest.fixture
def metrics_path(tmp_path: Path, metrics_text: str) -> Path:
    path = tmp_path / "metrics.toml"
    path.write_text(metrics_text)
    return path


@pytest.fixture
def start(tmp_path: Path, collector: MemoryCollector, metrics_path: Path) -> Any:
    def start_(number: int, what: str = "record", *behind: str) -> subprocess.Popen[str]:
        arguments = [str(tmp_path / "state"), collector.url, str(metrics_path), str(number), what]
        arguments += behind
        pipes = {"stdout": subprocess.PIPE, "stdin": subprocess.PIPE if what == "leave" else None}
        return subprocess.Popen([sys.executable, PROGRAM, *arguments], env=PATH, text=True, **pipes)

    return start_


def recorded_lines(process: subprocess.Popen[str]) -> int:
    output, _ = process.communicate()
    return output.count("recorded\n")


def counted(collector: MemoryCollector) -> int:
    return collector.counted()["homepage"]


def test_an_ending_app_waits_for_no_server(start, open_client, collector) -> None:
    hanging, release = threading.Event(), threading.Event()

    def hang(_: object) -> None:
        hanging.set()
        release.wait(20)

    collector.answer = hang
    process = start(30, "leave")
    assert hanging.wait(20)
    print(file=process.stdin, flush=True)
    for line in process.stdout:
        if line == "leaving\n":
            break
    assert process.wait(8) == 0  # the exchange under way would last for 10 s
    process.stdin.close()
    process.stdout.close()
    collector.answer = None
    release.set()
    with open_client() as client:
        assert client.flush(30)
    assert counted(collector) == 30


def kill_at_random(
    points: int, start: Any, open_client: Any, collector: MemoryCollector, seed: int, *behind: str
) -> None:
    """Nothing acknowledged to the app is lost, and nothing is counted twice.

    Each kill leaves room for one more: the moment between the commit and the line on stdout.
    """
    draw = random.Random(seed)
    recorded = 0
    for _ in range(points):
        process = start(10_000, draw.choice(["record", "flush", "close"]), *behind)
        assert process.stdout.readline() == "open\n"
        time.sleep(draw.uniform(0, 0.08))
        process.kill()
        recorded += recorded_lines(process)
    with open_client(relay=Relay(*behind) if behind else None) as client:
        assert client.flush(30), client.last_error
        account = client.inspect()
    assert recorded <= counted(collector) <= recorded + points
    assert account["queued"] == {}
    dropped = [name for name in account["counters"] if name.startswith(("dropped", "refused"))]
    assert dropped == []


@pytest.mark.parametrize("points", [6, pytest.param(100, marks=pytest.mark.long)])
def test_random_kill_points(points, start, open_client, collector) -> None:
    """A fault that 1 of 20 kills meets stays unseen in 1 of 170 runs of a hundred."""
    kill_at_random(points, start, open_client, collector, seed=1)


@pytest.mark.parametrize("points", [4, pytest.param(100, marks=pytest.mark.long)])
def test_random_kill_points_behind_a_relay(points, start, open_client, collector, tmp_path) -> None:
    file, (config,) = new_keys(tmp_path)
    keys = tmp_path / "relay.keys"
    keys.write_bytes(encode_keys([config]))
    with OpeningRelay(collector.url, file) as relay:
        relay.lose_answers = 5
        kill_at_random(points, start, open_client, collector, 3, relay.url, str(keys))
        assert relay.lose_answers < 5
    assert collector.duplicates > 0


@pytest.mark.parametrize("what", ["flush", "close"])
def test_two_processes_record_and_send_side_by_side(start, open_client, collector, what) -> None:
    processes = [start(200, "flush"), start(200, what)]
    recorded = sum(map(recorded_lines, processes))
    assert recorded == 400
    with open_client() as client:
        assert client.flush(30)
        assert client.inspect()["metrics"][0]["reports_made"] == 400
    assert counted(collector) == 400
    if what == "flush":  # a close may break off an exchange whose batch had been counted
        assert collector.duplicates == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_counts_nothing_again(open_client) -> None:
    client = open_client(development=False)
    assert not client.record("nothing of this name", "a")
    for _ in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                client.record("nothing of this name", "a")
                client.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    assert client.inspect()["counters"] == {"mistake:UnknownMetricError": 4}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize(
    ("module", "part"),
    [("client_sdk.delivery.schedule", "client_sdk.delivery.queue"), ("http.client", "ssl")],
)
def test_a_fork_while_the_sender_imports(tmp_path, collector, metrics_path, module, part) -> None:
    """A child must not inherit a module half loaded, ours or the app's: it stays so permanently."""
    arguments = [str(tmp_path / "state"), collector.url, str(metrics_path), module, part]
    command = [sys.executable, PROGRAM.with_name("forking_process.py"), *arguments]
    done = subprocess.run(command, env=PATH, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stdout + done.stderr
    assert counted(collector) == 1


def _record_in_pool(number: int) -> bool:
    return all(FORKED["client"].record("homepage", "a") for _ in range(number))


FORKED: dict[str, Client] = {}  # what children of a fork inherit


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_pre_forking_server_records_in_every_worker(open_client, collector) -> None:
    FORKED["client"] = client = open_client()
    assert client.record("homepage", "a")
    context = multiprocessing.get_context("fork")
    with context.Pool(3) as pool:
        assert all(pool.map(_record_in_pool, [20] * 9, chunksize=1))
    assert client.flush(30)
    assert counted(collector) == 181


def test_a_stopped_process_cannot_block_sending_for_good(start, open_client, collector) -> None:
    process = start(10_000)
    assert process.stdout.readline() == "open\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGSTOP)
    client = open_client(development=False)
    client.flush(0.2)
    process.kill()  # the system drops its locks with the process
    recorded = recorded_lines(process)
    assert client.flush(30)
    assert client.record("homepage", "a")
    assert client.flush(30)
    recorded += 1
    assert recorded <= counted(collector) <= recorded + 1
