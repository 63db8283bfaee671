"""`Table`: a table of results whose columns are declared once.

Files, pages, console output and the reference page of columns follow from the declaration."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from decoder.tables.format import GEOMETRY, count, number_text, p_text, percent, points
from rappor_core.text import FINITE_NUMBER, FORMULA_CHARACTERS, without_formula


class ColumnType(StrEnum):
    """The type of a column's values, which determines how they are stored and printed."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    SHARE = "share"  # a fraction of 1; printed in percent
    POINTS = "points"  # a difference of shares; printed in points
    P_VALUE = "p-value"
    DAY = "day"
    FLAG = "flag"


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str  # The name in files; stable
    type: ColumnType
    meaning: str  # One sentence for the reference page
    title: str = ""  # The title on pages and the console; if empty, the name
    unit: str = ""
    shown: bool = False  # Whether pages and the console show the column

    @property
    def heading(self) -> str:
        """The heading of the column on pages and on the console."""
        return self.title or self.name.replace("_", " ")

    def text(self, value: Any) -> str:
        """Format a value for people; an unknown value becomes ""."""
        if value is None or (isinstance(value, float) and not np.isfinite(value)):
            return ""
        return _WRITERS.get(self.type, str)(value)


SHARE_INTERVAL = (
    Column("std_error", ColumnType.SHARE, "Standard error of the share."),
    Column("low", ColumnType.SHARE, "Lower end of the share's interval.", shown=True),
    Column("high", ColumnType.SHARE, "Upper end of the share's interval.", shown=True),
)
_WRITERS: dict[ColumnType, Callable[[Any], str]] = {
    ColumnType.INTEGER: count,
    ColumnType.NUMBER: number_text,
    ColumnType.SHARE: percent,
    ColumnType.POINTS: points,
    ColumnType.P_VALUE: p_text,
    ColumnType.FLAG: lambda v: "yes" if v else "no",
}


@dataclass(frozen=True)
class Table:
    """A table of results."""

    name: str
    title: str
    columns: tuple[Column, ...]
    data: Mapping[str, Any]  # Arrays, sequences or Arrow arrays, by column; None, NaN: unknown
    exact: bool = False  # As in `TableSchema`
    # GeoJSON, one per row, if rows have a place
    geometries: Sequence[Mapping[str, Any] | None] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.data.values()), ()))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows as plain values; unknown numbers are None."""
        return zip(*(_plain(values) for values in self.data.values()), strict=True)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as plain values by column name, for JSON."""
        return [dict(zip(self.data, row, strict=True)) for row in self.rows()]

    def shown(self, most: int) -> tuple[list[str], list[tuple[str, ...]]]:
        """Return the headings and the first rows, formatted; `low` and `high` become `interval`."""
        headings, cells, before = list[str](), list[list[str]](), ""
        for column in (item for item in self.columns if item.shown):
            texts = [column.text(value) for value in _plain(self.data[column.name][:most])]
            if before == column.name.replace("high", "low") != column.name:
                headings[-1] = "interval"
                cells[-1] = list(map(_between, cells[-1], texts))
            else:
                headings.append(column.heading)
                cells.append(texts)
            before = column.name
        return headings, list(zip(*cells, strict=True))

    def to_arrow(self) -> Any:
        """Return a typed pyarrow.Table, with names, units and meanings as metadata."""
        import pyarrow as pa  # takes a tenth of a second, which console tables avoid

        fields, arrays = [], []
        for column in self.columns:
            array = _arrow(self.data[column.name], column.type)
            about = {"meaning": column.meaning, "unit": column.unit, "type": str(column.type),
                     "title": column.title, "shown": "yes" * column.shown}  # fmt: skip
            fields.append(pa.field(column.name, array.type, metadata=about))
            arrays.append(array)
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields, {"table": self.title}))

    def write_csv(self, path: Path) -> None:
        """Write UTF-8 with a header, full-precision numbers, and empty cells for unknown values.

        Unless the table is `exact`, a text that a spreadsheet would compute is prefixed with an
        apostrophe."""
        from pyarrow import csv

        table = self.to_arrow() if self.exact else without_formulas(self.to_arrow())
        with path.open("wb") as file:
            csv.write_csv(table, file)

    def to_parquet(self) -> bytes:
        """Return the bytes of `write_parquet`, without geometries."""
        from pyarrow import parquet

        buffer = io.BytesIO()
        parquet.write_table(self.to_arrow(), buffer)
        return buffer.getvalue()

    def write_parquet(self, path: Path) -> None:
        """Write Parquet with types, units and meanings; GeoParquet if rows have a place."""
        from pyarrow import parquet

        from decoder.tables.geo_files import write_geoparquet

        if self.geometries is None:
            parquet.write_table(self.to_arrow(), path)
        else:
            write_geoparquet(path, self.to_arrow(), self.geometries)


