"""What a fresh interpreter loads with every module of a package, and what modules name.

Each check also runs on a copy with a planted import, and must fail there.
"""

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.trees import nodes_of

ROOT = Path(__file__).parents[2]
PACKAGES = [
    "rappor_core",
    "rappor_server",
    "client_sdk",
    "collector",
    "decoder",
    "decoder_service",
    "metric_design",
    "disclosure",
    "simulations",
    "privacy_audit",
    "rappor_cli",
]
DEVICE = {"rappor_core", "client_sdk", "mmh3", "_typeshed"}  # the last: annotations alone
NUMERICAL = {"numpy", "scipy", "sklearn", "numba", "pyarrow", "matplotlib"}
SERVING = {"fastapi", "starlette", "uvicorn", "sqlalchemy", "pydantic", "typer", "rich"}
NOT_IMPORTED = {
    "client_sdk.delivery.relay": "the adapter of Oblivious HTTP, an extra",
    "client_sdk.opentelemetry": "the adapter of OpenTelemetry, an extra",
    "client_sdk._pyinstaller.hook-rappor_core": "loaded by PyInstaller alone",
    "rappor_core.grid.h3": "the adapter of h3, an extra",
    "rappor_core.ohttp.encapsulation": "needs cryptography, the same extra",
    "rappor_core.ohttp.hpke": "needs cryptography, the same extra",
    "collector.migrations.env": "runs a migration; alembic executes it",
}
BY_NAME = ("import_module", "__import__")  # calls whose first argument is a module

LIST_MODULES = """
import json, sys
before = set(sys.modules)
{program}
print("\\n" + json.dumps(sorted({{n.partition(".")[0] for n in set(sys.modules) - before}})))
"""


def modules_of(root: Path, package: str) -> list[str]:
    """Names of all modules of a package that can be imported."""
    paths = sorted((root / package).rglob("*.py"))
    names = (".".join(path.relative_to(root).with_suffix("").parts) for path in paths)
    found = [name.removesuffix(".__init__") for name in names]
    assert len(found) > 1
    return [name for name in found if name not in NOT_IMPORTED]


def loaded_after(root: Path, program: str) -> set[str]:
    """Top-level modules that a fresh interpreter loads with a program."""
    code = LIST_MODULES.format(program=program)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def loaded_by(root: Path, package: str) -> set[str]:
    """The same, with every module of a package."""
    return loaded_after(root, "\n".join(f"import {name}" for name in modules_of(root, package)))


def named_by(path: Path) -> set[str]:
    """Top-level modules that a file imports anywhere, also within functions and by name."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(BY_NAME):
            names = (one.value for one in node.args[:1] if isinstance(one, ast.Constant))
            found |= {str(name).partition(".")[0] for name in names}
    return found


def strangers_of_a_device(root: Path) -> set[str]:
    """What a device's packages load, or name, beside the standard library and `DEVICE`."""
    loaded = loaded_by(root, "rappor_core") | loaded_by(root, "client_sdk")
    paths = [path for name in ("rappor_core", "client_sdk") for path in (root / name).rglob("*.py")]
    adapters = {root / f"{name.replace('.', '/')}.py" for name in NOT_IMPORTED}
    named = {name for path in paths if path not in adapters for name in named_by(path)}
    return (loaded | named) - set(sys.stdlib_module_names) - DEVICE


def strangers_of_help(root: Path) -> set[str]:
    """What `rappor --help` loads beside the standard library."""
    loaded = loaded_after(root, 'from rappor_cli.main import main\nmain(["--help"])')
    return loaded - set(sys.stdlib_module_names) - {"rappor_core", "rappor_cli"}


def numerical_in_the_collector(root: Path) -> set[str]:
    """Numerical libraries that the collector loads; its archive may."""
    names = [n for n in modules_of(root, "collector") if not n.startswith("collector.archive")]
    return loaded_after(root, "\n".join(f"import {name}" for name in names)) & NUMERICAL


def servers_in_the_decoder(root: Path) -> set[str]:
    """Libraries of servers and command lines that the decoder loads or names."""
    named = {name for path in (root / "decoder").rglob("*.py") for name in named_by(path)}
    return (loaded_by(root, "decoder") | named) & SERVING


CHECKS = [
    strangers_of_a_device,
    numerical_in_the_collector,
    servers_in_the_decoder,
    strangers_of_help,
]


@pytest.mark.parametrize("check", CHECKS)
def test_every_module_loads_only_what_its_package_may(check) -> None:
    assert check(ROOT) == set()


@pytest.mark.parametrize(
    ("check", "file", "planted", "stranger"),
    [
        (strangers_of_a_device, "client_sdk/recording/recorder.py", "import requests", "requests"),
        (
            strangers_of_a_device,
            "rappor_core/text.py",
            "def late() -> None:\n    import requests",
            "requests",
        ),
        (
            strangers_of_a_device,
            "client_sdk/delivery/transport.py",
            'def late() -> None:\n    __import__("requests.api")',
            "requests",
        ),
        *(
            pytest.param(*planted, marks=pytest.mark.long)
            for planted in (
                (numerical_in_the_collector, "collector/app.py", "import numpy", "numpy"),
                (servers_in_the_decoder, "decoder/numerics/threads.py", "import typer", "typer"),
            )
        ),
        (strangers_of_help, "rappor_cli/main.py", "import rich", "rich"),
    ],
)
def test_a_planted_import_is_seen(check, file, planted, stranger, tmp_path: Path) -> None:
    for package in PACKAGES:  # links, so that what was compiled and parsed serves the copy
        shutil.copytree(ROOT / package, tmp_path / package, copy_function=os.symlink)
    (tmp_path / f"{stranger}.py").write_text("", encoding="utf-8")
    path, text = tmp_path / file, (ROOT / file).read_text(encoding="utf-8")
    path.unlink()
    path.write_text(f"{text}\n{planted}\n", encoding="utf-8")
    assert check(tmp_path) == {stranger}


def names_after(program: str) -> set[str]:
    """Modules that a fresh interpreter holds after a program."""
    code = f"import sys\n{program}\nprint(chr(10).join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("package", ["rappor_core", "collector", "decoder"])
def test_public_names_are_loaded_when_used(package: str) -> None:
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


def test_reviewing_flows_needs_no_numerical_library() -> None:
    names = {name.partition(".")[0] for name in names_after("import metric_design.flow_kind")}
    assert not names & {"numpy", "scipy"}


@pytest.mark.parametrize(
    ("command", "unneeded"),
    [("decode", {"scipy.stats", "decoder.density.maps"}), ("density", {"scipy.stats"}),
     ("plan", {"scipy.stats"})],
)  # fmt: skip
def test_commands_load_no_distributions_or_maps(command: str, unneeded: set[str]) -> None:
    """scipy.stats alone takes half as long to load as all else."""
    assert not unneeded & names_after(f"import rappor_cli.{command}")


@pytest.mark.long
def test_maps_need_no_simulation() -> None:
    names = names_after("import rappor_cli.density")
    assert not {name for name in names if name.partition(".")[0] == "simulations"}
