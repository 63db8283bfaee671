"""`python -m client_sdk inspect`: for the person whose device it is."""

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Delivery
from client_sdk.__main__ import main
from client_sdk.randomization.metric_encoder import MAX_VALUE_CHARS
from rappor_core.errors import ValueRefusedError
from rappor_core.metrics.file import parse_metrics
from tests.client.conftest import METRICS


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
    assert "contains no state" in capsys.readouterr().err
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


DAILY = parse_metrics(METRICS.replace("max_reports_per_period = 10000\n", ""))


def test_a_full_period_is_named(open_client, caplog) -> None:
    client = open_client(metrics=DAILY)
    assert client.last_refusal == ""
    assert client.record("homepage", "a")
    with caplog.at_level(logging.WARNING):
        assert not client.record("homepage", "b")
        assert not client.record("homepage", "c")
    assert client.last_refusal == "homepage has its one report of today"
    assert [r.getMessage() for r in caplog.records] == [f"not recorded: {client.last_refusal}"]
    assert client.inspect()["last_refusal"] == client.last_refusal


def test_in_production_nothing_is_logged(open_client, caplog) -> None:
    client = open_client(metrics=DAILY, development=False)
    assert [client.record("homepage", "a") for _ in range(3)] == [True, False, False]
    assert "one report of today" in client.last_refusal
    assert not client.record("theme", "secret color")
    assert "not one of its 3 categories" in client.last_refusal
    assert "secret color" not in client.last_refusal
    assert not client.record("nosuch", 1)
    assert "'nosuch' is not declared" in client.last_refusal
    assert not caplog.records


def test_reasons_of_the_device_are_sentences(open_client, clock) -> None:
    client = open_client()
    clock.now = 5e9
    assert not client.record("homepage", "a")
    assert client.last_refusal.startswith("homepage expired on 2099-06-30")
    client.set_consent(False)
    assert not client.record("homepage", "a")
    assert client.last_refusal == "nothing is recorded: the status is 'no_consent'"


@pytest.mark.parametrize("length", [MAX_VALUE_CHARS + 1, 50_000_000])
def test_a_long_value_is_refused_at_once(open_client, length) -> None:
    """50 million characters blocked the app for 254 ms. Seconds are those of the app's thread."""
    client, value = open_client(), "x" * length
    client.record("homepage", "a")
    started = time.thread_time()
    with pytest.raises(ValueRefusedError, match="2,048 characters at most"):
        client.record("homepage", value)
    assert time.thread_time() - started < 0.02
    assert client.record("homepage", "x" * MAX_VALUE_CHARS)


def test_the_longest_value_is_quick_at_its_worst(open_client) -> None:
    client, value = open_client(), "\u0301\u0327" * (MAX_VALUE_CHARS // 2)
    client.record("homepage", "a")
    started = time.thread_time()
    assert client.record("homepage", value)
    assert time.thread_time() - started < 0.2  # about 10 ms with nothing alongside it
