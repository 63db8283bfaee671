"""Every package that is large has a contract in which each of its modules has a layer."""

import tomllib
from pathlib import Path

from tests.architecture.test_imports import PACKAGES, ROOT

MOST_WITHOUT = 10  # modules and sub-packages of a package without layers


def children(package: Path) -> list[str]:
    """Modules and sub-packages that stand directly in a package."""
    modules = [path.stem for path in package.glob("*.py") if path.stem != "__init__"]
    return modules + [path.parent.name for path in package.glob("*/__init__.py")]


def large(root: Path) -> set[str]:
    """The top packages, and every sub-package with more than `MOST_WITHOUT` children."""
    folders = {path.parent for name in PACKAGES for path in (root / name).rglob("__init__.py")}
    names = {".".join(path.relative_to(root).parts): len(children(path)) for path in folders}
    return {
        name for name, size in names.items() if size > MOST_WITHOUT or len(name.split(".")) == 1
    }


def layered(text: str) -> set[str]:
    """Packages with exhaustive layers in a pyproject.toml."""
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return {name for one in contracts if one.get("exhaustive") for name in one["containers"]}


def test_every_large_package_has_exhaustive_layers() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert large(ROOT) - layered(text) == set()
    without = text.replace('containers = ["decoder.density"]\nexhaustive = true', "containers = []")
    assert large(ROOT) - layered(without) == {"decoder.density"}


def test_the_contracts_are_about_packages_that_exist() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(ROOT.joinpath(*name.split("."), "__init__.py").exists() for name in layered(text))
