"""docker/kubernetes and docker/systemd: valid by their own checks, and true of our programs."""

import configparser
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.settings import Settings as CollectorSettings
from decoder_service.shell.settings import ServiceSettings as DecoderSettings
from rappor_cli.commands import COMMANDS, load
from tests.collector.proxies import stages

FOLDER = Path(__file__).parents[2] / "docker" / "kubernetes"
VERSIONS = ("1.28", "1.33", "1.36")
SECRETS = ("password", "secret", "token", "_key", "database")
OTHERS = {"PROMETHEUS_DISABLE_CREATED_SERIES"}


def documents() -> list[tuple[str, dict[str, Any]]]:
    """(file and kind, document) of every manifest."""
    return [
        (f"{path.name} {document['kind']} {document['metadata']['name']}", document)
        for path in sorted(FOLDER.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
    ]


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, specification) of every pod."""
    for name, document in documents():
        if document["kind"] in ("Deployment", "Job"):
            yield name, document["spec"]["template"]["spec"]


def settings_of(container: dict[str, Any]) -> dict[str, Any]:
    """By name of the setting, what a container's environment gives; None for what is secret."""
    kind = DecoderSettings if "decoder" in container["image"] else CollectorSettings
    prefix = str(kind.model_config["env_prefix"])
    found = {}
    for variable in container["env"]:
        if variable["name"] in OTHERS:
            continue
        assert variable["name"].startswith(prefix)
        name = variable["name"].removeprefix(prefix).lower()
        assert name in kind.model_fields, name
        found[name] = variable.get("value")
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid(version: str) -> None:
    """Against the schemas of Kubernetes itself, where an unknown field is an error."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for _, document in documents():
        kubernetes_validate.validate(document, version, strict=True)
    broken = dict(documents())["collector.yaml Service collector"] | {"spek": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, version, strict=True)


def test_variables_are_settings_secrets_come_from_secrets() -> None:
    """Their values, too, are accepted, with a database in place of the secret."""
    for name, pod in pods():
        for container in pod["containers"]:
            settings = settings_of(container)
            assert settings, name
            for variable in container["env"]:
                is_secret = any(word in variable["name"].lower() for word in SECRETS)
                assert is_secret == ("secretKeyRef" in variable.get("valueFrom", {})), variable
            given = {name: value for name, value in settings.items() if value}
            given["database"] = "postgresql+psycopg://user@db.example.org/name"
            if "metrics" in given:
                assert given.pop("metrics").startswith(container["volumeMounts"][0]["mountPath"])
            kind = DecoderSettings if "decoder" in container["image"] else CollectorSettings
            kind(**given)
    lines = [line for path in FOLDER.glob("*.yaml") for line in path.read_text().splitlines()]
    text = "".join(line.partition("#")[0] for line in lines)
    assert "postgresql" not in text
    assert "kind: Secret" not in text


def test_pods_are_unprivileged_on_read_only_roots() -> None:
    for name, pod in pods():
        user = dict(stages()["collector"])["USER"]
        security = pod["securityContext"]
        assert f"{security['runAsUser']}:{security['runAsGroup']}" == user, name
        assert security["runAsNonRoot"]
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own["readOnlyRootFilesystem"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]
            assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]]
            assert not container["image"].endswith(":latest")
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted == {volume["name"] for volume in pod["volumes"]}
            assert container["args"][0] in COMMANDS


SYSTEMD = Path(__file__).parents[2] / "docker" / "systemd"
UNITS = sorted(SYSTEMD.glob("*.service"))
HIGHEST_EXPOSURE = 2.0  # of 10, by `systemd-analyze security`


class Unit(configparser.RawConfigParser):
    """A unit file: names as they are written, and given more than once."""

    def __init__(self, path: Path) -> None:
        super().__init__(strict=False, delimiters=("=",))
        self.text = path.read_text()
        self.read_string(self.text)

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def variables(unit: Unit) -> dict[str, str]:
    words = " ".join(re.findall(r"^Environment=(.*)$", unit.text, re.MULTILINE)).split()
    return dict(word.split("=", 1) for word in words)


@pytest.fixture
def analyze(tmp_path: Path) -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed, so the units were not checked by it")
    for path in SYSTEMD.iterdir():
        text = path.read_text().replace("/opt/rappor/bin/rappor", shutil.which("true") or "")
        (tmp_path / path.name).write_text(text)
    return program


def test_systemd_finds_nothing_wrong(analyze: str, tmp_path: Path) -> None:
    command = [analyze, "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if "rappor" in line]
    assert (done.returncode, ours) == (0, [])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_that_is_broken_into_reaches_little(path, analyze, tmp_path) -> None:
    command = [analyze, "security", "--offline=true", str(tmp_path / path.name)]
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= HIGHEST_EXPOSURE


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_units_start_commands_that_are_there_as_nobody(path: Path) -> None:
    unit = Unit(path)
    program, name, *words = unit["Service"]["ExecStart"].split()
    assert program == "/opt/rappor/bin/rappor"
    command = load(name)
    if hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    options = {option for param in command.params for option in param.opts}
    assert {word for word in words if word.startswith("--")} <= options
    assert unit["Service"]["DynamicUser"] == "yes"
    is_restarted = unit["Service"].get("Restart") == "always"  # SIGHUP is clean: oidc-pam #224
    assert is_restarted != path.stem.endswith("backup")
    assert unit["Service"]["StateDirectoryMode"] == "0700"


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_secrets_come_as_credentials_and_variables_are_settings(path: Path) -> None:
    unit = Unit(path)
    credential, _, source = unit["Service"]["LoadCredential"].partition(":")
    kind = DecoderSettings if "decoder" in path.name else CollectorSettings
    given = variables(unit)
    assert given.pop(kind.FILE_VARIABLE) == f"%d/{credential}"
    assert source.startswith("/etc/rappor/")
    prefix = str(kind.model_config["env_prefix"])
    for name in given:
        if name.startswith("RAPPOR"):
            assert name.removeprefix(prefix).lower() in kind.model_fields, name
    assert "postgresql" not in unit.text
