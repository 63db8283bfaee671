"""`rappor simulate location-coverage`: a file's metrics, drawn and counted."""

import json
from pathlib import Path

import pytest

from rappor_cli.main import main

METRICS = """
[metrics.usual_place]
kind = "location"
description = "The usual cell"
owner = "maps@example.org"
expires = 2099-12-31
grid = "quadkey"
box = [42.2, -72.7, 42.4, -72.5]
levels = [12]
encoding = "symbol"
num_symbols = 2
num_cohorts = 16
mode = "memo"
epsilon_infinity = 4.0
epsilon_one = 2.0
"""
COMMAND = ["simulate", "location-coverage", "--devices", "2000", "--maps", "1", "--seed", "1"]


@pytest.fixture
def metrics(tmp_path: Path) -> str:
    path = tmp_path / "metrics.toml"
    path.write_text(METRICS)
    return str(path)


def test_metrics_with_places_are_counted(metrics: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, metrics, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["metric"], row["devices"], row["maps"]) == ("usual_place", 2000, 1)
    assert 0.5 < row["all"] <= 1
    assert main([*COMMAND, metrics, "--json"]) == 0
    (again,) = json.loads(capsys.readouterr().out)
    assert again["all"] == row["all"]  # the seed says everything but the time


def test_the_table_has_a_row_for_each_metric_and_size(
    metrics: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*COMMAND, metrics, "--devices", "1000"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("usual_place │ 2,000", "usual_place │ 1,000", "top 5", "1 maps each"):
        assert words in shown


def test_a_file_without_the_wanted_maps_is_refused(
    metrics: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, metrics, "--metric", "elsewhere"]) == 1
    assert "no metric of kind 'location'" in capsys.readouterr().err
