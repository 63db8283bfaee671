"""The commands of `rappor` by role, which are listed without importing them."""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

# role: command: (module, attribute, one line of help).
# The attribute is a function or a typer.Typer.
ROLES: dict[str, dict[str, tuple[str, str, str]]] = {
    "start here": {
        "demo": ("rappor_cli.demo", "demo", "A whole deployment on this machine."),
        "quickstart": ("rappor_cli.demo", "quickstart", "Your own metrics, from virtual devices."),
    },
    "collect": {
        "metrics": ("rappor_cli.metrics", "app", "Check, list, push and retire metrics."),
        "serve": ("rappor_cli.serve", "serve", "Run the collector."),
        "keys": ("rappor_cli.keys", "app", "Create, list and revoke keys of the collector."),
        "ohttp-keys": ("rappor_cli.ohttp_keys", "app", "Keys of devices that send via a relay."),
        "close": ("rappor_cli.close", "close", "Close a day permanently, to serve it."),
        "consume": ("rappor_cli.serve", "consume", "Count the reports that a broker holds."),
    },
    "analyze": {
        "decode": ("rappor_cli.analyze", "decode", "Recover frequencies from an aggregate."),
        "density": ("rappor_cli.analyze", "density", "Map where devices usually are."),
        "flows": ("rappor_cli.analyze", "flows", "Who sleeps here and works there."),
        "discover": ("rappor_cli.analyze", "discover", "Find frequent strings without a list."),
        "compare": ("rappor_cli.analyze", "compare", "What changed between two windows."),
        "aggregate": ("rappor_cli.reports", "aggregate", "Fetch the counts of closed days."),
        "reports": ("rappor_cli.reports", "app", "Export raw reports, if a metric keeps them."),
        "decoder": ("rappor_cli.decoder_service", "app", "Run the decoder service; its keys."),
    },
    "plan and prove": {
        "plan": ("rappor_cli.plan", "plan", "Choose parameters; predict results and cost."),
        "audit": ("rappor_cli.audit", "audit", "Attack a client: does it keep its promises?"),
        "simulate": ("rappor_cli.simulate", "app", "Run a published or calibration experiment."),
    },
    "publish": {
        "release": ("rappor_cli.release", "app", "Judge, make and verify what is published."),
    },
    "operate": {
        "clock": ("rappor_cli.close", "clock", "Confirm a collector's suspect clock."),
        "migrate": ("rappor_cli.backup", "migrate", "Bring a database to this version."),
        "backup": ("rappor_cli.backup", "backup", "Copy a database while it is in use."),
        "restore": ("rappor_cli.backup", "restore", "Make a database from a copy."),
        "archive": (
            "rappor_cli.archive",
            "app",
            "Keep raw reports in Parquet files, and sum them.",
        ),
    },
}
COMMANDS = {name: entry for commands in ROLES.values() for name, entry in commands.items()}


UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # of click, which typer may bundle
STOPPED = 130  # the exit code that shells report for a program ended by Ctrl-C
SERVERS = ("serve", "consume", "worker")  # Ctrl-C ends them at once, until they handle it


def run_command(arguments: list[str], started: Callable[[], None] | None = None) -> int:
    """Run a command and return its exit code. `started` is called before the command runs."""
    try:
        code = root_command()(
            args=arguments, prog_name="rappor", obj=started, standalone_mode=False
        )
    except UsageError as error:
        context: Any = getattr(error, "ctx", None)
        path = "rappor" if context is None else context.command_path
        if type(error).__name__ == "NoArgsIsHelpError":
            print(context.get_help())
        else:
            message = " ".join(error.format_message().split()).rstrip(".")  # type: ignore[attr-defined]
            print(f"{path}: {message} (try '{path} -h')", file=sys.stderr)
        return 2
    except typer.Abort:  # no more input at a prompt
        print("rappor: aborted", file=sys.stderr)
        code = 1
    if code == STOPPED:  # typer itself prints nothing
        print("rappor: stopped", file=sys.stderr)
    return code if isinstance(code, int) else 0


def root_command() -> Any:
    """Return the click group of all commands, without importing them."""
    app = typer.Typer(cls=LazyGroup, no_args_is_help=True)
    app.callback(context_settings={"help_option_names": ["-h", "--help"]})(_root)
    root: Any = typer.main.get_command(app)
    for role, commands in ROLES.items():
        for name, (_, _, text) in commands.items():
            root.add_command(TyperCommand(name, help=text, rich_help_panel=role))
    return root


class LazyGroup(TyperGroup):
    """A group that imports a command when it runs, or when a shell completes its options.

    If the context has an `obj`, it is called once the command is loaded and may run.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or command is None:
            return name, command, rest
        loaded = load(name)
        below = rest[0] if name == "decoder" and rest else name
        if callable(ctx.obj) and below not in SERVERS:
            ctx.obj()
        return name, loaded, rest


def load(name: str) -> Any:
    """Import the click command with a name in COMMANDS."""
    module, attribute, _ = COMMANDS[name]
    return _as_command(getattr(import_module(module), attribute))


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            print(f"rappor {version('rappor-telemetry')}")
        except PackageNotFoundError:
            print("rappor from a source tree that is not installed")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Local differential privacy telemetry: devices, collector, decoder, releases."""


def _as_command(target: Any) -> Any:
    if not isinstance(target, typer.Typer):
        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command()(target)
        target = app
    command = typer.main.get_command(target)
    _name_bad_values(command)
    return command


def _name_bad_values(command: Any) -> None:
    """Make usage errors quote the bad value, which some versions of typer omit."""
    for below in getattr(command, "commands", {}).values():
        _name_bad_values(below)
    for parameter in command.params:
        parameter.process_value = partial(_processed, parameter.process_value)


def _processed(process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    try:
        return process(context, value)
    except Exception as error:
        message = str(getattr(error, "message", "")).removeprefix("Value error, ")
        if value is not None and message.startswith("Input should"):
            message = f"{value!r}: {message[0].lower()}{message[1:]}"
        if message:
            setattr(error, "message", message)  # noqa: B010
        raise
