"""Pictures are drawn whatever the user's matplotlib settings are (seen at deepTools #1416)."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decoder.density.maps import DensityOptions, estimate_density
from decoder.errors import OutputError
from decoder.files import write_files
from decoder.output.density_png import write_picture
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate
from tests.metric_texts import declaration

SETTINGS = """\
text.usetex: True
font.family: No Such Font
savefig.dpi: 10
savefig.bbox: tight
figure.facecolor: red
axes.prop_cycle: cycler('color', ['k'])
backend: nonsense
"""


@pytest.fixture(scope="module")
def counts() -> Aggregate:
    text = declaration(
        "places", "location", grid="square", box=[0, 0, 9, 9], rows=3, columns=3, levels=[0],
        mode="memo", encoding="symbol", num_symbols=4, num_cohorts=32, epsilon_infinity=3.0,
        epsilon_one=2.0,
    )  # fmt: skip
    (metric,) = parse_metrics(text).parts("places")
    assert metric.location is not None
    values = [*metric.location.grid.cells(0), "other"]
    drawn, _ = draw_aggregate(
        values, np.full(10, 0.1), 20_000, metric.params, np.random.default_rng(1), metric.name
    )
    return replace(drawn, definition=metric.to_dict(), params_id=metric.params_id)


@pytest.mark.long
def test_settings_of_the_user_are_not_used(counts: Aggregate, tmp_path: Path) -> None:
    """Of a notebook's kernel, whose backend is not installed, and of a matplotlibrc."""
    maps = [estimate_density([counts], DensityOptions("simplex", repeats=1.0))]
    write_picture(maps, tmp_path / "plain.png")
    (tmp_path / "counts.json").write_text(counts.to_json())
    (tmp_path / "matplotlibrc").write_text(SETTINGS)
    settings = {"MPLBACKEND": "module://no_such_module.backend",
                "MATPLOTLIBRC": str(tmp_path / "matplotlibrc")}  # fmt: skip
    words = ["density", "places", "--aggregate", tmp_path / "counts.json", "--method", "simplex",
             "--repeats", "1", "-o", tmp_path / "out"]  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-m", "rappor_cli", *map(str, words)], env=os.environ | settings,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-500:]
    drawn = (tmp_path / "out" / "density.png").read_bytes()
    assert drawn == (tmp_path / "plain.png").read_bytes()


@pytest.mark.parametrize("error", [OSError("no space"), ValueError("a defect")])
def test_no_file_is_left_when_one_fails(tmp_path: Path, error: Exception) -> None:
    (tmp_path / "a.csv").write_text("before")

    def failing(path: Path) -> None:
        path.write_text("half")
        raise error

    with pytest.raises((OutputError, ValueError)):
        write_files(tmp_path, {"a.csv": lambda path: path.write_text("new"), "b.png": failing})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": "before"}
