"""The commands of `rappor` by role, and how one is loaded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

# role: command: (module, attribute, one line of help).
# The attribute is a function or a typer.Typer.
ROLES: dict[str, dict[str, tuple[str, str, str]]] = {
    "start here": {
        "demo": ("rappor_cli.demo", "demo", "The whole life of a report on this machine."),
        "quickstart": (
            "rappor_cli.quickstart",
            "quickstart",
            "Your own metrics, from virtual devices.",
        ),
    },
    "collect": {
        "metrics": ("rappor_cli.metrics", "app", "Check, list, push and retire metrics."),
        "serve": ("rappor_cli.serve", "serve", "Run the collector."),
        "keys": ("rappor_cli.keys", "app", "Create, list and revoke keys of the collector."),
        "ohttp-keys": ("rappor_cli.ohttp_keys", "app", "Keys of devices that send by a relay."),
        "close": ("rappor_cli.close", "close", "Close a day for good, so that it can be served."),
        "consume": ("rappor_cli.consume", "consume", "Count the reports that a broker holds."),
    },
    "analyse": {
        "decode": ("rappor_cli.analyze", "decode", "Recover frequencies from an aggregate."),
        "density": ("rappor_cli.analyze", "density", "Map where devices usually are."),
        "flows": ("rappor_cli.analyze", "flows", "Who sleeps here and works there."),
        "discover": ("rappor_cli.analyze", "discover", "Find frequent strings without a list."),
        "compare": ("rappor_cli.analyze", "compare", "What changed between two windows."),
        "aggregate": ("rappor_cli.aggregate", "aggregate", "Fetch the counts of closed days."),
        "reports": ("rappor_cli.reports", "app", "Get raw reports out, where a metric keeps them."),
        "decoder": ("rappor_cli.decoder_service", "app", "Run the decoder service; its keys."),
    },
    "plan and prove": {
        "plan": ("rappor_cli.plan", "plan", "Choose parameters: what will be seen, what it costs."),
        "audit": ("rappor_cli.audit", "audit", "Attack a client: does it keep its promises?"),
        "simulate": ("rappor_cli.simulate", "app", "Run a published or calibration experiment."),
    },
    "publish": {
        "release": ("rappor_cli.release", "app", "Judge, make and verify what is published."),
    },
    "operate": {
        "migrate": ("rappor_cli.backup", "migrate", "Bring the database to this version."),
        "backup": ("rappor_cli.backup", "backup", "Copy the collector's database while in use."),
        "restore": ("rappor_cli.backup", "restore", "Make the collector's database from a copy."),
        "archive": (
            "rappor_cli.archive",
            "app",
            "Keep raw reports in Parquet files, and sum them.",
        ),
    },
}
COMMANDS = {name: entry for commands in ROLES.values() for name, entry in commands.items()}


def load(name: str) -> Any:
    """Import and return the click command of a name in COMMANDS."""
    module, attribute, _ = COMMANDS[name]
    return _as_command(getattr(import_module(module), attribute))


def overview() -> str:
    """What `rappor --help` prints."""
    width = max(map(len, COMMANDS))
    lines = ["usage: rappor COMMAND [OPTIONS]", "       rappor COMMAND --help"]
    lines += ["       rappor --show-completion bash|zsh|fish"]
    for role, commands in ROLES.items():
        lines += ["", f"{role}:"]
        lines += [f"  {name:<{width}}  {text}" for name, (_, _, text) in commands.items()]
    return "\n".join(lines)


def program_version() -> str:
    """The installed version, for `--version` and the manual."""
    try:
        return version("rappor-telemetry")
    except PackageNotFoundError:
        return "from a source tree that is not installed"


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
