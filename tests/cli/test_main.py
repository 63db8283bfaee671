"""The `rappor` command itself: help, exit codes, and errors of one line."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from client_sdk import Client
from rappor_cli import main as cli
from rappor_cli.commands import COMMANDS
from tests.metric_texts import word


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f" {name} " in out for name in COMMANDS)
    assert cli.main([]) == 2


def test_missing_libraries_are_named_with_a_remedy() -> None:
    """As on a machine with the base install alone."""
    code = (
        "import sys; sys.modules['typer'] = None; from rappor_cli.main import main; "
        "sys.exit(main(['decode', '--help']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "pip install 'rappor-telemetry[all]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="a pipe of POSIX")
@pytest.mark.parametrize("program", ["rappor_cli --help", "client_sdk inspect state"])
def test_a_reader_that_has_gone_is_no_failure_to_report(program: str, tmp_path: Path) -> None:
    """As in `rappor ... | head`: exit code 1, and nothing on standard error."""
    (tmp_path / "metrics.toml").write_text(word("word"))
    Client.open(
        tmp_path / "metrics.toml", state_dir=tmp_path / "state", consent=True,
        collector="http://127.0.0.1:9",
    ).close()  # fmt: skip
    reading, writing = os.pipe()
    os.close(reading)
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-m", *program.split()], env=os.environ | {"PYTHONPATH": root},
        cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    "command", ["metrics list", "keys list", "aggregate word", "density places", "close 2026-11-01"]
)
def test_a_mistyped_database_is_not_made(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "rapor.sqlite"
    assert cli.main([*command.split(), "--database", f"sqlite:///{missing}"]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "rapor.sqlite" in told
    assert "rappor migrate" in told
    assert not missing.exists()


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("simulate homepages --reports 5", "5"),
        ("simulate longitudinal --devices many", "many"),
        ("decode --alpha 2", "2"),
        ("metrics check metrics.toml --population -7", "-7"),
    ],
)
def test_wrong_usage_names_the_value(
    command: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(command.split()) == 2
    told = capsys.readouterr().err
    assert f"'{value}'" in told
    assert command.split()[-2] in told


def test_a_week_of_a_fleet_begins_on_monday(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["simulate", "fleet", "--devices", "1000", "--from", "2026-11-04"]) == 2
    told = capsys.readouterr().err
    assert "2026-11-04" in told
    assert "2026-11-02" in told


def _interrupted(code: str, seconds: float) -> tuple[int, str]:
    """Exit code and stderr of a program that says "begun", and gets a SIGINT so much later."""
    program = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job ignores it
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "begun\n"
    time.sleep(seconds)
    program.send_signal(signal.SIGINT)
    _, told = program.communicate(timeout=60)
    return program.returncode, told


@pytest.mark.skipif(os.name != "posix", reason="a signal of POSIX")
@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.4])
def test_ctrl_c_while_loading_is_one_line(seconds: float) -> None:
    """At every moment: it has begun once the first of our imports is asked for."""
    code = (
        "import sys\n"
        "from rappor_cli.__main__ import run\n"
        "class Begun:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'rappor_cli.main':\n"
        "            print('begun', flush=True)\n"
        "sys.meta_path.insert(0, Begun())\n"
        "sys.argv = ['rappor', 'simulate', '--help']\n"
        "run()\n"
    )
    status, told = _interrupted(code, seconds)
    assert (status, told) in [(130, "rappor: stopped\n"), (0, "")]
    assert status == 130 or seconds > 0.05


@pytest.mark.skipif(os.name != "posix", reason="a signal of POSIX")
def test_ctrl_c_while_running_says_the_same() -> None:
    code = (
        "import time, types, sys\n"
        "from rappor_cli import commands\n"
        "def wait():\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(60)\n"
        "sys.modules['waiting'] = types.SimpleNamespace(wait=wait)\n"
        "commands.COMMANDS['demo'] = ('waiting', 'wait', '')\n"
        "sys.argv = ['rappor', 'demo']\n"
        "from rappor_cli.__main__ import run\n"
        "run()\n"
    )
    assert _interrupted(code, 0.05) == (130, "rappor: stopped\n")
