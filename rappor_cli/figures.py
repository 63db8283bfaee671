"""Print the figures of simulations as a table for the terminal, as Markdown or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import typer
from rich.table import Table

from rappor_cli.text import wide_console


def known_names(given: Iterable[str] | None, names: Sequence[str], option: str) -> None:
    """Raise BadParameter if an option was given a name that does not exist."""
    unknown = sorted(set(given or ()) - set(names))
    if unknown:
        raise typer.BadParameter(f"{option} {unknown[0]!r} is not one of: {'; '.join(names)}")


def markdown_lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table as in the docs."""
    lines = [headings, ("---",) * len(headings), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def print_figures(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    as_markdown: bool,
    left: Sequence[str] = (),
) -> None:
    """Print a table of figures.

    Args:
        title: above it, on a terminal.
        headings: of the columns.
        rows: as many cells each.
        as_markdown: as in the docs.
        left: headings of the columns that hold text, which are not set to the right.
    """
    if as_markdown:
        print("\n".join(markdown_lines(headings, rows)))
        return
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right")
    for row in rows:
        table.add_row(*row)
    wide_console().print(table)
