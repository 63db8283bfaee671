"""Print the result of `rappor decode`: notes and a table, or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from decoder import Decoding
from decoder.output.decoding_files import results
from decoder.output.decoding_view import p_heading
from decoder.output.number_text import fraction, p_text
from decoder.output.series_files import series_rows
from decoder.results.tables import short
from decoder.results.warnings import percent
from decoder.series.series import Series
from decoder.workflows.kinds import KindAnswer
from rappor_cli.text import plain
from rappor_core.text import counted

_SHOWN = 25
_UNCUT = 14  # characters of a cell, such as a date, that no narrow terminal breaks
_FORGERS = "forgers: holding this part of the reports, they could explain the estimate"


def print_decoding(decoding: Decoding, output: Path | None, as_json: bool) -> None:
    """Print notes and the values found, largest first."""
    if as_json:
        print(json.dumps(results(decoding), allow_nan=False))
        return
    found = _table(decoding) if decoding.detected else None
    files = "results.csv, candidates.csv, report.html"
    _print(decoding, found, f"files in {output}: {files} and more" if output else None)


def print_series(series: Series, output: Path | None, as_json: bool) -> None:
    """Print for each value its first and last share and the smallest corrected p-value of a
    change."""
    if as_json:
        content = results(series.whole) | {"series": series_rows(series)}
        print(json.dumps(content, allow_nan=False, default=str))
        return
    found = _series_table(series) if series.values else None
    files = "series.csv, changes.csv, series.html"
    _print(series.whole, found, f"files in {output}: {files} and more" if output else None)


def print_answer(answer: KindAnswer, output: Path | None, as_json: bool) -> None:
    """Print what the decoder of a kind (numbers, pairs) found: notes, tables, names of files."""
    if as_json:
        print(json.dumps(answer.content, allow_nan=False))
        return
    console = Console()
    for note in answer.notes:
        console.print(Text.assemble(("note ", "yellow"), plain(note)), soft_wrap=True)
    for one in answer.tables:
        table = Table(title=plain(one.title))
        for number, heading in enumerate(one.headings):
            widest = max(len(row[number]) for row in one.rows)
            table.add_column(heading, justify="right" if number else "left", overflow="fold",
                             no_wrap=widest <= _UNCUT)  # fmt: skip
        for row in one.rows:
            table.add_row(*map(Text, row))
        console.print(table)
    if answer.files:
        names = ", ".join(path.name for path in answer.files)
        console.print(Text(f"files in {output}: {names}"), soft_wrap=True)


def _print(decoding: Decoding, found: Table | None, files: str | None) -> None:
    console = Console()
    for warning in decoding.warnings:
        console.print(Text.assemble(("note ", "yellow"), plain(warning)), soft_wrap=True)
    console.print(found or Text(decoding.reason or ""))
    if files:
        console.print(Text(files))


def _series_table(series: Series) -> Table:
    title = f"{series.whole.metric}: {len(series.values)} values in {len(series.windows)} windows"
    table = Table("value", "first", "last", "smallest p of a change", title=plain(title))
    for i, value in enumerate(series.values[:_SHOWN]):
        smallest = min(float(change.p_adjusted[i]) for change in series.changes)
        ends = (percent(float(share)) for share in series.shares[[0, -1], i])
        table.add_row(Text(short(value)), *ends, p_text(smallest))
    _tell_of_more(table, series.values, "series.csv")
    return table


def _table(decoding: Decoding) -> Table:
    known, rows = decoding.options.true_shares is not None, decoding.detected
    found = counted(decoding.summary.num_detected, "value")
    table = Table(title=plain(f"{decoding.metric}: {found} found"))
    table.add_column("value")
    heading = p_heading(decoding.options.correction).lower()
    for name in (*(["true"] if known else []), "share", "interval", heading, "forgers"):
        table.add_column(name, justify="right")
    for row in rows[:_SHOWN]:
        truth = [percent(row.true_share or 0.0)] if known else []
        interval = f"{percent(row.low)}{' *' * bool(row.note)} to {percent(row.high)}"
        numbers = percent(row.share), interval, p_text(row.p_adjusted), fraction(row.forged)
        table.add_row(Text(short(row.value)), *truth, *numbers)
    _tell_of_more(table, rows, "results.csv")
    notes = sorted({f"* {row.note}" for row in rows[:_SHOWN] if row.note})
    told = [table.caption] if table.caption else []
    table.caption = Text("\n".join(map(str, [*told, _FORGERS, *notes])))
    return table


def _tell_of_more(table: Table, rows: Sequence[object], file: str) -> None:
    if len(rows) > _SHOWN:
        table.caption = f"the {_SHOWN} largest of {len(rows):,}; {file} (with -o) has all"
