"""Clusters of Dask and Spark on this machine, with workers that a test may kill."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.free_ports import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[1]
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@dataclass(frozen=True)
class Cluster:
    """An engine; `on` as `--on` accepts it, the scheduler first among its processes."""

    on: str
    processes: list[subprocess.Popen[bytes]]

    def kill_worker(self) -> None:
        """Kill the first worker and its children: a worker of Spark has those that run tasks."""
        listed = subprocess.run(
            ["pgrep", "-P", str(self.processes[1].pid)], stdout=subprocess.PIPE, check=False
        )
        for process in [self.processes[1].pid, *map(int, listed.stdout.split())]:
            os.kill(process, signal.SIGKILL)


def environment(*folders: str | Path, **more: str) -> dict[str, str]:
    """An environment whose interpreters find the sources, after `folders`."""
    return os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, folders), str(ROOT)])} | more


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def dask_cluster(
    workers: int = 2, env: Mapping[str, str] | None = None, **settings: str
) -> Iterator[Cluster]:
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    port, env = free_port(), env or environment()
    address = f"tcp://127.0.0.1:{port}"
    dask = [sys.executable, "-m"]
    scheduler = [*dask, "distributed.cli.dask_scheduler", "--host", "127.0.0.1",
                 "--port", str(port), "--no-dashboard"]  # fmt: skip
    worker = [*dask, "distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1",
              "--no-dashboard"]  # fmt: skip
    with _started(f"dask:{address}", [scheduler], environment(**settings)) as cluster:
        until(lambda: listens(port), 60)
        cluster.processes.extend(subprocess.Popen(worker, env=env, **QUIET) for _ in range(workers))
        yield cluster


@contextmanager
def spark_cluster(workers: int = 2, env: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A standalone master with workers of one core each."""
    spark = pytest.importorskip("pyspark", reason="the extra spark is not installed")
    home, port, env = Path(spark.__file__).parent, free_port(), dict(env or environment())
    env |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    run = [str(home / "bin" / "spark-class")]
    master = [*run, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1",
              "--port", str(port), "--webui-port", "0"]  # fmt: skip
    address = f"spark://127.0.0.1:{port}"
    with (
        TemporaryDirectory() as folder,
        _started(f"spark:{address}", [master], env) as cluster,
    ):
        worker = [*run, "org.apache.spark.deploy.worker.Worker", address, "--cores", "1",
                  "--memory", "1g", "--work-dir", folder, "--webui-port", "0"]  # fmt: skip
        until(lambda: listens(port), 60)
        cluster.processes.extend(subprocess.Popen(worker, env=env, **QUIET) for _ in range(workers))
        yield cluster


ENGINES: dict[str, Callable[..., AbstractContextManager[Cluster]]] = {
    "dask": dask_cluster,
    "spark": spark_cluster,
}


@contextmanager
def _started(on: str, commands: list[list[str]], env: Mapping[str, str]) -> Iterator[Cluster]:
    cluster = Cluster(on, [subprocess.Popen(command, env=env, **QUIET) for command in commands])
    try:
        yield cluster
    finally:
        for process in reversed(cluster.processes):
            process.kill()
            process.wait()


@contextmanager
def program(text: str, *arguments: object, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A Python program in a process: Spark leaves a Java process and sockets behind."""
    words = [sys.executable, "-c", text, *map(str, arguments)]
    process = subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def last_json(process: subprocess.Popen[str], seconds: float = 240) -> Any:
    """What the last line of a program says."""
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])
