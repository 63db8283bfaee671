"""Identify what was audited: name, version and digest of the code, and the machine."""

import json
import os
import platform
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import client_sdk
import rappor_core

ENDINGS = frozenset({".py", ".mjs", ".js", ".cjs", ".json", ".wasm"})
SKIPPED = frozenset({"node_modules", "__pycache__", ".git"})
NAME = "rappor-telemetry"


@dataclass(frozen=True)
class AuditedCode:
    """The identity of audited code. digest: of its files. machine: on which it ran."""

    name: str
    version: str
    digest: str
    files: int
    machine: str


def identity(command: str | None) -> AuditedCode:
    """Identify this project's SDK (None), or the program behind a command.

    The digest is over the SDK's packages, or the files that the command names and the folders
    around them, up to the nearest with a package.json.
    """
    if command is None:
        folders = [Path(str(module.__file__)).parent for module in (client_sdk, rappor_core)]
    else:
        named = (Path(word).resolve() for word in shlex.split(command))
        folders = [_root(path) for path in named if path.is_file() and path.suffix in ENDINGS]
    files = sorted({path for folder in folders for path in _code(folder)})
    whole = sha256()
    for path in files:
        whole.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    name, number = _named(folders, command)
    machine = (
        f"{platform.node()}: {platform.system()} {platform.release()}, {platform.machine()}, "
        f"{os.cpu_count()} processors, Python {platform.python_version()}"
    )
    return AuditedCode(name, number, whole.hexdigest() if files else "", len(files), machine)


def _named(folders: list[Path], command: str | None) -> tuple[str, str]:
    if command is None:
        try:
            return f"client_sdk ({NAME})", version(NAME)
        except PackageNotFoundError:
            return "client_sdk", "of a source tree"
    for declared in (folder / "package.json" for folder in folders):
        if declared.is_file():
            package = json.loads(declared.read_text(encoding="utf-8"))
            return str(package.get("name", command)), str(package.get("version", "unknown"))
    return command, "unknown"


def _root(path: Path) -> Path:
    return next((root for root in path.parents if (root / "package.json").is_file()), path)


def _code(folder: Path) -> Iterator[Path]:
    if folder.is_file():
        yield folder
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED]
        yield from (Path(root, name) for name in names if Path(name).suffix in ENDINGS)
