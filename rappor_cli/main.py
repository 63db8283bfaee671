"""Entry point of `rappor`: finds the module of a command, and turns errors into one line.

Exit codes: 0 done, 1 refused or failed with a one-line reason, 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rappor_core.errors import RapporError, meant
from rappor_core.failures import failure_sentence

# command: (module, attribute, one line of help). The attribute is a function or a typer.Typer.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("rappor_cli.demo", "app", "The whole life of a report on this machine."),
    "serve": ("rappor_cli.serve", "serve", "Run the collector."),
    "consume": ("rappor_cli.consume", "consume", "Count the reports that a broker holds."),
    "plan": ("rappor_cli.plan", "plan", "Choose parameters: what will be seen, what it costs."),
    "metrics": ("rappor_cli.metrics", "app", "Check, list, push and retire metrics."),
    "keys": ("rappor_cli.keys", "app", "Create, list and revoke keys of the collector."),
    "association": (
        "rappor_cli.association",
        "association",
        "Decode how two linked metrics go together.",
    ),
    "density": ("rappor_cli.density", "density", "Map where devices usually are."),
    "flows": ("rappor_cli.flows", "flows", "Who sleeps here and works there."),
    "close": ("rappor_cli.close", "close", "Close a day for good, so that it can be served."),
    "migrate": ("rappor_cli.migrate", "migrate", "Bring the database to this version."),
    "backup": ("rappor_cli.backup", "backup", "Copy the collector's database while in use."),
    "restore": ("rappor_cli.backup", "restore", "Make the collector's database from a copy."),
    "reports": ("rappor_cli.reports", "app", "Get raw reports out, where a metric keeps them."),
    "archive": ("rappor_cli.archive", "app", "Keep raw reports in Parquet files, and sum them."),
    "aggregate": ("rappor_cli.aggregate", "aggregate", "Fetch the counts of closed days."),
    "decode": ("rappor_cli.decode", "decode", "Recover frequencies from an aggregate."),
    "discover": ("rappor_cli.discover", "discover", "Find frequent strings without a list."),
    "decoder": ("rappor_cli.decoder_service", "app", "Run the decoder service; its keys."),
    "release": ("rappor_cli.release", "app", "Judge, make and verify what is published."),
    "simulate": ("rappor_cli.simulate", "app", "Run a published or calibration experiment."),
    "audit": ("rappor_cli.audit", "audit", "Attack a client: does it keep its promises?"),
    "bench": ("rappor_cli.bench", "bench", "Measure speed and memory as ratios."),
}
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
    "collector",
    "decoder",
    "decoder_service",
    "decoder_client",
    "metric_design",
    "disclosure_control",
    "publication",
    "privacy_audit",
    "archive",
    "simulations",
)


def main(arguments: list[str] | None = None, started: Callable[[], None] | None = None) -> int:
    """Run `rappor` and return its exit code.

    arguments: default: the process's own.  started: called when a command is loaded and may run.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"rappor {_version()}")
        return 0
    if arguments[0] not in COMMANDS:
        near = meant(arguments[0], COMMANDS)
        print(f"rappor: unknown command {arguments[0]!r}{near}; see rappor --help", file=sys.stderr)
        return 2
    return _run(arguments[0], arguments[1:], started)


def _version() -> str:
    try:
        return version("rappor-telemetry")
    except PackageNotFoundError:
        return "from a source tree that is not installed"


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


def load(name: str) -> Any:
    """Import and return the click command of a name in COMMANDS."""
    module, attribute, _ = COMMANDS[name]
    return _as_command(getattr(import_module(module), attribute))


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


def _as_command(target: Any) -> Any:
    """The click command of a typer application, or of a plain function."""
    import typer  # only where a command runs: `rappor --help` needs no library

    if not isinstance(target, typer.Typer):
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command()(target)
        target = app
    command = typer.main.get_command(target)
    _name_bad_values(command)
    return command


def _name_bad_values(command: Any) -> None:
    """Let wrong usage name the value that was given, which some versions of typer leave out."""
    for below in getattr(command, "commands", {}).values():
        _name_bad_values(below)
    for parameter in command.params:
        parameter.process_value = partial(_processed, parameter.process_value)


def _processed(process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    try:
        return process(context, value)
    except Exception as error:
        message = getattr(error, "message", "")
        if value is not None and str(message).startswith("Input should"):
            setattr(error, "message", f"{value!r}: {message[0].lower()}{message[1:]}")  # noqa: B010
        raise


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, (_, _, text) in COMMANDS.items()]
    return "\n".join(
        ["usage: rappor COMMAND [OPTIONS]", "", "commands:", *lines, "", "rappor COMMAND --help"]
    )
