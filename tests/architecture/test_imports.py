"""What a fresh interpreter loads; import-linter reads only what modules name."""

import importlib
import subprocess
import sys
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
