"""Help: examples of groups run as they stand, options have one word, shells complete."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Transport
from client_sdk.testing import FixedRandomness
from collector.server import running_collector
from collector.settings import load_settings
from decoder.sources.collector_client import ask
from rappor_cli.commands import COMMANDS, load
from rappor_cli.main import main
from rappor_core.metrics.compiled import load_metrics
from simulations.populations.fleet import RecordedValue, deliver, encode_fleet
from tests.metric_texts import declaration

HOMEPAGE = declaration(
    "homepage", "string", num_bits=16, num_hashes=2, num_cohorts=2, prob_f=0.75, prob_p=0.5,
    prob_q=0.75, max_memoized_values=3, fallback="other", min_reports=10, keep_raw_days=30,
    min_reports_per_cohort=1,
)  # fmt: skip
DOMAIN = '[columns]\nplan = ["basic", "pro"]\nage = ["young", "old"]\n'


def commands_below(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command and all below it, with their paths."""
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
