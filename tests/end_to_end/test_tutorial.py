"""docs/tutorial.md to the letter: each command prints what the page says, but for numbers."""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.test_readme import Shell, agrees, commands, default_ports_taken
from tests.free_ports import free_port

TEXT = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
FENCES = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILES = {"[metrics.start_page]": "metrics.toml", "audience": "release.toml", "Encoder": "fleet.py"}
SHARE = re.compile(r"│ (https://\w+\.example/)\s+│\s+([\d.]+) %")


@pytest.fixture
def shell(tmp_path: Path, clone: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    with default_ports_taken():
        bash = Shell(tmp_path, free_port(), clone)
        bash.run(f'python() {{ "{sys.executable}" "$@"; }}')
        yield bash
        bash.close()


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_every_command_prints_what_the_page_says(shell: Shell, tmp_path: Path) -> None:
    decoder_port = str(free_port())
    ports = {"8000": str(shell._port), "8100": decoder_port}
    for _, text in FENCES.findall(TEXT):
        for mark, name in FILES.items():
            if mark in text:
                (tmp_path / name).write_text(text.replace("8000", ports["8000"]))
    for command, expected in commands(TEXT):
        printed = shell.run(command.replace("8100", decoder_port) + "\n")
        assert agrees(expected, printed), f"$ {command}\n{printed}"
        for value, share in SHARE.findall("\n".join(expected)):
            found = dict(SHARE.findall(printed))
            assert float(found[value]) == pytest.approx(float(share), abs=6)
    rows = (tmp_path / "release-1" / "release.csv").read_text()
    assert rows.count("https://") == 3
