"""docker/systemd: systemd's own checks, where it is installed, and what the units start."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from collector.settings import Settings as CollectorSettings
from decoder_service.shell.settings import ServiceSettings as DecoderSettings
from rappor_cli.commands import load

FOLDER = Path(__file__).parents[2] / "docker" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
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
    for path in FOLDER.iterdir():
        text = path.read_text().replace("/opt/rappor/bin/rappor", shutil.which("true") or "")
        (tmp_path / path.name).write_text(text)
    return program


def test_systemd_finds_nothing_wrong(analyze: str, tmp_path: Path) -> None:
    command = [analyze, "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if "rappor" in line]
    assert (done.returncode, ours) == (0, [])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_that_is_broken_into_reaches_little(
    path: Path, analyze: str, tmp_path: Path
) -> None:
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
