"""Each part names only libraries that its extras of pyproject.toml install."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

from rappor_core.own_packages import OWN_PACKAGES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = {  # of each part; "" is what is always installed
    "rappor_core": ("", "h3", "relay"),
    "rappor_server": ("collector",),
    "client_sdk": ("", "testing", "otel"),
    "collector": ("collector", "kafka", "relay", "archive"),
    "decoder": ("", "decoder", "geo", "notebook"),
    "decoder_service": ("service", "notebook"),
    "metric_design": ("", "decoder"),
    "disclosure": ("publication", "signing", "archive", "geo"),
    "simulations": ("simulations",),
    "privacy_audit": ("decoder", "relay"),  # the latter for a client behind a relay
    "rappor_cli": ("cli", "decoder"),
}
IMPORT_NAMES = {"scikit-learn": "sklearn", "opentelemetry-api": "opentelemetry"}
ALWAYS = {*sys.stdlib_module_names, *EXTRAS, "mmh3", "_typeshed", "PyInstaller"}
WITH = {"fastapi": {"starlette"}, "jinja2": {"markupsafe"}}  # named by us, installed by these
BY_NAME = ("import_module", "__import__")  # calls whose first argument is a module
PLUGIN = "rappor_telemetry_pytest"  # a module by itself, which pytest loads


def libraries(extra: str) -> set[str]:
    """Import names of what an extra installs, with those of the extras that it names."""
    project = PROJECT["project"]
    lines = project["optional-dependencies"][extra] if extra else project["dependencies"]
    names: set[str] = set()
    for line in lines:
        name, inner = re.match(r"([\w-]+)(?:\[([\w,]+)])?", line).groups()
        if name == project["name"]:
            names |= set().union(*(libraries(one) for one in inner.split(",")))
        else:
            names |= {IMPORT_NAMES.get(name, name.replace("-", "_"))} | WITH.get(name, set())
    return names


def named_by(path: Path) -> set[str]:
    """Top-level modules that a file imports anywhere, also within functions and by name."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(BY_NAME):
            first = (one.value for one in node.args[:1] if isinstance(one, ast.Constant))
            names |= {str(name).partition(".")[0] for name in first}
    return names


@pytest.mark.long  # reads the sources of every part
def test_each_part_names_only_what_its_extras_install() -> None:
    undeclared = {}
    for part, extras in EXTRAS.items():
        allowed = ALWAYS.union(*map(libraries, extras))
        for path in (ROOT / part).rglob("*.py"):
            if strangers := named_by(path) - allowed:
                undeclared[path.relative_to(ROOT).as_posix()] = strangers
    assert undeclared == {}


def test_every_list_of_packages_has_them_all() -> None:
    """Of the wheel, the sdist, the tools, the image and the command line."""
    tool = PROJECT["tool"]
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
        assert set(some) - {PLUGIN, f"{PLUGIN}.py"} == set(EXTRAS), name
    assert {f"/{name}" for name in EXTRAS} <= set(build["sdist"]["include"])
