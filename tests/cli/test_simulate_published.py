"""`rappor simulate`: the register, and the published experiments in small forms."""

import json
from pathlib import Path

import pytest

from rappor_cli.main import main
from simulations.experiments import longitudinal, poisoning, processes
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
def test_an_experiment_leaves_a_table_and_a_manifest(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", name, *OPTIONS[name], "--seed", "7", "-o", str(tmp_path)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    manifest = json.loads((tmp_path / f"{name}-manifest.json").read_text())
    assert "seed 7" in shown
    assert "…" not in shown  # no figure is cut
    assert manifest["experiment"] == name
    assert manifest["seed"] == 7
    assert manifest["rows"]
    assert manifest["versions"]["numpy"]
    if name not in ("longitudinal", "processes"):
        return  # the others take their seed in the same way, and longer
    assert main([*command, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["rows"] == manifest["rows"]  # the seed says everything
    assert again["settings"] == manifest["settings"]


@pytest.mark.usefixtures("tiny")
def test_small_is_small_and_seeds_are_fresh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = set()
    for _ in range(2):
        command = ["simulate", "longitudinal", "--small", "--json", "-o", str(tmp_path)]
        assert main(command) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["settings"]["devices"] == 20_000
        seeds.add(told["seed"])
    assert len(seeds) == 2


@pytest.mark.parametrize("name", ["longitudinal", "normal", "fleet", "flow-coverage"])
def test_an_impossible_folder_is_refused_before_drawing(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def drawing(*_: object) -> None:
        pytest.fail("the experiment was run")

    monkeypatch.setattr("rappor_cli.progress.progress_bar", drawing)
    (tmp_path / "file").write_text("")
    assert main(["simulate", name, "-o", str(tmp_path / "file" / "below")]) == 1
    assert "file/below' cannot be written" in capsys.readouterr().err
