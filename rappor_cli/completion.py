"""`rappor completion SHELL`: the shell completes commands and options, by typer's own means."""

from __future__ import annotations

import os
from enum import StrEnum
from importlib import import_module
from typing import Annotated, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from rappor_cli.commands import COMMANDS, load

VARIABLE = "_RAPPOR_COMPLETE"  # set by the script while the shell asks for completions
_PROGRAM = "rappor"


class ShellName(StrEnum):
    """Shells that are completed in."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[ShellName, typer.Argument(help="Which shell.")]) -> None:
    """Print the completion script of SHELL, to be read when the shell starts.

    bash: `eval "$(rappor completion bash)"` in ~/.bashrc; zsh: the same with zsh after compinit in
    ~/.zshrc; fish: `rappor completion fish > ~/.config/fish/completions/rappor.fish`.
    """
    typer_completion = import_module("typer.completion")
    print(
        typer_completion.get_completion_script(
            prog_name=_PROGRAM, complete_var=VARIABLE, shell=shell.value
        )
    )


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
