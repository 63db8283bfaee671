"""`python docs/tools/doc_tables.py PAGE...`: fill a page's marked tables from their commands.

A marked table is between `<!-- table: rappor ... --markdown -->` and `<!-- /table -->`. Its
first line says which of the command's columns the page shows, and in which order.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rappor_cli.experiment_runs import markdown_lines
from rappor_core.errors import RapporError

BLOCK = re.compile(
    r"^<!-- table: (?P<command>rappor .+ --markdown) -->\n(?P<table>.*?)^<!-- /table -->$",
    re.MULTILINE | re.DOTALL,
)


class DocTableError(RapporError, ValueError):
    """A marked table that its command does not fill."""


def fill(page: str, run: Callable[[str], str]) -> str:
    """The text of a page with its marked tables filled.

    Args:
        page: Markdown.
        run: from a command to the Markdown table that it prints; asked once for each command.

    Raises:
        DocTableError: for a column of the page that the command does not print.
    """
    printed = {
        command: run(command) for command in {one["command"] for one in BLOCK.finditer(page)}
    }

    def filled(block: re.Match[str]) -> str:
        wanted, *_ = _cells(block["table"])
        columns, _, *rows = _cells(printed[block["command"]])
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise DocTableError(f"{missing[0]!r} is not a column of: {block['command']}")
        places = [columns.index(name) for name in wanted]
        table = markdown_lines(wanted, [[row[place] for place in places] for row in rows])
        return "\n".join([f"<!-- table: {block['command']} -->", *table, "<!-- /table -->"])

    return BLOCK.sub(filled, page)


def _cells(table: str) -> list[list[str]]:
    """The cells of each line of a Markdown table."""
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines()]


def _run(command: str) -> str:
    arguments = [sys.executable, "-m", "rappor_cli", *shlex.split(command)[1:]]
    ran = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 - the page is ours
    return ran.stdout


def main(pages: Sequence[str]) -> None:
    """Fill the marked tables of pages, in place."""
    for path in map(Path, pages):
        path.write_text(fill(path.read_text(encoding="utf-8"), _run), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
