"""What a fresh interpreter loads, and that every file has one version."""

import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDS_AN_EXTRA = {  # modules of a device that its base install cannot import
    "client_sdk.delivery.relay",
    "client_sdk.opentelemetry",
    "client_sdk._pyinstaller.hook-rappor_core",  # loaded by PyInstaller alone
    "rappor_core.grid.h3",
    "rappor_core.ohttp.encapsulation",
    "rappor_core.ohttp.hpke",
}
NUMERICAL = {"numpy", "scipy"}
TYPER = {  # and what it loads to print help
    "typer", "click", "rich", "shellingham", "markdown_it", "mdurl", "pygments", "attr",
    "annotated_doc", "typing_extensions",
}  # fmt: skip


def modules_of(package: str) -> list[str]:
    """Names of all modules of a package that the base install can import."""
    paths = sorted((ROOT / package).rglob("*.py"))
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    return [
        name.removesuffix(".__init__")
        for name in names
        if name.removesuffix(".__init__") not in NEEDS_AN_EXTRA
    ]


def loaded_after(program: str) -> set[str]:
    """Modules that a fresh interpreter loads with a program."""
    code = f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*{{*sys.modules}} - before)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def top_level(names: set[str]) -> set[str]:
    """The packages of modules."""
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("program", "ours"),
    [
        (
            "\n".join(
                f"import {one}"
                for part in ("rappor_core", "client_sdk")
                for one in modules_of(part)
            ),
            {"rappor_core", "client_sdk", "mmh3", "_typeshed"},  # the last: annotations alone
        ),
        (
            'from rappor_cli.main import main\nmain(["--help"])',
            {"rappor_core", "rappor_cli"} | TYPER,
        ),
    ],
    ids=["device", "help"],
)
def test_no_other_library_is_loaded(program: str, ours: set[str]) -> None:
    assert top_level(loaded_after(program)) - set(sys.stdlib_module_names) <= ours


@pytest.mark.parametrize("package", ["rappor_core", "collector", "decoder"])
def test_public_names_are_loaded_when_used(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name).__name__ == name
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="'nothing'"):
        module.nothing  # noqa: B018
    loaded = loaded_after(f"import {package}")
    assert not {name for name in loaded if name.startswith(f"{package}.")}


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        # `rappor keys` and `rappor metrics` run where only the collector is installed
        ("decoder.sources.collector_client", NUMERICAL | {"typer", "rich"}),
        ("metric_design.flow_kind", NUMERICAL),
        # scipy.stats alone takes half as long to load as all else
        pytest.param(
            "rappor_cli.analyze", {"scipy.stats", "decoder.density.maps", "simulations"},
            marks=pytest.mark.long,
        ),
        pytest.param("rappor_cli.plan", {"scipy.stats"}, marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_module_loads_no_library_that_it_does_not_need(module: str, unneeded: set[str]) -> None:
    loaded = loaded_after(f"import {module}")
    assert not unneeded & (loaded | top_level(loaded))


PACKAGES = ["rappor_server", "collector", "decoder", "decoder_service", "rappor_cli"]
PROGRAM = """
import builtins, pkgutil, sys
from importlib import import_module

OURS = (
    "rappor_", "client_sdk", "collector", "decoder", "metric_design",
    "disclosure", "privacy_audit",
)  # fmt: skip
real = builtins.__import__

def without(name, given=None, local=None, wanted=(), *more):
    ours = (given or {}).get("__name__", "").startswith(OURS)
    if ours and (name in ("fcntl", "resource") or "ForkServerContext" in (wanted or ())):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return real(name, given, local, wanted, *more)

builtins.__import__ = without
for package in sys.argv[1:]:
    for found in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
        if "migrations" not in found.name and not found.name.endswith("__main__"):
            import_module(found.name)
"""
SENTENCE = """
from decoder_service.shell.errors import UnavailableError
from decoder_service.worker.process_limits import Reader
from decoder_service.shell.server import _prepare_to_serve, work
from decoder_service.shell.settings import load_settings

settings = load_settings(database="sqlite:///d.sqlite", job_slots=2)
large = b" " * (1 << 20)
for call in (lambda: work(settings), lambda: _prepare_to_serve(settings),
             lambda: Reader().read(len, large)):
    try:
        call()
    except UnavailableError as error:
        print(error)
"""


@pytest.mark.long
def test_all_but_jobs_runs_without_them(tmp_path: Path) -> None:
    words = [sys.executable, "-c", PROGRAM + SENTENCE, *PACKAGES]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout.splitlines()
    assert [one.partition(", ")[0].partition(":")[0] for one in said] == [
        "no worker can start here",
        "job_slots = 2",
        "a file of more than 256 KiB cannot be read here",
    ]
    assert all("use Linux or macOS, or on Windows WSL or a container" in one for one in said)


ROOT_VERSIONS = Path(__file__).parents[2]
WHEEL = ROOT_VERSIONS / "packaging" / "client" / "pyproject.toml"
WHOLE = tomllib.loads((ROOT_VERSIONS / "pyproject.toml").read_text())["project"]["version"]


def test_all_that_is_released_has_that_version() -> None:
    """The wheel of the device, the citation, the npm package, its examples and the images."""
    named = {
        tomllib.loads(WHEEL.read_text())["project"]["version"],
        json.loads((ROOT_VERSIONS / "client_js" / "package.json").read_text())["version"],
        json.loads((ROOT_VERSIONS / "client_kotlin" / "package.json").read_text())["version"],
    }
    images = [
        *(ROOT_VERSIONS / "docker" / "kubernetes").rglob("*.yaml"),
        ROOT_VERSIONS / "docs" / "deployment.md",
    ]
    for pages, pattern in (
        ([ROOT_VERSIONS / "CITATION.cff"], r"(?m)^version: (.+)$"),
        ([ROOT_VERSIONS / "client_js" / "README.md"], r"client-([\d.]+)\.tgz"),
        (
            [ROOT_VERSIONS / "examples" / "mobile" / "pyproject.toml"],
            r"rappor-telemetry[\w-]*==([\w.]+)",
        ),
        (images, r"rappor-(?:collector|decoder):([\w.]+)"),
    ):
        found = {one for page in pages for one in re.findall(pattern, page.read_text())}
        assert found or "mobile" in str(pages[0]) or "client_js" in str(pages[0]), pages
        named |= found
    assert named == {WHOLE}


FOLDER = Path(__file__).parents[2] / "client_js"
KINDS = ("dependencies", "devDependencies", "optionalDependencies")


def test_the_lock_holds_every_package_it_names() -> None:
    """Also those of other systems: npm leaves out what its registry did not have yet."""
    lock = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    held = {place.rpartition("node_modules/")[2] for place in lock}
    named = {name for package in lock.values() for kind in KINDS for name in package.get(kind, {})}
    assert len(named) > 50
    assert named - held == set()
