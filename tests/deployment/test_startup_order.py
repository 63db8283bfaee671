"""Compose and Kubernetes as they start: each container in its order, by its own health checks."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.collector.conftest import databases, new_postgresql, postgresql, postgresql_server
from tests.collector.proxies import stages
from tests.deployment.test_kubernetes import documents
from tests.free_ports import free_port
from tests.waiting import until

__all__ = ["databases", "new_postgresql", "postgresql", "postgresql_server"]
ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
SECONDS = 90


class Containers:
    """Processes in place of containers, on loopback, with a proxy injected (gogs #7529)."""

    def __init__(self, folder: Path, new_database: Callable[[], str]) -> None:
        self._folder = folder
        self._ports = {"RAPPOR_PORT": free_port(), "RAPPOR_DECODER_PORT": free_port()}
        self.variables = os.environ | {
            "PYTHONPATH": str(ROOT),
            "HTTP_PROXY": "http://127.0.0.1:9",  # as Docker sets it where its client has a proxy
            "RAPPOR_HOST": "127.0.0.1",
            "RAPPOR_DECODER_HOST": "127.0.0.1",
            "RAPPOR_DATABASE": new_database(),
            "RAPPOR_DECODER_DATABASE": new_database(),
            "RAPPOR_DECODER_LOG_LEVEL": "error",
            "RAPPOR_METRICS": str(ROOT / "docker" / "metrics.toml"),
            **{name: str(port) for name, port in self._ports.items()},
        }
        self.variables["no_proxy"] = self.variables["NO_PROXY"] = ""
        self.started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: list[str]) -> None:
        words = [sys.executable, "-m", "rappor_cli", *command]
        self.started[name] = subprocess.Popen(words, env=self.variables, cwd=self._folder)

    def is_healthy(self, stage: str) -> bool:
        """What the health check of an image says."""
        check = json.loads(dict(stages()[stage])["HEALTHCHECK"].partition("CMD ")[2])
        words = [sys.executable, *check[1:]]
        return subprocess.run(words, env=self.variables, capture_output=True).returncode == 0

    def url(self, variable: str) -> str:
        return f"http://127.0.0.1:{self._ports[variable]}"

    def stop(self) -> None:
        """oidc-pam #224: by SIGHUP, of a terminal that closes, they drain."""
        for one in self.started.values():
            one.send_signal(signal.SIGHUP)
        for name, one in self.started.items():
            if name != "collector":  # whose own tests are elsewhere
                assert one.wait(30) == 0, name
            one.kill()
            one.wait()


@contextmanager
def containers(folder: Path, new_database: Callable[[], str]) -> Iterator[Containers]:
    made = Containers(folder, new_database)
    try:
        yield made
    finally:
        made.stop()


def may_start(found: Containers, conditions: dict[str, dict[str, str]]) -> bool:
    """Whether what a service of compose.yaml depends on is there."""
    for name, one in conditions.items():
        if name == "database":
            continue  # that of the test
        if name not in found.started:
            return False
        if one["condition"] == "service_healthy" and not found.is_healthy(stage_of(name)):
            return False
    return True


def stage_of(name: str) -> str:
    return str(COMPOSE[name]["build"].get("target", "collector"))


@pytest.mark.long
def test_compose_starts_every_service_of_the_profile(tmp_path, new_postgresql) -> None:
    """apisix-helm-chart #847: no container of `up -d` waits for one that waits for it."""
    wanted = {
        name: one
        for name, one in COMPOSE.items()
        if name != "database" and one.get("profiles", ["service"]) == ["service"]
    }
    assert wanted.keys() == {"collector", "service", "worker"}
    with containers(tmp_path, new_postgresql) as found:
        end = time.monotonic() + SECONDS
        while wanted.keys() - found.started.keys():
            assert time.monotonic() < end, found.started.keys()
            for name, one in wanted.items():
                if name not in found.started and may_start(found, one["depends_on"]):
                    command = json.loads(dict(stages()[stage_of(name)])["CMD"])
                    found.start(name, one.get("command", command))
        for name in ("collector", "service"):
            until(lambda: found.is_healthy(stage_of(name)), SECONDS, every=0.5)  # noqa: B023


@pytest.mark.long
def test_kubernetes_pods_pass_their_probes(tmp_path, new_postgresql) -> None:
    pods: dict[str, dict[str, Any]] = {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]["containers"][0]
        for name, document in documents()
        if name.startswith("decoder.yaml Deployment")
    }
    assert pods.keys() == {"decoder", "decoder-worker"}
    with containers(tmp_path, new_postgresql) as found:
        for name, container in pods.items():
            found.start(name, container["args"])
        url = found.url("RAPPOR_DECODER_PORT")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            path = pods["decoder"][probe]["httpGet"]["path"]

            def passes(path: str = path) -> bool:
                try:
                    return httpx.get(url + path, trust_env=False).status_code == 200
                except httpx.HTTPError:
                    return False

            until(passes, SECONDS, every=0.5)
