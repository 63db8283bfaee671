"""`rappor density` and the tracking part of `metrics check`."""

import json
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from decoder.density.cells import places_of
from decoder.errors import RemoteError
from decoder_service.client import Service
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import declared_aggregate, draw_aggregate
from tests.cli.command import Rappor
from tests.cli.density_support import DAY, DECLARED


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two slots and two days of a crowd that sits in the south-west, and by day has moved."""
    folder = tmp_path_factory.mktemp("aggregates")
    rng, paths = np.random.default_rng(0), []
    for metric in parse_metrics(DECLARED).parts("places"):
        values = list(places_of([metric.location]).finest)
        for day in (0, 1):
            shares = np.full(10, 0.02)
            shares[8 if day and metric.location.slot == "day" else 0] = 0.82
            found, _ = draw_aggregate(values, shares, 20_000, metric.params, rng, metric.name)
            at = DAY + timedelta(days=day)
            path = folder / f"{metric.location.slot}-{day}.json"
            path.write_text(declared_aggregate(found, metric, at, at).to_json())
            paths += ["--aggregate", str(path)]
    return paths


def test_maps_changes_and_tracking_are_printed_together(files, tmp_path, rappor) -> None:
    points = tmp_path / "points.csv"
    points.write_text("latitude,longitude\n1.0,1.0\n")
    rappor("density", "places", *files, "-o", tmp_path / "out", "--points", points)
    assert "re-linked" in rappor.err
    result = " ".join(rappor.out.split())
    assert "0-0-0" in result
    assert "is detected 8 times in 10" in result
    assert "day: change from the first window" in result
    assert "not distinguishable" in result
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [
        "density.csv", "density.geojson", "density.parquet", "density.svg",
        "manifest.json", "map.json", "map_changes.json", "report.html", "results.json",
    ]  # fmt: skip
    assert days_of_cells(tmp_path / "out") == ["2026-11-03"] * 2 * 9
    rappor("density", "places", *files, "-o", tmp_path / "2", "--points", points, "--on", "local:2")
    for name in names:
        assert (tmp_path / "2" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def days_of_cells(folder: Path) -> list[str]:
    features = json.loads((folder / "density.geojson").read_text())["features"]
    return [one["properties"]["first_day"] for one in features]


def test_slots_and_regions_are_chosen(files: list[str], tmp_path: Path, rappor: Rappor) -> None:
    region = tmp_path / "region.json"
    ring = [[0.1, 0.1], [2.0, 0.1], [2.0, 2.0], [0.1, 2.0], [0.1, 0.1]]
    region.write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}))
    simplex = ("--method", "simplex", "--json")
    rappor("density", "places", *files, "--slot", "night", "--region", region, *simplex)
    rows = json.loads(rappor.out)["rows"]
    assert {row["slot"] for row in rows} == {"night"}
    assert [row["cell"] for row in rows] == ["0-0-0", "other", "unlisted"] * 2
    assert all(abs(row["estimate"] - 0.82) < 0.05 for row in rows if row["cell"] == "0-0-0")


def test_earlier_windows_come_into_the_geojson_on_request(files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["density", "places", *files, "--slot", "day", "--method", "simplex"]
    assert main([*command, "-o", str(out), "--every-window"]) == 0
    assert sorted(days_of_cells(out)) == ["2026-11-02"] * 9 + ["2026-11-03"] * 9
    assert (out / "density.csv").read_text().count("\n") == 1 + 2 * 10


def one_aggregate(declared: str, level: int, day: int, folder: Path) -> list[str]:
    """A file of the night of one day, at a level."""
    metric = parse_metrics(declared).metrics[f"places/night/{level}"]
    values = list(places_of([metric.location]).finest)
    shares, at = np.full(len(values), 1 / len(values)), DAY + timedelta(days=day)
    found, _ = draw_aggregate(values, shares, 5_000, metric.params, np.random.default_rng(day))
    path = folder / f"{level}-{day}-{metric.params_id}.json"
    path.write_text(declared_aggregate(found, metric, at, at).to_json())
    return ["--aggregate", str(path)]


def test_windows_without_the_finest_level_are_left_out(tmp_path: Path, rappor: Rappor) -> None:
    both = DECLARED.replace("levels = [0]", "levels = [0, 1]")
    given = [*one_aggregate(both, 0, 0, tmp_path), *one_aggregate(both, 0, 1, tmp_path),
             *one_aggregate(both, 1, 1, tmp_path)]  # fmt: skip
    rappor("density", "places", *given, "--json")
    assert {row["first_day"] for row in json.loads(rappor.out)["rows"]} == {"2026-11-03"}
    assert "slot 'night', 2026-11-02 to 2026-11-02: left out" in " ".join(rappor.err.split())


def test_reports_over_two_grids_make_no_map(tmp_path: Path, rappor: Rappor) -> None:
    other = DECLARED.replace("box = [0, 0, 8, 8]", "box = [0, 0, 9, 9]")
    given = [*one_aggregate(DECLARED, 0, 0, tmp_path), *one_aggregate(other, 0, 1, tmp_path)]
    said = rappor.refused("density", "places", *given)
    assert "the reports of 'places' are over several grids" in said


@pytest.mark.parametrize("first", [0, 1])
def test_mixed_no_data_reports_make_no_map(first: int, tmp_path: Path, rappor: Rappor) -> None:
    texts = [DECLARED, f'{DECLARED}no_data = "no_data"\n']
    given = [*one_aggregate(texts[first], 0, 0, tmp_path),
             *one_aggregate(texts[1 - first], 0, 1, tmp_path)]  # fmt: skip
    out = tmp_path / "map"
    said = rappor.refused("density", "places", *given, "-o", out)
    assert "tell `no_data` from `other` and some do not" in said
    assert list(out.iterdir()) == []


def test_refusals_name_the_way_out(files: list[str], rappor: Rappor) -> None:
    rappor("density", "places", code=2)
    rappor("density", "places", *files, "--from", "2026-11-02", code=2)
    said = rappor.refused("density", "places", *files[:2], "--area-name", "title", code=2)
    assert "--area-name goes with --areas" in said
    said = rappor.refused("density", "places", *files[:2], "--every-window", code=2)
    assert "--every-window goes with -o" in said
    said = rappor.refused("density", "places", *files, "--slot", "noon")
    assert "slot 'noon': no reports of 'places' in it; there are some in" in said
    said = rappor.refused("density", "homes", *files)
    assert "the counts are of metric 'places', not of 'homes'" in said
    said = rappor.refused("density", "places", *files, *files[:2])
    assert "two aggregates of one level and window" in said


@pytest.mark.parametrize("row", ["nan,1", "1,-361", "1,"])
def test_points_off_the_globe_are_refused(row, files, tmp_path, rappor) -> None:
    path = tmp_path / "points.csv"
    path.write_text(f"latitude,longitude\n1,1\n{row}\n")
    result = rappor.refused("density", "places", *files[:2], "--points", path)
    assert str(path) in result
    assert "is not" in result


def test_shares_of_areas_are_printed_and_written(files, tmp_path, rappor) -> None:
    ring = [[0, 0], [3, 0], [3, 3], [0, 3], [0, 0]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    one = {"type": "Feature", "properties": {"WARD": "[red]Old town"}, "geometry": shape}
    path = tmp_path / "wards.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [one]}))
    out = tmp_path / "out"
    given = ["density", "places", *files[:2], "-o", str(out), "--areas", str(path)]
    assert "has no 'name' of 1 to 60 characters; its properties: 'WARD'" in rappor.refused(*given)
    result = " ".join(rappor(*given, "--area-name", "WARD").split())
    assert "[red]Old town" in result
    assert "People are taken to be even within a cell" in result
    features = json.loads((out / "areas.geojson").read_text())["features"]
    found = features[0]["properties"]
    assert found["low"] < 0.825 < found["high"]  # .82, and an eighth of two cells of .02
    assert found["detected"]
    assert "[red]Old town" in (out / "report.html").read_text()


@pytest.mark.parametrize("command", ["density", "flows"])
@pytest.mark.parametrize(
    "others", [["--database", "sqlite:///x.sqlite"], ["--collector", "http://127.0.0.1:1"]]
)
def test_a_source_that_is_typed_is_never_ignored(command, others, files, rappor) -> None:
    said = rappor.refused(command, "places", *files[:2], *others, code=2)
    assert f"give one of --aggregate and {others[0]}" in said
    assert "name --collector URL or --database URL" in rappor.refused(command, "places", code=2)


def test_a_database_of_the_environment_comes_last(files, monkeypatch, rappor) -> None:
    monkeypatch.setenv("RAPPOR_DATABASE", "sqlite:///nowhere.sqlite")
    assert "0-0-0" in rappor("density", "places", *files[:2])
    assert "nowhere.sqlite" in rappor.refused("density", "places")


def test_a_port_is_never_another_one(rappor: Rappor) -> None:
    said = rappor.refused("aggregate", "places", "--collector", f"http://127.0.0.1:{65536 + 8000}")
    assert "is not the address of a host: Port out of range" in said
    with pytest.raises(RemoteError, match="out of range"):
        Service(f"http://127.0.0.1:{65536 + 8000}", "key")


class Blocks:
    """A collector that serves each sub-metric over a different range of days, in blocks."""

    def __init__(self, text: str, served: dict[str, list[tuple[int, int]]]) -> None:
        self.metrics = parse_metrics(text).metrics
        self.served = served
        self.period = "day"
        self.rng = np.random.default_rng(0)

    def listed(self, *_: object) -> dict[str, object]:
        rows = []
        for name, found in self.served.items():
            days = [str(DAY + timedelta(day)) for day in (found[0][0], found[-1][1])]
            served = dict(zip(("first_day", "last_day"), days, strict=True))
            rows.append({"name": name, "definition": {"period": self.period}, "served": served})
        return {"metrics": rows}

    def fetch(self, _: str, name: str, *, first: date, last: date) -> Aggregate:
        start, end = ((day - DAY).days for day in (first, last))
        inside = [(a, b) for a, b in self.served[name] if start <= a and b <= end]
        if end > self.served[name][-1][1] or not inside:
            raise RemoteError("not served", {"reason": "no_reports"})
        metric = self.metrics[name]
        values = list(places_of([metric.location]).finest)
        shares = np.full(len(values), 1 / len(values))
        found, _ = draw_aggregate(values, shares, 4_000, metric.params, self.rng, name)
        days = [DAY + timedelta(day) for day in (inside[0][0], inside[-1][1])]
        return declared_aggregate(found, metric, *days)


ASKED = ("density", "places", "--collector", "http://127.0.0.1:9", "--method", "simplex")


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Blocks:
    """Two levels and two slots, whose days were merged and sealed differently."""
    weeks = [(0, 6), (7, 13), (14, 20)]
    late = [(3, 6), (7, 11), (14, 17)]
    found = Blocks(
        DECLARED.replace("levels = [0]", "levels = [0, 1]"),
        {"places/night/0": weeks, "places/night/1": late, "places/day/0": late,
         "places/day/1": weeks[:2], "elsewhere/day/0": [(0, 30)]},
    )  # fmt: skip
    monkeypatch.setattr("decoder.sources.aggregates.ask_json", found.listed)
    monkeypatch.setattr("decoder.sources.aggregates.fetch_aggregate", found.fetch)
    return found


def test_slots_and_levels_share_the_asked_windows(blocks, tmp_path, rappor) -> None:
    rappor(*ASKED, "--by", "week", "--json", "-o", tmp_path)
    rows = json.loads(rappor.out)["rows"]
    found: dict[str, set[tuple[int, int]]] = {}
    for row in rows:
        days = tuple((date.fromisoformat(row[key]) - DAY).days for key in ("first_day", "last_day"))
        found.setdefault(row["slot"], set()).add(days)  # type: ignore[arg-type]
    assert {slot: sorted(days) for slot, days in found.items()} == {
        "night": [(0, 6), (7, 13), (14, 20)], "day": [(0, 6), (7, 13)],
    }  # fmt: skip
    assert {row["reports"] for row in rows} == {8_000}
    assert {row["cell"][0] for row in rows} == {"1", "o"}
    assert "'day', 2026-11-16 to 2026-11-22: left out, as it has no reports" in rappor.err


def test_days_without_period_ends_are_not_asked(blocks: Blocks, rappor: Rappor) -> None:
    """Reports of a week are dated by its Sunday: 2 November 2026 is a Monday."""
    blocks.period = "week"
    blocks.served = {name: [(6, 6), (13, 13)] for name in list(blocks.served)[:4]}
    rappor(*ASKED, "--by", "day", "--json")
    assert rappor.err == ""
    days = {row["first_day"] for row in json.loads(rappor.out)["rows"]}
    assert days == {"2026-11-08", "2026-11-15"}


@pytest.mark.parametrize(
    ("metric", "window", "said"),
    [
        ("place", [], ["'place' is known here", "elsewhere, places"]),
        ("places", ["--from", "2026-12-24"], ["2026-11-02 to 2026-11-22", "2026-12-24"]),
        ("elsewhere", [], ["17 reports", "min_reports", "rappor close DAY"]),
    ],
)
def test_absent_maps_have_reasons(metric, window, said, blocks, monkeypatch, rappor) -> None:
    listed = blocks.listed()
    *_, elsewhere = listed["metrics"]  # type: ignore[misc]
    elsewhere.update(served=None, accepted=17)
    monkeypatch.setattr("decoder.sources.aggregates.ask_json", lambda *_: listed)
    result = rappor.refused("density", metric, "--collector", "http://127.0.0.1:9", *window)
    assert all(words in result for words in said), result


def test_a_failing_collector_leaves_no_partial_map(blocks, monkeypatch, rappor) -> None:
    asked: list[str] = []

    def dies(*about: object, **window: date) -> Aggregate:
        asked.append(str(about[1]))
        if len(asked) > 3:
            raise RemoteError("no collector answers at http://127.0.0.1:9: gone")
        return blocks.fetch(*about, **window)  # type: ignore[arg-type]

    monkeypatch.setattr("decoder.sources.aggregates.fetch_aggregate", dies)
    assert "gone" in rappor.refused(*ASKED, "--by", "week")
    assert len(asked) == 4


def test_reports_of_an_older_version_are_told(blocks, monkeypatch, rappor) -> None:
    now = blocks.listed()
    rows: list[dict[str, object]] = now["metrics"]  # type: ignore[assignment]
    older = [row | {"params_id": "0ff1ce"} for row in rows if row["name"] == "places/day/0"]
    for row in rows:
        row["params_id"] = "ab"
    monkeypatch.setattr(
        "decoder.sources.aggregates.ask_json", lambda *_: {"metrics": [*older, *rows]}
    )
    rappor(*ASKED)
    way_out = "rappor aggregate places/day/0 --params-id 0ff1ce -o FILE"
    assert "left out: older versions of 'places'" in rappor.err
    assert way_out in rappor.err
    for row in rows:
        row.update(served=None, accepted=0)
    assert way_out in rappor.refused(*ASKED)
