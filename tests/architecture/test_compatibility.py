"""Public names, parameters, commands and options stay (docs/compatibility.md).

`released.json` holds what users may rely on. What is new is added by

    python -m tests.architecture.test_compatibility

A name goes only after a minor version in which it warned; then it is taken out of the file by hand.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rappor_cli.main import COMMANDS, load

RELEASED = Path(__file__).with_name("released.json")
PACKAGES = ("client_sdk", "collector", "decoder", "rappor_core")
SELF = {"self", "args", "kwargs"}
COMPLETION = {"--install-completion", "--show-completion"}  # typer's own


def parameters(target: Any) -> list[str]:
    """The names that a caller may give; none for what cannot be called."""
    if not callable(target):
        return []
    try:
        return sorted(set(inspect.signature(target).parameters) - SELF)
    except ValueError:
        return []


def methods(name: str, target: Any) -> Iterator[tuple[str, list[str]]]:
    """A class or function, and the public methods of a class that is ours."""
    yield name, parameters(target)
    if inspect.isclass(target) and not issubclass(target, Exception):
        for method, value in vars(target).items():
            if not method.startswith("_"):
                yield f"{name}.{method}", parameters(getattr(target, method, value))


def public_names() -> dict[str, list[str]]:
    """`package.Name` and `package.Name.method` with their parameters."""
    return {
        f"{package}.{name}": given
        for package in PACKAGES
        for public in import_module(package).__all__
        for name, given in methods(public, getattr(import_module(package), public))
    }


def options(command: Any, name: str) -> Iterator[tuple[str, list[str]]]:
    """Each command below one, with its options and arguments."""
    own = {word for parameter in command.params for word in parameter.opts}
    yield name, sorted(own - COMPLETION)
    for below, one in getattr(command, "commands", {}).items():
        yield from options(one, f"{name} {below}")


@cache
def present() -> dict[str, dict[str, list[str]]]:
    """What this version has."""
    commands = dict(pair for name in COMMANDS for pair in options(load(name), f"rappor {name}"))
    return {"names": public_names(), "commands": commands}


def gone(part: str) -> dict[str, list[str]]:
    """Names and commands that were released, with their parameters that are there no more."""
    released, now = json.loads(RELEASED.read_text())[part], present()[part]
    lost = {name: sorted(set(given) - set(now.get(name, ()))) for name, given in released.items()}
    return {name: words for name, words in lost.items() if words or name not in now}


@pytest.mark.parametrize("part", ["names", "commands"])
def test_nothing_that_was_released_is_gone(part: str) -> None:
    assert len(json.loads(RELEASED.read_text())[part]) > 50
    assert gone(part) == {}


def test_what_is_new_is_in_the_file() -> None:
    """Else its removal would go unseen."""
    assert present() == json.loads(RELEASED.read_text()), "see the module's first lines"


if __name__ == "__main__":
    if removed := {**gone("names"), **gone("commands")}:
        raise SystemExit(f"{removed} was released: deprecate it first (docs/compatibility.md)")
    RELEASED.write_text(json.dumps(present(), indent=1, sort_keys=True) + "\n")
