"""The `rappor` command itself: help, exit codes, and errors of one line."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Transport
from client_sdk.testing import FixedRandomness
from collector.server import running_collector
from collector.settings import load_settings
from decoder.sources.collector_client import ask
from rappor_cli.commands import COMMANDS, load
from rappor_cli.main import main
from rappor_core.metrics.compiled import load_metrics
from simulations.populations.fleet import RecordedValue, deliver, encode_fleet
from tests.cli.command import Rappor
from tests.metric_texts import declaration, word


def test_help_lists_every_command(rappor: Rappor) -> None:
    out = rappor("--help")
    assert all(f" {name} " in out for name in COMMANDS)
    rappor(code=2)


def test_missing_libraries_are_named_with_a_remedy() -> None:
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
    """With `rappor ... | head`: exit code 1, and nothing on standard error."""
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
def test_a_mistyped_database_is_not_made(command: str, tmp_path: Path, rappor: Rappor) -> None:
    missing = tmp_path / "rapor.sqlite"
    result = rappor.refused(*command.split(), "--database", f"sqlite:///{missing}")
    assert "rapor.sqlite" in result
    assert "rappor migrate" in result
    assert not missing.exists()


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("simulate homepages --reports 5", "5"),
        ("simulate longitudinal --devices many", "many"),
        ("decode --alpha 2", "2"),
        ("metrics check metrics.toml --population -7", "-7"),
        ("simulate fleet --devices 1000 --from 2026-11-04", "2026-11-04"),  # no Monday
    ],
)
def test_wrong_usage_names_the_value(command: str, value: str, rappor: Rappor) -> None:
    result = rappor.refused(*command.split(), code=2)
    assert value in result
    assert command.split()[-2] in result
    assert rappor.err.count("\n") == 1  # one line, as for every other error


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
    assert program.stdout.readline() == "begun\n"
    time.sleep(seconds)
    program.send_signal(signal.SIGINT)
    _, result = program.communicate(timeout=60)
    return program.returncode, result


@pytest.mark.skipif(os.name != "posix", reason="a signal of POSIX")
@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.4])
def test_ctrl_c_while_loading_is_one_line(seconds: float) -> None:
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
    status, result = _interrupted(code, seconds)
    assert (status, result) in [(130, "rappor: stopped\n"), (0, "")]
    assert status == 130 or seconds > 0.05


@pytest.mark.skipif(os.name != "posix", reason="a signal of POSIX")
@pytest.mark.parametrize(("command", "ended"), [("demo", 1), ("decoder", 1), ("serve", 0)])
def test_ctrl_c_while_running_says_the_same(command: str, ended: int) -> None:
    """A starting server exits at once: a callback of the garbage collector loses exceptions."""
    code = (
        "import time, types, sys\n"
        "from rappor_cli import commands\n"
        "def wait():\n"
        "    print('begun', flush=True)\n"
        "    try: time.sleep(60)\n"
        "    finally: print('ended', file=sys.stderr)\n"
        "sys.modules['waiting'] = types.SimpleNamespace(wait=wait)\n"
        f"commands.COMMANDS['{command}'] = ('waiting', 'wait', '')\n"
        f"sys.argv = ['rappor', '{command}']\n"
        "from rappor_cli.__main__ import run\n"
        "run()\n"
    )
    assert _interrupted(code, 0.05) == (130, "ended\n" * ended + "rappor: stopped\n")


HOMEPAGE = declaration(
    "homepage", "string", num_bits=16, num_hashes=2, num_cohorts=2, prob_f=0.75, prob_p=0.5,
    prob_q=0.75, max_memoized_values=3, fallback="other", min_reports=10, keep_raw_days=30,
    min_reports_per_cohort=1,
)  # fmt: skip
DOMAIN = '[columns]\nplan = ["basic", "pro"]\nage = ["young", "old"]\n'


def commands_below(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands_below(f"{path} {name}", below)


def every_command() -> list[tuple[str, Any]]:
    return [found for name in COMMANDS for found in commands_below(name, load(name))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the examples speak of: a collector's database with a closed day, a table, a ledger."""
    monkeypatch.chdir(tmp_path)
    metrics = tmp_path / "metrics.toml"
    metrics.write_text(HOMEPAGE)
    settings = load_settings(
        metrics=metrics, database="sqlite:///collector.sqlite", host="127.0.0.1", port=0,
        require_keys=False, log_level="warning",
    )  # fmt: skip
    source, day = FixedRandomness(1), datetime.now(UTC).date()
    readings = [RecordedValue(str(device), "homepage", "a") for device in range(200)]
    with running_collector(settings) as url:
        with Transport(url) as transport:
            reports = encode_fleet(readings, load_metrics(metrics).metrics, day, source)
            deliver(reports, transport, randomness=source)
        ask(url, f"/v1/days/{day}/close", method="POST")
    (tmp_path / "domain.toml").write_text(DOMAIN)
    (tmp_path / "table.csv").write_text("plan,age\n" + "basic,young\npro,old\n" * 20)
    shutil.copy("collector.sqlite", "moved.sqlite")  # an export moves what it takes
    moved = ["--database", "sqlite:///moved.sqlite"]
    assert main(["archive", "export", "archive", *moved]) == 0
    assert main(["release", "keygen", "keys"]) == 0
    assert main(["release", "ledger", "ledger.json", "--epsilon", "5"]) == 0
    return tmp_path


def test_every_groups_example_runs(folder: Path) -> None:
    examples = [
        str(command.epilog) for _, command in every_command() if hasattr(command, "commands")
    ]
    assert len(examples) == len(set(examples)) >= 10
    for example in examples:
        program, *words = shlex.split(example.removeprefix("Example: "))
        assert program == "rappor"
        assert main(words) == 0, example


def completed(shell: str, line: str) -> str:
    """What the program answers a shell that completes a line."""
    words = line.split(" ")
    given = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line}
    asks = {"_RAPPOR_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        [sys.executable, "-m", "rappor_cli"], env=os.environ | given | asks,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


@pytest.mark.long  # bash is asked below, by the printed script
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_offered_what_fits(shell: str) -> None:
    first = completed(shell, "rappor rel")
    assert "release" in first
    assert "reports" not in first
    assert "--scope" in completed(shell, "rappor keys create --s")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_by_the_printed_script(tmp_path: Path) -> None:
    program = tmp_path / "rappor"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rappor_cli "$@"\n')
    program.chmod(0o755)
    line = (
        'eval "$(rappor --show-completion)"; COMP_WORDS=(rappor metr); COMP_CWORD=1; '
        'complete -p rappor > /dev/null; _rappor_completion rappor; echo "${COMPREPLY[@]}"'
    )
    root = str(Path(__file__).parents[2])
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": root}
    done = subprocess.run(
        ["bash", "-c", line], env=os.environ | path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "metrics\n"
