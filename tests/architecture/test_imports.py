"""What a fresh interpreter loads, and how long functions are."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [
    "rappor_core",
    "client_sdk",
    "collector",
    "decoder",
    "simulations",
    "privacy_audit",
    "rappor_cli",
]
LONGEST_FUNCTION = 80

LIST_MODULES = """
import json, sys
before = set(sys.modules)
import {package}
print(json.dumps(sorted({{name.partition(".")[0] for name in set(sys.modules) - before}})))
"""


def loaded_by(package: str) -> set[str]:
    """Top-level modules that a fresh interpreter loads with a package."""
    code = LIST_MODULES.format(package=package)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("package", ["rappor_core", "client_sdk"])
def test_a_device_loads_nothing_but_mmh3(package: str) -> None:
    third_party = loaded_by(package) - set(sys.stdlib_module_names)
    assert third_party <= {"rappor_core", "client_sdk", "mmh3"}


def test_the_collector_loads_no_numerical_library() -> None:
    assert not loaded_by("collector") & {"numpy", "scipy", "sklearn", "numba", "matplotlib"}


def names_after(program: str) -> set[str]:
    """Modules that a fresh interpreter holds after a program."""
    code = f"import sys\n{program}\nprint(chr(10).join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("package", ["rappor_core", "collector", "decoder"])
def test_public_names_are_there_and_loaded_only_when_used(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name).__name__ == name
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="'nothing'"):
        module.nothing  # noqa: B018
    assert not {name for name in names_after(f"import {package}") if name.startswith(f"{package}.")}


def test_a_collectors_client_needs_no_numerical_library() -> None:
    """`rappor keys` and `rappor metrics` run where only the collector is installed."""
    names = {
        name.partition(".")[0] for name in names_after("import decoder.sources.collector_client")
    }
    assert not names & {"numpy", "scipy", "typer", "rich"}


def test_maps_need_no_simulation() -> None:
    names = names_after("import rappor_cli.density")
    assert not {name for name in names if name.partition(".")[0] == "simulations"}


def test_help_loads_no_library() -> None:
    assert not loaded_by("rappor_cli.main") & {"typer", "rich", "numpy", "fastapi", "sqlalchemy"}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_function_is_longer_than_a_screen(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= LONGEST_FUNCTION, f"{path.name}: {node.name} has {length} lines"
