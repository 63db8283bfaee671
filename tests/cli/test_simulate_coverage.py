"""`rappor simulate location-coverage`: a file's metrics, drawn and counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from rappor_cli.main import main
from tests.metric_texts import declaration

METRICS = declaration(
    "usual_place", "location", grid="quadkey", box=[42.2, -72.7, 42.4, -72.5], levels=[12],
    encoding="symbol", num_symbols=2, num_cohorts=16, mode="memo", epsilon_infinity=4.0,
    epsilon_one=2.0,
)  # fmt: skip
COMMAND = ["simulate", "location-coverage", "--devices", "2000", "--maps", "1", "--seed", "1"]


def rows_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
    return rows


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory of its own, where `simulation-output` is made."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def metrics(tmp_path: Path) -> str:
    path = tmp_path / "metrics.toml"
    path.write_text(METRICS)
    return str(path)


def test_tables_have_a_row_each_metric(
    metrics: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*COMMAND, metrics, "--devices", "1000"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("usual_place │ 2,000", "usual_place │ 1,000", "top 5", "by map"):
        assert words in shown


def test_no_data_is_drawn_and_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One bit a cell, and one for each reserved value."""
    path = tmp_path / "metrics.toml"
    bits = 'encoding = "one_hot"\nmechanism = "l-osue"\nmax_memoized_values = 3\n'
    symbols = 'encoding = "symbol"\nnum_symbols = 2\nnum_cohorts = 16\n'
    path.write_text(METRICS.replace(symbols, bits) + 'no_data = "no_data"\n')
    assert main([*COMMAND, str(path), "--json"]) == 0
    (row,) = rows_of(capsys)
    assert 0.5 < row["all"] <= 1
    assert 0 <= row["found_by_map"] <= 1


def test_trips_have_no_map_and_are_left_out(
    metrics: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trips = METRICS.replace("usual_place", "trips") + "pairs = true\n"
    path = tmp_path / "trips.toml"
    path.write_text(trips)
    assert main([*COMMAND, str(path)]) == 1
    assert "no metric of kind 'location' with a map" in capsys.readouterr().err
    path.write_text(METRICS + trips)
    assert main([*COMMAND, str(path), "--json"]) == 0
    assert [row["metric"] for row in rows_of(capsys)] == ["usual_place"]
