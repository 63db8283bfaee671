"""`rappor man`: one manual page of all commands, from their own help.

click-man, which does this for click, does not take typer's commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rappor_cli.commands import ROLES, load, program_version

_HEAD = '.TH RAPPOR 1 "" "rappor-telemetry {version}" "User Commands"'
_FILES = (
    "Keys come from RAPPOR_KEY, the collector's database from RAPPOR_DATABASE. Exit codes: 0 done, "
    "1 refused or failed with a reason of one line, 2 wrong usage."
)


def man() -> None:
    """Print the manual of all commands: `rappor man > ~/.local/share/man/man1/rappor.1`."""
    print("\n".join(_page()))


def _page() -> Iterator[str]:
    """The lines of the page, in the macros of man(7)."""
    yield _HEAD.format(version=program_version())
    yield from (".SH NAME", "rappor \\- learn how a population behaves, and of nobody in it")
    yield from (".SH SYNOPSIS", ".B rappor", ".I COMMAND", "[OPTIONS]")
    for role, names in ROLES.items():
        yield f".SH COMMANDS TO {role.upper()}" if role != "start here" else ".SH FIRST COMMANDS"
        for name in names:
            yield from _command(f"rappor {name}", load(name))
    yield from (".SH ENVIRONMENT AND EXIT STATUS", _escaped(_FILES))


def _command(path: str, command: Any) -> Iterator[str]:
    """A command with its options, and those below it."""
    arguments = [_argument(param) for param in command.params if not _is_option(param)]
    yield from (f".SS {_escaped(' '.join([path, *arguments]))}", _escaped(command.help or ""))
    for param in filter(_is_option, command.params):
        yield from (".TP", f".B {_escaped(', '.join(param.opts))}", _escaped(param.help or ""))
    if command.epilog:
        yield from (".PP", _escaped(command.epilog))
    for name, below in getattr(command, "commands", {}).items():
        yield from _command(f"{path} {name}", below)


def _argument(param: Any) -> str:
    name = str(param.name).upper()
    return name if param.required else f"[{name}]"


def _is_option(param: Any) -> bool:
    return bool(param.param_type_name == "option")


def _escaped(text: str) -> str:
    """Text as it is in roff: no line of it is a macro, no dash a hyphen."""
    words = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{words}" if words.startswith((".", "'")) else words
