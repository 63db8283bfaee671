"""The adapter of Khiops: with a process that plays its part, and with Khiops where it is.

rappor release setup-khiops FOLDER
RAPPOR_KHIOPS=FOLDER pytest tests/publication/test_khiops.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from disclosure_control.co_clustering import co_cluster, co_cluster_by_khiops
from disclosure_control.co_clustering.khiops import default_folder, set_up
from disclosure_control.errors import EngineError
from tests.publication.iris import iris_pairs

REAL = Path(os.environ.get("RAPPOR_KHIOPS", "/nowhere"))
NULL_COST, KHIOPS_COST = 5959.386818, 5647.855077  # what Khiops 11.0.1 prints for Iris
LOG_VALUES = 7.02  # nats: log 150 + log 15 - log 2, by which Khiops's null model is cheaper

READS = """
import json, os, sys
from pathlib import Path
folder = Path(sys.argv[3])
assert sys.argv[1] == "-I" and sys.argv[2].endswith("khiops_program.py"), sys.argv
assert os.environ["PATH"].startswith(os.environ["EXPECTED"]), os.environ["PATH"]
lines = (folder / "pairs.txt").read_text().splitlines()
assert lines[0] == "row\\tpart" and len(lines) == 751
pairs = [tuple(map(int, line.split("\\t"))) for line in lines[1:]]
kinds = {row: part for row, part in pairs if part >= 12}
groups = {
    "row": [[row for row, kind in kinds.items() if kind == one] for one in (12, 13, 14)],
    "part": [[part for part in range(15) if part % 3 == one] for one in range(3)],
}
"""
WRITES = '(folder / "groups.json").write_text(json.dumps(groups))'


def environment(folder: Path, program: str) -> Path:
    """A folder with a `bin/python` that runs a program instead."""
    (folder / "bin").mkdir(parents=True)
    (folder / "program.py").write_text(program)
    python = folder / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder}/program.py" "$@"\n')
    python.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def _expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXPECTED", str(tmp_path / "bin"))


def test_pairs_go_to_a_process_and_its_groups_come_back(tmp_path: Path) -> None:
    model = co_cluster_by_khiops(iris_pairs(), environment(tmp_path, READS + WRITES))
    assert model.finest.counts.shape == (3, 3)
    assert model.finest.cluster_sizes.tolist() == [50, 50, 50]
    assert model.partition.parts.tolist() == [0, 1, 2] * 5
    assert len(model.merges) == 4


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.exit('no licence for this machine')", "no licence for this machine"),
        (READS, "no groups"),
        (READS + "groups['row'].pop()\n" + WRITES, "100 values of 150 in its groups of rows"),
        (READS + "groups['part'][0].append(1)\n" + WRITES, "16 values of 15"),
        (READS + "groups = []\n" + WRITES, "0 values of 150"),
        ("import time; time.sleep(60)", "longer than 0.5 s"),
    ],
)
def test_what_goes_wrong_there_is_told(tmp_path: Path, program: str, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        co_cluster_by_khiops(
            iris_pairs(), environment(tmp_path, program), 0.5 if "sleep" in program else 60
        )


def test_an_environment_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="setup-khiops"):
        co_cluster_by_khiops(iris_pairs(), tmp_path / "none")


def test_the_set_up_says_what_stood_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match="no virtual environment"):
        set_up(tmp_path)
    with pytest.raises(EngineError, match="no virtual environment"):
        set_up(tmp_path / "file")


@pytest.mark.long
def test_an_index_without_khiops_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real environment and its real pip, and no index."""
    monkeypatch.setattr("disclosure_control.co_clustering.khiops.PIP_OPTIONS", ("--no-index",))
    with pytest.raises(EngineError, match=r"does not serve khiops>=11.*no matching|No matching"):
        set_up(tmp_path / "environment")


def test_where_it_is_looked_for() -> None:
    assert default_folder({"RAPPOR_KHIOPS": "/a"}) == Path("/a")
    assert default_folder({"XDG_DATA_HOME": "/b"}) == Path("/b/rappor-telemetry/khiops")
    assert default_folder({}).parts[-2:] == ("rappor-telemetry", "khiops")


@pytest.mark.skipif(not (REAL / "bin/python").exists(), reason="RAPPOR_KHIOPS names no Khiops")
def test_khiops_itself_finds_what_our_engine_finds() -> None:
    theirs, ours = co_cluster_by_khiops(iris_pairs(), REAL), co_cluster(iris_pairs())
    assert theirs.finest.counts.shape == (3, 8)
    assert ours.cost <= theirs.cost + 1e-6
    assert ours.cost == pytest.approx(KHIOPS_COST, abs=1.1)
    assert ours.null_cost - LOG_VALUES == pytest.approx(NULL_COST, abs=0.01)
    for axis in (0, 1):
        first, second = (one.partition.axes[axis].tolist() for one in (ours, theirs))
        pairs = set(zip(first, second, strict=True))
        assert len(pairs) == len(set(first)) == len(set(second))
