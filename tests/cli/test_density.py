"""`rappor density` and the tracking part of `metrics check`."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from decoder.density.cells import places_of
from decoder.errors import RemoteError
from decoder_service.client import Service
from rappor_cli.main import main
from rappor_core.grid.box import RESERVED
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate
from tests.cli.density_support import DAY, DECLARED


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two slots and two days of a crowd that sits in the south-west, and by day has moved."""
    folder = tmp_path_factory.mktemp("aggregates")
    rng, paths = np.random.default_rng(0), []
    for metric in parse_metrics(DECLARED).parts("places"):
        assert metric.location is not None
        values = list(places_of([metric.location]).finest)
        for day in (0, 1):
            shares = np.full(10, 0.02)
            shares[8 if day and metric.location.slot == "day" else 0] = 0.82
            found, _ = draw_aggregate(values, shares, 20_000, metric.params, rng, metric.name)
            at = DAY + timedelta(days=day)
            found = replace(found, definition=metric.to_dict(), params_id=metric.params_id,
                            first_day=at, last_day=at)  # fmt: skip
            path = folder / f"{metric.location.slot}-{day}.json"
            path.write_text(found.to_json())
            paths += ["--aggregate", str(path)]
    return paths


def test_maps_changes_and_tracking_are_printed_together(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = tmp_path / "points.csv"
    points.write_text("latitude,longitude\n1.0,1.0\n")
    assert main(["density", "places", *files, "-o", str(tmp_path / "out"),
                 "--points", str(points)]) == 0  # fmt: skip
    printed = capsys.readouterr()
    assert "re-linked" in printed.err
    told = " ".join(printed.out.split())
    assert "0-0-0" in told
    assert "is detected 8 times in 10" in told
    assert "day: change from the first window" in told
    assert "not distinguishable" in told
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [
        "density.csv", "density.geojson", "density.parquet", "density.svg",
        "manifest.json", "map.json", "map_changes.json", "report.html", "results.json",
    ]  # fmt: skip
    assert days_of_cells(tmp_path / "out") == ["2026-11-03"] * 2 * 9


def days_of_cells(folder: Path) -> list[str]:
    features = json.loads((folder / "density.geojson").read_text())["features"]
    return [one["properties"]["first_day"] for one in features]


@pytest.mark.long
def test_slots_come_as_they_are_declared(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the order of the files, and by days before that."""
    named = files[1::2][::-1]
    given = [x for f in named for x in ("--aggregate", f)]
    assert main(["density", "places", "--json", "--method", "simplex", *given]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    order = list(dict.fromkeys((row["first_day"], row["slot"]) for row in rows))
    assert order == [(f"2026-11-0{day}", slot) for day in (2, 3) for slot in ("night", "day")]


def test_slots_and_regions_are_chosen(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    region = tmp_path / "region.json"
    ring = [[0.1, 0.1], [2.0, 0.1], [2.0, 2.0], [0.1, 2.0], [0.1, 0.1]]
    region.write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}))
    assert main(["density", "places", *files, "--slot", "night", "--json",
                 "--region", str(region), "--method", "simplex"]) == 0  # fmt: skip
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["slot"] for row in rows} == {"night"}
    assert [row["cell"] for row in rows] == ["0-0-0", "other", "unlisted"] * 2
    assert all(abs(row["estimate"] - 0.82) < 0.05 for row in rows if row["cell"] == "0-0-0")


def test_earlier_windows_come_into_the_geojson_on_request(files: list[str], tmp_path: Path) -> None:
    """The tables always hold all."""
    out = tmp_path / "out"
    command = ["density", "places", *files, "--slot", "day", "--method", "simplex"]
    assert main([*command, "-o", str(out), "--every-window"]) == 0
    assert sorted(days_of_cells(out)) == ["2026-11-02"] * 9 + ["2026-11-03"] * 9
    assert (out / "density.csv").read_text().count("\n") == 1 + 2 * 10


def one_aggregate(declared: str, level: int, day: int, folder: Path) -> list[str]:
    """A file of the night of one day, at a level."""
    metric = parse_metrics(declared).metrics[f"places/night/{level}"]
    assert metric.location is not None
    values = list(places_of([metric.location]).finest)
    shares, at = np.full(len(values), 1 / len(values)), DAY + timedelta(days=day)
    found, _ = draw_aggregate(values, shares, 5_000, metric.params, np.random.default_rng(day))
    path = folder / f"{level}-{day}-{metric.params_id}.json"
    path.write_text(replace(found, metric=metric.name, definition=metric.to_dict(), first_day=at,
                            params_id=metric.params_id, last_day=at).to_json())  # fmt: skip
    return ["--aggregate", str(path)]


def test_windows_without_the_finest_level_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = DECLARED.replace("levels = [0]", "levels = [0, 1]")
    given = [*one_aggregate(both, 0, 0, tmp_path), *one_aggregate(both, 0, 1, tmp_path),
             *one_aggregate(both, 1, 1, tmp_path)]  # fmt: skip
    assert main(["density", "places", *given, "--json"]) == 0
    told = capsys.readouterr()
    assert {row["first_day"] for row in json.loads(told.out)["rows"]} == {"2026-11-03"}
    assert "slot 'night', 2026-11-02 to 2026-11-02: left out" in " ".join(told.err.split())


def test_reports_over_two_grids_make_no_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = DECLARED.replace("box = [0, 0, 8, 8]", "box = [0, 0, 9, 9]")
    given = [*one_aggregate(DECLARED, 0, 0, tmp_path), *one_aggregate(other, 0, 1, tmp_path)]
    assert main(["density", "places", *given]) == 1
    assert "the reports of 'places' are over several grids" in capsys.readouterr().err


@pytest.mark.parametrize("first", [0, 1])
def test_mixed_no_data_reports_make_no_map(
    first: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, all took the reserved values of the first: with them a share had no row to go to."""
    texts = [DECLARED, f'{DECLARED}no_data = "no_data"\n']
    given = [*one_aggregate(texts[first], 0, 0, tmp_path),
             *one_aggregate(texts[1 - first], 0, 1, tmp_path)]  # fmt: skip
    out = tmp_path / "map"
    assert main(["density", "places", *given, "-o", str(out)]) == 1
    assert "tell `no_data` from `other` and some do not" in capsys.readouterr().err
    assert list(out.iterdir()) == []


def test_refusals_name_the_way_out(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["density", "places"]) == 2
    assert main(["density", "places", *files, "--from", "2026-11-02"]) == 2
    assert main(["density", "places", *files, "--slot", "noon"]) == 1
    assert "slot 'noon': no reports of 'places' in it; there are some in" in capsys.readouterr().err
    assert main(["density", "homes", *files]) == 1
    assert "the counts are of metric 'places', not of 'homes'" in capsys.readouterr().err
    assert main(["density", "places", *files, *files[:2]]) == 1
    assert "two aggregates of one level and window" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"type": "Point", "coordinates": [1, 2]}', "its geometry is 'Point', not a Polygon"),
        ('{"type": "Polygon", "coordinates": [[[50, 50], [51, 50], [51, 51], [50, 50]]]}',
         "the region (latitude 50 to 51, longitude 50 to 51) and the box of the grid, Box(south=0"),
    ],
)  # fmt: skip
def test_bad_regions_are_refused_by_their_file(
    text: str, told: str, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "region.json"
    path.write_text(text)
    assert main(["density", "places", *files[:2], "--region", str(path)]) == 1
    error = capsys.readouterr().err
    assert told in error
    assert str(path) in error
    assert main(["density", "places", *files[:2], "--points", str(path)]) == 1
    error = capsys.readouterr().err
    assert "no column 'latitude', 'longitude'" in error
    assert str(path) in error


def test_check_warns_of_devices_that_can_be_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(DECLARED)
    assert main(["metrics", "check", str(path), "--population", "1,200", "--explain"]) == 0
    printed = capsys.readouterr().out
    assert "about 150 devices in each of 8 cohorts" in printed
    linked = re.search(r"reports of each of 2 slots on each side, (\d+)% of devices", printed)
    assert linked
    assert int(linked[1]) > 50  # one slot of the two links fewer


@pytest.mark.parametrize("row", ["nan,1", "1,-361", "1,"])
def test_points_off_the_globe_are_refused(
    row: str, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "points.csv"
    path.write_text(f"latitude,longitude\n1,1\n{row}\n")
    assert main(["density", "places", *files[:2], "--points", str(path)]) == 1
    told = capsys.readouterr().err
    assert str(path) in told
    assert "is not" in told


@pytest.mark.long
def test_trips_are_tables_without_another_metrics_map(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, name = tmp_path / "out", "trips/day/0"
    assert main(["density", "places", *files[:2], "--method", "simplex", "-o", str(out)]) == 0
    assert "density.svg, report.html" in capsys.readouterr().out
    text = DECLARED.replace("metrics.places", "metrics.trips")
    slots = next(line for line in text.splitlines() if line.startswith("slots"))
    metric = parse_metrics(text.replace(slots, "pairs = true")).metrics[name]
    assert metric.location is not None
    values = list(places_of([metric.location]).finest)
    shares = np.full(len(values), 1 / len(values))
    drawn, _ = draw_aggregate(values, shares, 8_000, metric.params, np.random.default_rng(1), name)
    trips = tmp_path / "trips.json"
    trips.write_text(
        replace(drawn, definition=metric.to_dict(), params_id=metric.params_id).to_json()
    )
    asked = ["density", "trips", "--aggregate", str(trips), "--method", "simplex", "-o", str(out)]
    assert main(asked) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "density.csv", "density.parquet", "manifest.json", "report.html", "results.json",
    ]  # fmt: skip


def test_tables_exclude_reserved_values_from_the_box(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of all answers are in the box: three quarters of these in one cell."""
    metric = parse_metrics(DECLARED + 'no_data = "no_data"\n').parts("places")[0]
    assert metric.location is not None
    values = list(places_of([metric.location], RESERVED).finest)
    shares = np.zeros(len(values))
    shares[[0, 1, -2, -1]] = 0.375, 0.125, 0.3, 0.2
    rng = np.random.default_rng(2)
    drawn, _ = draw_aggregate(values, shares, 50_000, metric.params, rng, metric.name)
    path = tmp_path / "places.json"
    path.write_text(
        replace(drawn, definition=metric.to_dict(), params_id=metric.params_id).to_json()
    )
    assert main(["density", "places", "--aggregate", str(path)]) == 0
    out = capsys.readouterr().out
    lines = [[part.strip() for part in line.strip("│ ").split("│")] for line in out.splitlines()]
    rows = {parts[0]: parts for parts in lines if len(parts) == 7}
    assert float(rows["0-0-0"][3].removesuffix(" %")) == pytest.approx(75, abs=4)
    assert float(rows["other"][2].removesuffix(" %")) == pytest.approx(30, abs=3)
    assert float(rows["no_data"][2].removesuffix(" %")) == pytest.approx(20, abs=3)
    assert rows["other"][3] == rows["no_data"][3] == ""
    assert rows["other"][1] == rows["no_data"][1] == ""


def test_shares_of_areas_are_printed_and_written(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The crowd is in the south-west at night; the name is one of the file's own properties."""
    ring = [[0, 0], [3, 0], [3, 3], [0, 3], [0, 0]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    one = {"type": "Feature", "properties": {"WARD": "[red]Old town"}, "geometry": shape}
    path = tmp_path / "wards.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [one]}))
    out = tmp_path / "out"
    given = ["density", "places", *files[:2], "-o", str(out), "--areas", str(path)]
    assert main(given) == 1
    assert "has no 'name' of 1 to 60 characters; its properties: 'WARD'" in capsys.readouterr().err
    assert main([*given, "--area-name", "WARD"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "[red]Old town" in told
    assert "People are taken to be even within a cell" in told
    features = json.loads((out / "areas.geojson").read_text())["features"]
    found = features[0]["properties"]
    assert found["low"] < 0.825 < found["high"]  # .82, and an eighth of two cells of .02
    assert found["detected"]
    assert "[red]Old town" in (out / "report.html").read_text()


@pytest.mark.parametrize("command", ["density", "flows"])
@pytest.mark.parametrize(
    "others",
    [["--database", "sqlite:///x.sqlite"], ["--collector", "http://127.0.0.1:1"]],
)
def test_a_source_that_is_typed_is_never_ignored(
    command: str, others: list[str], files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "places", *files[:2], *others]) == 2
    assert f"give one of --aggregate and {others[0]}" in " ".join(capsys.readouterr().err.split())
    assert main([command, "places"]) == 2
    assert "name --collector URL or --database URL" in " ".join(capsys.readouterr().err.split())


def test_a_database_of_the_environment_comes_last(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAPPOR_DATABASE", "sqlite:///nowhere.sqlite")
    assert main(["density", "places", *files[:2]]) == 0
    assert "0-0-0" in capsys.readouterr().out
    assert main(["density", "places"]) == 1
    assert "nowhere.sqlite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--area-name", "title"], "--area-name goes with --areas"),
        (["--every-window"], "--every-window goes with -o"),
    ],
)
def test_options_without_a_use_are_refused(
    words: list[str], message: str, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["density", "places", *files[:2], *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_port_is_never_another_one(capsys: pytest.CaptureFixture[str]) -> None:
    """65536 more is the same port to a socket, and the key would go there."""
    assert main(["aggregate", "places", "--collector", f"http://127.0.0.1:{65536 + 8000}"]) == 1
    assert "is not the address of a host: Port out of range" in capsys.readouterr().err
    with pytest.raises(RemoteError, match="out of range"):
        Service(f"http://127.0.0.1:{65536 + 8000}", "key")
