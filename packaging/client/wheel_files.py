"""Which files of the repository a wheel of the device holds, and how they are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bundle import bundled
from strip_source import stripped


def wheel_files(root: Path, hook: Mapping[str, Iterable[str]]) -> set[str]:
    """Names relative to `root`, from the table `hooks.custom` of a pyproject.toml."""
    left_out = expanded(root, hook.get("left_out", ()))
    return expanded(root, hook["files"]) - left_out


def wheel_texts(root: Path, hook: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Files as they are in the wheel: names and texts."""
    texts = {name: (root / name).read_text(encoding="utf-8") for name in wheel_files(root, hook)}
    sources = {name: text for name, text in texts.items() if name.endswith(".py")}
    if hook.get("bundle"):
        lighter = bundled(sources)
    else:
        lighter = {name: stripped(text) for name, text in sources.items()}
    others = {name: text for name, text in texts.items() if name not in sources}
    return sorted({**others, **lighter}.items())


def expanded(root: Path, names: Iterable[str]) -> set[str]:
    """The named files, and for a folder those in it: Python, and `py.typed`."""
    found: set[str] = set()
    for name in names:
        path = root / name
        inside = [*path.rglob("*.py"), *path.rglob("py.typed")] if path.is_dir() else [path]
        found |= {file.relative_to(root).as_posix() for file in inside}
    return found
