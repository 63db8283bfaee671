"""Each part names only libraries that its extras of pyproject.toml install."""

import gc
import re
import sqlite3
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from rappor_core.own_packages import OWN_PACKAGES
from tests.architecture.test_imports import DEVICE, PACKAGES, ROOT, named_by

EXTRAS = {  # of each part; "" is what is always installed
    "rappor_core": ("", "h3", "relay"),
    "rappor_server": ("collector",),
    "client_sdk": ("", "testing", "otel"),
    "collector": ("collector", "kafka", "relay", "archive"),
    "decoder": ("", "decoder", "notebook"),
    "decoder_service": ("service", "oidc", "notebook"),
    "metric_design": ("", "decoder"),
    "disclosure": ("publication", "signing", "archive"),
    "simulations": ("simulations",),
    "privacy_audit": ("decoder", "relay"),  # the latter for a client behind a relay
    "rappor_cli": ("cli", "decoder"),
}
IMPORT_NAMES = {"scikit-learn": "sklearn", "opentelemetry-api": "opentelemetry"}
CALLERS = {"PyInstaller"}  # loads the module that names it
WITH = {"fastapi": {"starlette"}, "jinja2": {"markupsafe"}}  # named by us, installed by these


def libraries(extra: str, project: dict) -> set[str]:
    """Import names of what an extra installs, with those of the extras that it names."""
    lines = project["optional-dependencies"][extra] if extra else project["dependencies"]
    found: set[str] = set()
    for line in lines:
        name, inner = re.match(r"([\w-]+)(?:\[([\w,]+)])?", line).groups()
        if name == project["name"]:
            found |= set().union(*(libraries(one, project) for one in inner.split(",")))
        else:
            found |= {IMPORT_NAMES.get(name, name.replace("-", "_"))} | WITH.get(name, set())
    return found


def part_of(path: str) -> str:
    """The part that a file belongs to."""
    return path.partition("/")[0]


def undeclared(root: Path) -> set[tuple[str, str]]:
    """File and library, where no extra of the part installs it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    allowed = {
        part: set().union(*(libraries(extra, project) for extra in extras))
        for part, extras in EXTRAS.items()
    }
    ours = set(sys.stdlib_module_names) | set(PACKAGES) | DEVICE | CALLERS
    return {
        (name, library)
        for package in PACKAGES
        for path in (root / package).rglob("*.py")
        for name in [path.relative_to(root).as_posix()]
        for library in named_by(path) - ours - allowed[part_of(name)]
    }


def test_each_part_names_only_what_its_extras_install() -> None:
    assert set(PACKAGES) <= set(EXTRAS)
    assert undeclared(ROOT) == set()


PLUGIN = "rappor_telemetry_pytest"  # a module by itself, which pytest loads


def test_every_list_of_packages_has_them_all() -> None:
    """Of the wheel, the sdist, the tools, the image and the command line."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    build = tool["hatch"]["build"]["targets"]
    image = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    listed = {
        "wheel": build["wheel"]["packages"],
        "mypy": tool["mypy"]["files"],
        "isort": tool["ruff"]["lint"]["isort"]["known-first-party"],
        "import-linter": tool["importlinter"]["root_packages"],
        "typed": [path.parent.name for path in ROOT.glob("*/py.typed")],
        "image": re.findall(r"^COPY (\w+) \1$", image, re.MULTILINE),
        "command line": OWN_PACKAGES,
    }
    for name, some in listed.items():
        assert set(some) - {PLUGIN, f"{PLUGIN}.py"} == set(PACKAGES), name
    assert {f"/{name}" for name in PACKAGES} <= set(build["sdist"]["include"])


@pytest.mark.parametrize(
    ("file", "planted", "library"),
    [
        ("decoder/model/counts.py", "import torch", "torch"),
        ("decoder/numerics/simplex.py", "def late():\n    import requests", "requests"),
        ("decoder/inference/intervals.py", "import_module('pandas.io')", ""),
        ("decoder/inference/intervals.py", "import_module('polars.io')", "polars"),
        ("collector/store/raw.py", "from pandas import DataFrame", "pandas"),
        ("client_sdk/delivery/options.py", "def late():\n    __import__('requests')", "requests"),
    ],
)
def test_a_planted_library_is_seen(file: str, planted: str, library: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    text = (ROOT / file).read_text(encoding="utf-8")
    path.write_text(f"{text}\n{planted}\n", encoding="utf-8")
    assert undeclared(tmp_path) == ({(file, library)} if library else set())


def test_servers_of_tests_end_with_their_block() -> None:
    """One that is closed and still served takes a processor for all tests after it."""
    name = "serve_" + "forever"
    found = {path.name for path in ROOT.glob("tests/**/*.py") if name in path.read_text("utf-8")}
    assert found == {"http_server.py", "relay_support.py"}


def _leave_one_open() -> None:
    with closing(sqlite3.connect(":memory:")) as closed:
        closed.execute("SELECT 1")
    sqlite3.connect(":memory:")
    gc.collect()


def test_a_database_that_is_left_open_is_told() -> None:
    """Here as a warning, elsewhere as a failure of the test that runs when it is collected."""
    name = test_a_database_that_is_left_open_is_told.__name__
    with pytest.warns(ResourceWarning, match=name) as told:
        _leave_one_open()
    assert len(told) == 1
