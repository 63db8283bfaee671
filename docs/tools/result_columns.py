"""`python docs/tools/result_columns.py`: write docs/results-columns.md from the schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from decoder.kinds.interface import DECODERS, decoder_of, kinds_with
from decoder.kinds.over_time import CHANGES, COMPARISON, SERIES
from decoder.tables.table import Column, TableSchema

PAGE = Path(__file__).parents[1] / "results-columns.md"
HEAD = """\
# Columns of results

Every table that a decoding writes, as CSV and as Parquet, by kind of metric. In CSV an unknown
number is an empty cell. This page is written by `python docs/tools/result_columns.py`.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for kinds, schemas in _by_kind():
        parts.append(f"## {_named(kinds)}\n")
        parts += [_section(schema) for schema in schemas]
    parts.append("## Over time\n")
    parts.append(f"With `--each`, and of `rappor compare`: {_named(kinds_with('series'))}.\n")
    parts += [_section(schema) for schema in (SERIES, CHANGES, COMPARISON)]
    return "\n".join(parts)


def _by_kind() -> Iterator[tuple[tuple[str, ...], tuple[TableSchema, ...]]]:
    """Kinds that share a decoder, and its schemas."""
    decoders = dict.fromkeys(decoder_of(kind) for kind in DECODERS)
    for decoder in decoders:
        kinds = tuple(kind for kind in DECODERS if decoder_of(kind) is decoder)
        yield kinds, decoder.schemas


def _named(kinds: tuple[str, ...]) -> str:
    return ", ".join(f"`{kind}`" for kind in kinds)


def _section(schema: TableSchema) -> str:
    lines = [f"### `{schema.name}`: {schema.title[0].lower()}{schema.title[1:]}\n",
             "| column | type | meaning |", "|---|---|---|"]  # fmt: skip
    for names, column in _rows(schema):
        unit = f", {column.unit}" if column.unit else ""
        meaning = column.meaning
        if len(names) > 1:  # only the ends of an interval begin like that
            meaning = meaning.replace("Lower end", "Lower and upper end", 1)
        lines.append(f"| {_named(names)} | {column.type}{unit} | {meaning} |")
    return "\n".join(lines) + "\n"


def _rows(schema: TableSchema) -> Iterator[tuple[tuple[str, ...], Column]]:
    """Yield the columns of a table; ends of an interval and errors share a row."""
    columns = list(schema.columns)
    while columns:
        column = columns.pop(0)
        following = columns[0] if columns else None
        same = following is not None and following.type == column.type
        if column.meaning.startswith("Lower end"):
            upper = columns.pop(0)
            if (upper.name, upper.type) != (column.name.replace("low", "high"), column.type):
                raise ValueError(f"{schema.name}: {column.name} is followed by {upper.name}")
            yield (column.name, upper.name), column
        elif same and following.meaning.startswith("Standard error of"):
            meaning = f"{column.meaning[:-1]}, and its standard error."
            yield (column.name, columns.pop(0).name), replace(column, meaning=meaning)
        elif same and following.meaning.startswith("The same, corrected"):
            meaning = f"{column.meaning[:-1]}; {columns.pop(0).meaning.lower()}"
            yield (column.name, following.name), replace(column, meaning=meaning)
        else:
            yield (column.name,), column


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
