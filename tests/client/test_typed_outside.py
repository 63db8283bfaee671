"""`py.typed` from outside: type checkers find the annotations of an installed package."""

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from metric_design.typed_accessors import python_text
from rappor_core.metrics.file import parse_metrics
from tests.client.conftest import METRICS

ROOT = Path(__file__).parents[2]
APP = """\
from client_sdk import Client, load_metrics
from decoder import DecodeOptions
from typed_metrics import Metrics

client = Client.open(load_metrics("m.toml"), state_dir="s", collector="http://x", consent=True)
taken: bool = client.record("homepage", "x")
Metrics(client).theme.record("dark")
Client.open("m.toml", state_dir="s", collector="http://x")
client.record(3, "x")
Metrics(client).theme.record("pink")
DecodeOptions(alpha="much")
"""
WRONG = {8, 9, 10, 11}


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an app and an environment that has the wheel, and no source tree."""
    folder = tmp_path_factory.mktemp("outside")
    venv.create(folder / "env", with_pip=False)
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(site), str(ROOT)], check=True)
    (folder / "app.py").write_text(APP)
    (folder / "typed_metrics.py").write_text(python_text(parse_metrics(METRICS)))
    return folder


@pytest.mark.long
def test_mypy_finds_the_annotations_of_the_wheel(outside: Path) -> None:
    python = str(outside / "env" / "bin" / "python")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "app.py"],
        cwd=outside, env={"PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert {int(line) for line in re.findall(r"^app\.py:(\d+): error", done.stdout, re.M)} == WRONG
    assert "py.typed" not in done.stdout
