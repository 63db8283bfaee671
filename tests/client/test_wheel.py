"""The device's part alone can be built as a wheel, and works with nothing but mmh3 beside it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import mmh3
import pytest

ROOT = Path(__file__).parents[2]
HOME = """
[metrics.home]
kind = "location"
description = "Where devices are at night and at work"
owner = "maps@example.org"
expires = 2099-06-30
grid = "quadkey"
box = [40.0, -9.0, 41.0, -8.0]
levels = [10]
slots = ["night 22-6", "work 9-17 weekdays"]
mode = "memo"
num_bits = 64
num_cohorts = 8
epsilon_infinity = 4.0
epsilon_one = 1.0
max_memoized_values = 5
"""
USE = """
import datetime, sys, tempfile, time
from client_sdk import Client, Delivery, load_metrics
from client_sdk.testing import MemoryCollector
metrics = load_metrics(sys.argv[1])
with tempfile.TemporaryDirectory() as folder, MemoryCollector(metrics.metrics) as collector:
    now = [time.time() - 86_400]
    choices = dict(state_dir=folder, collector=collector.url, consent=True, clock=lambda: now[0])
    with Client.open(metrics, **choices, delivery=Delivery(mean_delay=0)) as client:
        assert client.record("homepage", "a")
        assert client.record("theme", "dark")
        assert client.record("crashed", False)
        for days in (0, 1):
            now[0] += 86_400 * days
            at = datetime.datetime.fromtimestamp(now[0]).astimezone()
            assert client.record_location("home", 40.5, -8.5, at)
        assert client.flush(20), client.last_error
    places = {"home/night/10": 1, "home/work/10": 1}
    assert collector.counted() == {"homepage": 1, "theme": 1, "crashed": 1, **places}
ours = {"client_sdk", "rappor_core", "mmh3"}
loaded = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(sorted(name for name in loaded - ours if not name.startswith("__")))
"""


def put_mmh3_in(folder: Path) -> str:
    """A place for modules with mmh3 in it, whether that is a package or a single file."""
    origin = Path(str(mmh3.__file__)).parent
    installed = origin.parent if origin.name == "mmh3" else origin
    folder.mkdir(exist_ok=True)
    for path in installed.glob("mmh3*"):
        (folder / path.name).symlink_to(path)
    return str(folder)


def run(program: str, path: list[str], *arguments: str) -> str:
    """In a fresh, isolated interpreter that sees `path` only."""
    prelude = f"import sys; sys.path[:0] = {path!r}\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", prelude + program, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_device_at_work_loads_no_third_party_module_but_mmh3(
    tmp_path: Path, metrics_text: str
) -> None:
    """One metric of each kind, recorded and delivered."""
    metrics = tmp_path / "metrics.toml"
    metrics.write_text(metrics_text + HOME)
    site = put_mmh3_in(tmp_path / "site")
    assert run(USE, [str(ROOT), site], str(metrics)) == "[]"


def test_importing_and_opening_load_no_network(tmp_path: Path, metrics_text: str) -> None:
    metrics = tmp_path / "metrics.toml"
    metrics.write_text(metrics_text)
    program = """
from client_sdk import Client
client = Client.open(sys.argv[1], state_dir=sys.argv[2], collector="http://x", consent=True)
assert client.record("theme", "dark")
print(sorted({"http.client", "socket", "ssl", "email", "logging", "asyncio"} & set(sys.modules)))
"""
    path = [str(ROOT), put_mmh3_in(tmp_path / "site")]
    assert run(program, path, str(metrics), str(tmp_path / "state")) == "[]"


def core_modules(source: Path) -> set[str]:
    """Files of the core that a source file names, in an import or for one that is made later."""
    named = re.findall(r"\brappor_core(?:\.\w+)*", source.read_text())
    packages = re.findall(r"from (rappor_core(?:\.\w+)*) import (\w+)", source.read_text())
    files = {name.replace(".", "/") for name in [*named, *map(".".join, packages)]}
    return {f"{file}.py" for file in files if (ROOT / f"{file}.py").exists()}


def with_packages(files: set[str]) -> set[str]:
    """The same with the `__init__.py` of every package that they are in."""
    parents = {parent for file in files for parent in Path(file).parents if parent.name}
    return files | {f"{parent.as_posix()}/__init__.py" for parent in parents}


def test_the_wheel_lists_of_the_core_what_a_device_imports_and_no_more() -> None:
    listed = {file for file in wheel_files() if file.endswith(".py")}
    needed: set[str] = set()
    sources = list((ROOT / "client_sdk").rglob("*.py"))
    while sources:
        new = core_modules(sources.pop()) - needed
        needed |= new
        sources += [ROOT / file for file in new]
    assert listed == with_packages(needed)


def wheel_files() -> set[str]:
    project = tomllib.loads((ROOT / "packaging" / "client" / "pyproject.toml").read_text())
    return set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].values())


@pytest.mark.slow
def test_the_wheel_holds_the_device_and_nothing_else(tmp_path: Path, metrics_text: str) -> None:
    """Needs pip and the build backend, as every build of a wheel does."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path)]
    subprocess.run([*build, str(ROOT / "packaging" / "client")], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    roots = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert roots == {"client_sdk", "rappor_core"}
    assert {"client_sdk/py.typed", "rappor_core/py.typed"} <= set(names)
    assert "rappor_core/aggregate.py" not in names
    metrics = tmp_path / "metrics.toml"
    metrics.write_text(metrics_text + HOME)
    assert run(USE, [put_mmh3_in(tmp_path / "site")], str(metrics)) == "[]"
