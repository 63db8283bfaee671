"""`rappor --show-completion SHELL`: commands and options are completed, by typer's means."""

from __future__ import annotations

import os
from importlib import import_module
from typing import NoReturn

from typer.core import TyperCommand, TyperGroup

from rappor_cli.commands import COMMANDS, load

VARIABLE = "_RAPPOR_COMPLETE"  # set by the script while the shell asks for completions
_PROGRAM = "rappor"


def completion_script(shell: str) -> str:
    """Return typer's completion script for a shell: bash, zsh or fish."""
    script: str = import_module("typer.completion").get_completion_script(
        prog_name=_PROGRAM, complete_var=VARIABLE, shell=shell
    )
    return script


def complete() -> NoReturn:
    """Answer a shell that asks for completions (VARIABLE is set), and exit.

    Only the command that has been typed is loaded: all of them take seconds.
    """
    import_module("typer.completion").completion_init()
    typed = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()
    name = typed[1] if len(typed) > 1 and typed[1] in COMMANDS else ""
    commands = {
        command: load(command) if command == name else TyperCommand(command, help=text)
        for command, (_, _, text) in COMMANDS.items()
    }
    root = TyperGroup(name=_PROGRAM, commands=commands)
    root.main(args=[], prog_name=_PROGRAM, complete_var=VARIABLE)
    raise SystemExit(0)
