"""Entry point of `rappor`: finds the module of a command, and turns errors into one line.

Exit codes: 0 done, 1 refused or failed with a one-line reason, 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from rappor_cli.commands import COMMANDS, load, overview, program_version
from rappor_core.errors import RapporError, meant
from rappor_core.failures import failure_sentence

_LIBRARY_ERRORS = (
    ("sqlite3", "Error"),
    ("sqlalchemy.exc", "SQLAlchemyError"),
    ("json", "JSONDecodeError"),
    ("csv", "Error"),
    ("zlib", "error"),
    ("tomllib", "TOMLDecodeError"),
)
_STOPPED = 130  # what shells give for a program that Ctrl-C ended
OWN_PACKAGES = (
    "rappor_core",
    "rappor_cli",
    "client_sdk",
    "rappor_server",
    "ohttp",
    "collector",
    "decoder",
    "decoder_service",
    "decoder_client",
    "metric_design",
    "disclosure_control",
    "publication",
    "privacy_audit",
    "simulations",
)


def main(arguments: list[str] | None = None, started: Callable[[], None] | None = None) -> int:
    """Run `rappor` and return its exit code.

    arguments: default: the process's own.  started: called when a command is loaded and may run.
    """
    if "_RAPPOR_COMPLETE" in os.environ:  # the shell asks for completions
        import_module("rappor_cli.completion").complete()
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"rappor {program_version()}")
        return 0
    if arguments[0] not in COMMANDS:
        near = meant(arguments[0], COMMANDS)
        print(f"rappor: unknown command {arguments[0]!r}{near}; see rappor --help", file=sys.stderr)
        return 2
    return _run(arguments[0], arguments[1:], started)


def _run(name: str, arguments: list[str], started: Callable[[], None] | None) -> int:
    try:
        command = load(name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in OWN_PACKAGES:
            raise
        print(
            f"rappor {name}: the library {package!r} is missing; "
            "pip install 'rappor-telemetry[all]'",
            file=sys.stderr,
        )
        return 1
    try:
        if started is not None:
            started()
        return _invoke(command, name, arguments)
    except KeyboardInterrupt:  # before or after the command itself
        print("rappor: stopped", file=sys.stderr)
        return _STOPPED


def _invoke(command: Any, name: str, arguments: list[str]) -> int:
    """Call a command. Its own exits pass through; an error of ours becomes one line."""
    try:
        command(args=arguments, prog_name=f"rappor {name}", standalone_mode=True)
    except SystemExit as exit_:
        if exit_.code == _STOPPED:  # says nothing itself
            print("rappor: stopped", file=sys.stderr)
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except RapporError as error:
        return _failed(name, str(error))
    except _failures() as error:
        return _failed(name, failure_sentence(error))
    return 0


def _failures() -> tuple[type[Exception], ...]:
    """What files, databases and memory raise; all else is a defect, and keeps its traceback."""
    kinds = [OSError, EOFError, UnicodeError, MemoryError, RecursionError]
    for module, kind in _LIBRARY_ERRORS:
        if module in sys.modules:  # what is not loaded has raised nothing
            kinds.append(getattr(sys.modules[module], kind))
    return tuple(kinds)


def _failed(name: str, sentence: str) -> int:
    print(f"rappor {name}: {sentence}", file=sys.stderr)
    return 1
