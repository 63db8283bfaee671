"""Commands that have commands below them."""

from __future__ import annotations

import typer


def command_group(text: str, example: str) -> typer.Typer:
    """Make a group whose help ends with an example that works as it stands.

    Args:
        text: what its commands are for.
        example: a whole line, from `rappor` on.
    """
    return typer.Typer(
        help=text,
        epilog=f"Example: {example}",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
