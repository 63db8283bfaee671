"""Which files of the repository a wheel of the device holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path


def wheel_files(root: Path, hook: Mapping[str, Iterable[str]]) -> set[str]:
    """Names relative to `root`, from the table `hooks.custom` of a pyproject.toml."""
    left_out = expanded(root, hook.get("left_out", ()))
    return expanded(root, hook["files"]) - left_out


def expanded(root: Path, names: Iterable[str]) -> set[str]:
    """The named files, and for a folder those in it: Python, and `py.typed`."""
    found: set[str] = set()
    for name in names:
        path = root / name
        inside = [*path.rglob("*.py"), *path.rglob("py.typed")] if path.is_dir() else [path]
        found |= {file.relative_to(root).as_posix() for file in inside}
    return found
