"""`python -m client_sdk inspect`: for the person whose device it is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Delivery
from client_sdk.__main__ import main


@pytest.fixture
def state_dir(open_client: Any, tmp_path: Path) -> Path:
    with open_client(delivery=Delivery()) as client:
        client.record("homepage", "my-private-page")
        client.record("crashed", True)
    return tmp_path / "state"


def test_the_command_as_a_person_runs_it(state_dir: Path) -> None:
    command = [sys.executable, "-m", "client_sdk", "inspect", state_dir]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=path)
    assert "Waiting: 2 reports queued" in done.stdout
    assert "crashed: reports made: 1; different answers: 1 of at most 2." in done.stdout
    said = "at most 100 % (epsilon 13.18) sure after everything your device"  # 3 of 4.39
    assert said in done.stdout
    assert "my-private-page" not in done.stdout


def test_json_for_machines(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(state_dir), "--json"]) == 0
    account = json.loads(capsys.readouterr().out)
    assert account["queued"] == {"crashed": 1, "homepage": 1}
    assert {line["metric"] for line in account["metrics"]} == {"crashed", "homepage"}


def test_reasons_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(tmp_path / "nosuch")]) == 1
    assert "holds no state" in capsys.readouterr().err
    assert not (tmp_path / "nosuch").exists()
    with pytest.raises(SystemExit) as wrong:
        main([])
    assert wrong.value.code == 2


def test_inspecting_changes_nothing(state_dir: Path) -> None:
    before = (state_dir / "state.sqlite").read_bytes()
    assert main(["inspect", str(state_dir)]) == 0
    assert (state_dir / "state.sqlite").read_bytes() == before


def test_what_was_wiped_unsent_was_not_sent(open_client: Any, collector: Any) -> None:
    client = open_client(delivery=Delivery(mean_delay=86_400.0))
    assert client.record("homepage", "a")
    assert client.flush(20)
    for _ in range(3):
        assert client.record("homepage", "a")
    assert client.inspect()["metrics"][0]["reports_made"] == 4
    assert client.set_consent(False)
    assert client.set_consent(True)
    (line,) = client.inspect()["metrics"]
    assert (line["reports_made"], line["values_memoised"]) == (1, 2)
    assert len(collector.reports) == 1
