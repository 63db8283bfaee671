"""Typed accessors for the Python client: what mypy takes and refuses, and that they record."""

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client
from client_sdk.testing import MemoryCollector
from metric_design.typed_accessors import python_text
from rappor_cli.main import main
from rappor_core.errors import MetricsFileError
from rappor_core.metrics.file import parse_metrics
from tests.client.conftest import METRICS
from tests.core.test_typescript import COIN, TEXT
from tests.metric_texts import declaration

ROOT = Path(__file__).parents[2]
GOOD = """
done: bool = metrics.homepage.record("https://example.org/")
metrics.theme.record("dark")
metrics.crashed.record(done)
metrics.density.record_location(42.36, -72.54)
metrics.trips.record_trip((42.36, -72.54), (42.37, -72.5))
metrics.startup.record(812.5)
metrics.crashes.add()
metrics.crashes.add(2)
metrics.site.record("example.org")
metrics.commute.record_location(42.36, -72.54)
metrics.theme_crashed.record(("dark", True))
"""
BAD = (
    "metrics.hompage.record('x')",
    "metrics.homepage.record(3)",
    "metrics.theme.record('pink')",
    "metrics.density.record('0-0-0')",
    "metrics.trips.record_location(42, 3)",
    "metrics.trips.record_trip((42.36,), (42.37, -72.5))",
    "metrics.startup.add(1)",
    "metrics.commute.record('a>b')",
    "metrics.theme_crashed.record(('dark', 'true'))",
)
HEAD = "from client_sdk import Client\nfrom typed_metrics import Metrics\n"
TAKES = "\n\ndef use(client: Client) -> None:\n    metrics = Metrics(client)\n"


def mypy(folder: Path, file: str) -> str:
    """What mypy prints of a file, strictly, where the packages are installed."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), file],
        cwd=folder, env={"MYPYPATH": f"{folder}:{ROOT}"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.stdout


@pytest.mark.long
def test_mypy_takes_only_what_is_declared(tmp_path, capsys) -> None:
    source, output = tmp_path / "metrics.toml", tmp_path / "typed_metrics.py"
    source.write_text(TEXT)
    asked = ["metrics", "compile", str(source), "--python", "-o"]
    assert main([*asked, str(output)]) == 0
    assert output.read_text() == python_text(parse_metrics(TEXT))
    assert output.read_text().isascii()
    assert main([*asked, str(tmp_path / "metrics.json")]) == 2
    assert ".py" in capsys.readouterr().err
    lines = [*GOOD.strip().splitlines(), *BAD]
    (tmp_path / "app.py").write_text(HEAD + TAKES + "".join(f"    {line}\n" for line in lines))
    result = mypy(tmp_path, "app.py")
    wrong = {int(number) for number in re.findall(r"^app.py:(\d+): error", result, re.M)}
    first = len((HEAD + TAKES).splitlines()) + 1 + len(GOOD.strip().splitlines())
    assert wrong == set(range(first, first + len(BAD))), result


def typed(folder: Path, text: str) -> Any:
    """The module that is written for a metrics file."""
    path = folder / "typed_metrics.py"
    path.write_text(python_text(parse_metrics(text)))
    spec = spec_from_file_location("typed_metrics", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_accessor_records_as_the_client_does(tmp_path) -> None:
    file = parse_metrics(METRICS)
    with (
        MemoryCollector(file.metrics) as collector,
        Client.open(
            file, state_dir=tmp_path / "state", collector=collector.url, consent=True,
        ) as client,
    ):  # fmt: skip
        metrics = typed(tmp_path, METRICS).Metrics(client)
        assert metrics.homepage.record("https://example.org/")
        assert metrics.theme.record("dark")
        assert not metrics.theme.record("pink")
        assert client.flush(10)
        assert collector.counted() == {"homepage": 1, "theme": 1}


def test_names_unknown_to_python_are_made_so(tmp_path) -> None:
    text = "".join(
        declaration(name, "boolean", **COIN) for name in ('"start.page"', "is", "a1b", "a_1b")
    )
    metrics = typed(tmp_path, text).Metrics(None)
    assert list(vars(metrics)) == ["start_page", "is_", "a1b", "a_1b"]
    both = declaration('"start.page"', "boolean", **COIN) + declaration(
        "start-page", "boolean", **COIN
    )
    with pytest.raises(MetricsFileError, match=r"'start.page' and 'start-page': both are"):
        python_text(parse_metrics(both))
