"""What is deployed: the image, and the rules and dashboards of monitoring."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from collector.telemetry import Telemetry
from decoder_service.shell.app import prometheus_text
from decoder_service.shell.service import make_service
from decoder_service.shell.settings import ServiceSettings
from rappor_server.schema import prepare

ROOT = Path(__file__).parents[2]
SECONDS = 1800
PYTHON = "localhost/rappor-test-python:1"
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")  # of this machine, for its own way out


class Builder:
    """buildah with separate storage, without a container runtime."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}

    def run(self, *words: str) -> str:
        command = [
            "buildah", "--root", str(self.folder / "root"), "--runroot", str(self.folder / "run"),
            *words,
        ]  # fmt: skip
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout.strip()

    def make_python(self) -> None:
        """An image with Debian's Python as `python`, and this machine's way to its packages."""
        base = self.folder / "base"
        packages = "python3,python3-venv,ca-certificates"
        command = ["debootstrap", "--variant=minbase", f"--include={packages}", "stable", str(base)]
        given = os.environ.get("RAPPOR_TEST_PYTHON_ROOT")  # made by an earlier run
        if given is None:
            subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
        container = self.run("from", "scratch")
        self.run("copy", "-q", container, given or str(base), "/")
        if BUNDLE.exists():
            self.run("copy", "-q", container, str(BUNDLE), str(BUNDLE))
        self.run("run", container, "ln", "-s", "/usr/bin/python3", "/usr/local/bin/python")
        self.run("commit", "-q", container, PYTHON)
        self.run("rm", container)

    def build(self, target: str, extra: str) -> str:
        name = f"localhost/rappor-test-{target}:1"
        arguments = ("--build-arg", f"PYTHON_IMAGE={PYTHON}", "--build-arg", f"EXTRA={extra}")
        self.run(
            "bud", "-q", "-f", "docker/Dockerfile", "--target", target, *arguments, "-t", name, "."
        )
        return self.run("from", name)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    for program in ("buildah", "debootstrap"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            pytest.skip(f"{program} is not installed, so no image was built")
    if os.getuid() != 0:
        pytest.skip("an image is made from Debian's packages by root alone")
    made = Builder(tmp_path_factory.mktemp("images"))
    made.make_python()
    yield made
    shutil.rmtree(made.folder, ignore_errors=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "extra", "command"),
    [
        ("collector", "collector", ("rappor", "serve", "--help")),
        ("service", "service", ("rappor", "decoder", "worker", "--help")),
    ],
)
def test_a_built_image_runs_as_nobody(builder, target, extra, command) -> None:
    container = builder.build(target, extra)
    assert "Usage: rappor" in builder.run("run", container, *command)
    assert builder.run("run", container, "id", "-u") == "10001"
    shape = builder.run("inspect", "--format", "{{.OCIv1.Config.User}}", container)
    assert shape == "10001:10001"
    made = "import os; os.close(os.open('/data/x', os.O_CREAT)); os.remove('/data/x')"
    builder.run("run", container, "python", "-c", made)
    denied = "import os; assert not os.access('/opt/rappor', os.W_OK)"
    builder.run("run", container, "python", "-c", denied)
    if target == "collector":
        builder.run("run", container, "rappor", "keys", "create", "--scope", "admin")


FOLDER = Path(__file__).parents[2] / "docker" / "monitoring"
FUNCTIONS = {
    "sum", "max", "rate", "increase", "delta", "histogram_quantile", "and", "or", "by", "le",
    "reason", "status", "key", "state", "up", "job",
}  # fmt: skip
NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Names of the samples of both services, with the values of their label `state`."""
    path = tmp_path_factory.mktemp("monitoring") / "d.sqlite"
    service = make_service(ServiceSettings(database=f"sqlite:///{path}"))
    prepare(service.database)
    texts = Telemetry().render(), prometheus_text(service)
    service.close()
    found: dict[str, set[str]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text.decode()):
            found.setdefault(family.name, set())
            for sample in family.samples:
                states = found.setdefault(sample.name, set())
                states.update({sample.labels["state"]} if "state" in sample.labels else ())
            if family.type == "counter":
                found.setdefault(f"{family.name}_total", set())
            if family.type == "histogram":
                found.setdefault(f"{family.name}_bucket", set())
    return found


def rules() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]:
        yield from group["rules"]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / "grafana.json").read_text())["panels"]
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (one["expr"] for panel in panels() for one in panel.get("targets", []))


def test_every_expression_is_of_what_is_counted(counted: dict[str, set[str]]) -> None:
    for text in expressions():
        assert text.count("(") == text.count(")"), text
        plain = re.sub(r'"[^"]*"|\[\d+[mhd]\]', "", text)
        names = set(NAME.findall(plain)) - FUNCTIONS
        assert names <= counted.keys(), (names - counted.keys(), text)
        for name, states in re.findall(r'(rappor_\w+)\{state=~?"([^"]*)"\}', text):
            assert set(states.split("|")) <= counted[name], text


def test_every_counter_of_the_services_has_a_place(counted: dict[str, set[str]]) -> None:
    shown = set(NAME.findall(" ".join(expressions())))
    parts = ("_bucket", "_total", "_created", "_sum", "_count")
    roots = {re.sub(f"({'|'.join(parts)})$", "", name) for name in counted}
    missing = {one for one in roots if not any(name.startswith(one) for name in shown)}
    assert missing == {"rappor_open_days"}  # a setting of the metrics, not a state