@dataclass(frozen=True)
class TableSchema:
    """The declaration of a table: its name in files, a title for people, and its columns."""

    name: str
    title: str
    columns: tuple[Column, ...]
    exact: bool = False  # Whether texts in its CSV are unchanged, because programs read them again

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def table(self, data: Mapping[str, Any], title: str = "") -> Table:
        """Build a table from data by column name; columns without data are omitted."""
        declared = {column.name: column for column in self.columns}
        columns = tuple(declared[name] for name in data)
        return Table(self.name, title or self.title, columns, data, self.exact)

    def of_records(self, records: Sequence[Mapping[str, Any]], title: str = "") -> Table:
        """Build a table from rows that map column names to values; other keys are ignored."""
        return self.table({name: [row[name] for row in records] for name in self.names}, title)

    def of_rows(self, rows: Sequence[Sequence[Any]], title: str = "") -> Table:
        """Build a table from rows with a value for every column, in order."""
        return self.of_records([dict(zip(self.names, row, strict=True)) for row in rows], title)


def _between(low: str, high: str) -> str:
    if low and high:
        return f"{low.removesuffix(' %').removesuffix(' points')} to {high}"
    return f"{low} or more" if low else f"below {high}" if high else ""


def columns_of(schema: Any) -> tuple[Column, ...]:
    """Return the columns, without geometries, of a pyarrow.Schema from `Table.write_parquet`."""
    columns = []
    for column in schema:
        if column.name == GEOMETRY:
            continue
        about = {key.decode(): value.decode() for key, value in (column.metadata or {}).items()}
        kind = ColumnType(about["type"])
        columns.append(Column(column.name, kind, about["meaning"], about["title"], about["unit"],
                            bool(about["shown"])))  # fmt: skip
    return tuple(columns)


def csv_of_parquet(content: bytes) -> bytes:
    """Convert a Parquet file to CSV without geometries and without formulas in strings."""
    from pyarrow import parquet

    table = parquet.read_table(io.BytesIO(content))
    return to_csv(table.drop_columns([GEOMETRY]) if GEOMETRY in table.column_names else table)


def csv_of_texts(content: bytes, num_columns: int) -> bytes:
    """Convert a CSV file of strings, with or without a header, to CSV without formulas."""
    import pyarrow as pa
    from pyarrow import csv

    names = [f"f{number}" for number in range(num_columns)]
    table = csv.read_csv(
        io.BytesIO(content),
        csv.ReadOptions(column_names=names),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )
    return to_csv(table, header=False)


def to_csv(table: Any, *, header: bool = True) -> bytes:
    """Return the bytes that `Table.write_csv` would write for a pyarrow.Table."""
    from pyarrow import csv

    buffer = io.BytesIO()
    csv.write_csv(without_formulas(table), buffer, csv.WriteOptions(include_header=header))
    return buffer.getvalue()


# The formulas of `rappor_core.text.without_formula`, in the syntax of RE2.
_COMPUTED = '(^|[;|\\t\\n])[\\s"]*[' + FORMULA_CHARACTERS + "]"


def without_formulas(table: Any) -> Any:
    """Return a pyarrow.Table in which no text is a formula for a spreadsheet."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for number, name in enumerate(table.column_names):
        texts = table[name]
        computed = pa.types.is_string(texts.type) and pc.match_substring_regex(texts, _COMPUTED)
        if computed is False or not pc.any(computed).as_py():
            continue
        cells = [
            text if text is None or FINITE_NUMBER.fullmatch(text) else without_formula(text)
            for text in texts.to_pylist()
        ]
        table = table.set_column(number, table.schema.field(number), pa.array(cells, pa.string()))
    return table


def _arrow(values: Any, kind: ColumnType) -> Any:
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, np.ndarray):
        return pa.array(values, mask=~np.isfinite(values) if values.dtype.kind == "f" else None)
    types = {ColumnType.TEXT: pa.string(), ColumnType.INTEGER: pa.int64(),
             ColumnType.DAY: pa.date32(), ColumnType.FLAG: pa.bool_()}  # fmt: skip
    return pa.array(_plain(values), types.get(kind, pa.float64()))


def _plain(values: Any) -> list[Any]:
    if isinstance(values, np.ndarray):
        values = values.tolist()
    elif hasattr(values, "to_pylist"):
        values = values.to_pylist()
    return [None if isinstance(v, float) and not np.isfinite(v) else v for v in values]
