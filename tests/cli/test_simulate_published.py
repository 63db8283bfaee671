"""`rappor simulate`: the register, and the published experiments in small forms."""

import json
from pathlib import Path

import pytest

from rappor_cli import map_experiments, progress
from simulations.experiments import longitudinal, poisoning, processes
from tests.cli.command import Rappor
from tests.flow_support import flow_text
from tests.metric_texts import declaration
from tests.simulations.published_support import shrink

NAMES = ["processes", "homepages", "longitudinal", "poisoning"]
OPTIONS = {
    "processes": ["--runs", "2", "--devices", "500"],
    "homepages": ["--runs", "1", "--reports", "500000"],
    "longitudinal": ["--devices", "2000"],
    "poisoning": ["--runs", "2", "--reports", "100000"],
}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)
    monkeypatch.setattr(processes, "WAYS", {"each process once": processes.each_once})
    monkeypatch.setattr(poisoning, "WAYS", poisoning.WAYS[:1])
    monkeypatch.setattr(longitudinal, "PERIODS", (1,))


@pytest.mark.parametrize(  # one command runs all: the quickest shows it
    "name",
    [
        "longitudinal",
        *(pytest.param(one, marks=pytest.mark.long) for one in NAMES if one[0] != "l"),
    ],
)
@pytest.mark.usefixtures("tiny")
def test_an_experiment_leaves_a_table_and_a_manifest(name, tmp_path, rappor) -> None:
    command = ["simulate", name, *OPTIONS[name], "--seed", "7", "-o", str(tmp_path)]
    shown = rappor(*command)
    manifest = json.loads((tmp_path / f"{name}-manifest.json").read_text())
    assert "seed 7" in shown
    assert "…" not in shown  # no figure is cut
    assert manifest["experiment"] == name
    assert manifest["seed"] == 7
    assert manifest["rows"]
    assert manifest["versions"]["numpy"]
    if name not in ("longitudinal", "processes"):
        return  # the others take their seed in the same way, and longer
    again = json.loads(rappor(*command, "--json"))
    assert again["rows"] == manifest["rows"]  # the seed says everything
    assert again["settings"] == manifest["settings"]


@pytest.mark.usefixtures("tiny")
def test_small_is_small_and_seeds_are_fresh(tmp_path: Path, rappor: Rappor) -> None:
    seeds = set()
    for _ in range(2):
        command = ["simulate", "longitudinal", "--small", "--json", "-o", str(tmp_path)]
        result = json.loads(rappor(*command))
        assert result["settings"]["devices"] == 20_000
        seeds.add(result["seed"])
    assert len(seeds) == 2


@pytest.mark.parametrize("name", ["longitudinal", "normal", "fleet", "flow-coverage"])
def test_an_impossible_folder_is_refused_before_drawing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rappor: Rappor
) -> None:
    def drawing(*_: object) -> None:
        pytest.fail("the experiment was run")

    for module in (progress, map_experiments):
        monkeypatch.setattr(module, "progress_bar", drawing)
    (tmp_path / "file").write_text("")
    said = rappor.refused("simulate", name, "-o", tmp_path / "file" / "below")
    assert "file/below' cannot be written" in said


METRICS = declaration(
    "usual_place", "location", grid="quadkey", box=[42.2, -72.7, 42.4, -72.5], levels=[12],
    encoding="symbol", num_symbols=2, num_cohorts=16, mode="memo", epsilon_infinity=4.0,
    epsilon_one=2.0,
)  # fmt: skip
COMMAND = ["simulate", "location-coverage", "--devices", "2000", "--maps", "1", "--seed", "1"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate working directory, where `simulation-output` is made."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def metrics(tmp_path: Path) -> str:
    path = tmp_path / "metrics.toml"
    path.write_text(METRICS)
    return str(path)


def test_tables_have_a_row_each_metric(metrics, rappor, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = " ".join(rappor(*COMMAND, metrics, "--devices", "1000").split())
    for words in ("usual_place │ 2,000", "usual_place │ 1,000", "top 5", "by map"):
        assert words in shown


def test_no_data_is_drawn_and_decoded(tmp_path: Path, rappor: Rappor) -> None:
    path = tmp_path / "metrics.toml"
    bits = 'encoding = "one_hot"\nmechanism = "l-osue"\nmax_memoized_values = 3\n'
    symbols = 'encoding = "symbol"\nnum_symbols = 2\nnum_cohorts = 16\n'
    path.write_text(METRICS.replace(symbols, bits) + 'no_data = "no_data"\n')
    (row,) = json.loads(rappor(*COMMAND, path, "--json"))["rows"]
    assert 0.5 < row["all"] <= 1
    assert 0 <= row["found_by_map"] <= 1


def test_trips_have_no_map_and_are_left_out(metrics: str, tmp_path: Path, rappor: Rappor) -> None:
    trips = METRICS.replace("usual_place", "trips") + "pairs = true\n"
    path = tmp_path / "trips.toml"
    path.write_text(trips)
    assert "no such metric of kind 'location' with a map" in rappor.refused(*COMMAND, path)
    path.write_text(METRICS + trips)
    rows = json.loads(rappor(*COMMAND, path, "--json"))["rows"]
    assert [row["metric"] for row in rows] == ["usual_place"]


FLOW_COMMAND = ["simulate", "flow-coverage", "--devices", "2000", "--draws", "1", "--seed", "1"]


def test_a_matrix_of_ones_own_is_drawn(tmp_path: Path, rappor: Rappor) -> None:
    (tmp_path / "metrics.toml").write_text(flow_text(epsilon="4.0", num_symbols="56"))
    (tmp_path / "census.csv").write_text("origin,destination,count\n1-0-0,1-0-0,3\n1-0-0,1-1-1,1\n")
    mine = ["--metrics", str(tmp_path / "metrics.toml"), "--flows", str(tmp_path / "census.csv")]
    (row,) = json.loads(rappor(*FLOW_COMMAND, *mine, "--json"))["rows"]
    assert row["epsilon"] == pytest.approx(4.0, abs=1e-3)
    assert (row["detected"], row["wrong"]) == (2, 0)
    rappor(*FLOW_COMMAND, *mine, "--epsilon", "2", code=2)
    said = rappor.refused(*FLOW_COMMAND, *mine, "--metric", "walks")
    assert "0 metrics of kind 'flow' named 'walks'" in said
