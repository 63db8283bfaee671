"""`rappor simulate location` on a few trips: tables of riders and crowds, and the maps."""

import json
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from rappor_cli import location
from rappor_cli.main import main
from simulations.location.budgets import with_attacks

START = datetime(2026, 1, 5, 8)
PLACES = [(42.30, -72.60), (42.37, -72.52), (42.10, -72.60)]


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    """Sixty riders with eight active days, in three months."""
    rows = ["user_id,start_time,end_time,start_lat,start_lon,end_lat,end_lon"]
    for rider in range(60):
        for day in range(0, 80, 10):
            at = START + timedelta(days=day + rider % 7)
            (a, b), (c, d) = PLACES[rider % 3], PLACES[(rider + day) % 3]
            rows.append(f"{rider},{at},{at + timedelta(minutes=20)},{a},{b},{c},{d}")
    path = tmp_path / "trips.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.long
def test_every_way_is_judged(
    trips: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With few devices under attack, which takes most of the time."""
    monkeypatch.setattr(location, "with_attacks", partial(with_attacks, crowd=20))
    monkeypatch.setenv("COLUMNS", "80")
    maps = tmp_path / "maps"
    options = [
        "--people",
        "100",
        "--days",
        "2",
        "--crowds",
        "1",
        "--cell-level",
        "10",
        "--seed",
        "1",
    ]
    command = ["simulate", "location", "--trips", str(trips), "--output", str(maps), *options]
    assert main(command) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "60 real riders",
        "100 people resampled",
        "a flat map",
    ):
        assert words in shown
    assert "…" not in shown  # no figure is cut in a narrow terminal
    assert {path.suffix for path in maps.iterdir()} >= {".html", ".png", ".geojson", ".csv"}
    figures = json.loads((maps / "figures.json").read_text(encoding="utf-8"))
    assert {row["people"] for row in figures["crowds"]} == {100}
