"""`Table`: a table of results, whose columns are declared once: files, pages, the console and the
reference page of columns are made from the declaration.
"""

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
    """What the values of a column are, which decides how they are stored and printed."""

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
    """A column of a table.

    name: in files, stable.  meaning: one sentence for the reference page.  title: on pages and on
    the console, the name if empty.  shown: whether these show the column.
    """

    name: str
    type: ColumnType
    meaning: str
    title: str = ""
    unit: str = ""
    shown: bool = False

    @property
    def heading(self) -> str:
        """The heading of the column on pages and on the console."""
        return self.title or self.name.replace("_", " ")

    def text(self, value: Any) -> str:
        """Format a value for people; an unknown one is empty."""
        if value is None or (isinstance(value, float) and not np.isfinite(value)):
            return ""
        return _WRITERS.get(self.type, str)(value)


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
    """A table of results.

    data: by the name of a column, arrays, sequences or Arrow arrays of one length; None and NaN are
    unknown.  geometries: of GeoJSON, one a row, where rows have a place.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    data: Mapping[str, Any]
    exact: bool = False
    geometries: Sequence[Mapping[str, Any] | None] | None = None

    def __len__(self) -> int:
        return len(next(iter(self.data.values()), ()))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows as plain values; unknown numbers are None."""
        return zip(*(_plain(values) for values in self.data.values()), strict=True)

    def records(self) -> list[dict[str, Any]]:
        """Return the rows as plain values by the name of the column, for JSON."""
        return [dict(zip(self.data, row, strict=True)) for row in self.rows()]

    def shown(self, most: int) -> tuple[list[str], list[tuple[str, ...]]]:
        """Headings and the first rows, formatted; `low` and `high` are one column, `interval`."""
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
        """The table as a pyarrow.Table with types; names, units and meanings are its metadata."""
        import pyarrow as pa  # a tenth of a second, which a table on the console need not take

        fields, arrays = [], []
        for column in self.columns:
            array = _arrow(self.data[column.name], column.type)
            about = {"meaning": column.meaning, "unit": column.unit, "type": str(column.type),
                     "title": column.title, "shown": "yes" * column.shown}  # fmt: skip
            fields.append(pa.field(column.name, array.type, metadata=about))
            arrays.append(array)
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields, {"table": self.title}))

    def write_csv(self, path: Path) -> None:
        """Write UTF-8 with a header; numbers in full, unknown ones as empty cells. Unless the table
        is `exact`, a text that a spreadsheet would compute gets an apostrophe before it."""
        from pyarrow import csv

        table = self.to_arrow() if self.exact else without_formulas(self.to_arrow())
        with path.open("wb") as file:
            csv.write_csv(table, file)

    def to_parquet(self) -> bytes:
        """Return the bytes of `write_parquet`, without shapes."""
        from pyarrow import parquet

        buffer = io.BytesIO()
        parquet.write_table(self.to_arrow(), buffer)
        return buffer.getvalue()

    def write_parquet(self, path: Path) -> None:
        """Write Parquet with types, units and meanings; GeoParquet where rows have a place."""
        from pyarrow import parquet

        from decoder.tables.geo_files import write_geoparquet

        if self.geometries is None:
            parquet.write_table(self.to_arrow(), path)
        else:
            write_geoparquet(path, self.to_arrow(), self.geometries)


@dataclass(frozen=True)
class TableSchema:
    """The declaration of a table: its name in files, a title for people, and its columns.

    exact: texts in its CSV stay as they are, because programs read it again.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    exact: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def table(self, data: Mapping[str, Any], title: str = "") -> Table:
        """Make a table of declared columns by name; one without data is left out."""
        declared = {column.name: column for column in self.columns}
        columns = tuple(declared[name] for name in data)
        return Table(self.name, title or self.title, columns, data, self.exact)

    def of_records(self, records: Sequence[Mapping[str, Any]], title: str = "") -> Table:
        """Make a table of rows by the name of the column; what else they hold is passed over."""
        return self.table({name: [row[name] for row in records] for name in self.names}, title)

    def of_rows(self, rows: Sequence[Sequence[Any]], title: str = "") -> Table:
        """Make a table of rows, each with a value for every column, in order."""
        return self.of_records([dict(zip(self.names, row, strict=True)) for row in rows], title)


def _between(low: str, high: str) -> str:
    """Format the ends of an interval, "" where one is open, with their unit once."""
    if low and high:
        return f"{low.removesuffix(' %').removesuffix(' points')} to {high}"
    return f"{low} or more" if low else f"below {high}" if high else ""


def columns_of(schema: Any) -> tuple[Column, ...]:
    """The declared columns of a pyarrow.Schema that `Table.write_parquet` wrote, without shapes."""
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
    """Return a Parquet file as CSV in which no text is a formula; without a geometry."""
    from pyarrow import parquet

    table = parquet.read_table(io.BytesIO(content))
    return to_csv(table.drop_columns([GEOMETRY]) if GEOMETRY in table.column_names else table)


def csv_of_texts(content: bytes, num_columns: int) -> bytes:
    """Return a CSV file of texts, with or without a header, in which no text is a formula."""
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
    """Return the bytes that `Table.write_csv` would write of a pyarrow.Table."""
    from pyarrow import csv

    buffer = io.BytesIO()
    csv.write_csv(without_formulas(table), buffer, csv.WriteOptions(include_header=header))
    return buffer.getvalue()


# As `rappor_core.text.without_formula` finds them, in the syntax of RE2.
_COMPUTED = '(^|[;|\\t\\n])[\\s"]*[' + FORMULA_CHARACTERS + "]"


def without_formulas(table: Any) -> Any:
    """Return a pyarrow.Table in which no text is a formula that a spreadsheet computes."""
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
    """Values as plain Python objects; None for numbers that are not finite."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    elif hasattr(values, "to_pylist"):
        values = values.to_pylist()
    return [None if isinstance(v, float) and not np.isfinite(v) else v for v in values]
