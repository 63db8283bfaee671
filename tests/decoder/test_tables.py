"""Tables: columns declared once, in every form that they are written in."""

import csv
import io
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from decoder.tables.format import number_text, percent, points
from decoder.tables.paging import TableQuery, page_of_parquet
from decoder.tables.table import (
    Column,
    ColumnType,
    TableSchema,
    columns_of,
    csv_of_parquet,
    csv_of_texts,
)

SCHEMA = TableSchema(
    "shares",
    "Shares of values",
    (
        Column("value", ColumnType.TEXT, "The value.", shown=True),
        Column("share", ColumnType.SHARE, "Share of the reports.", shown=True),
        Column("low", ColumnType.SHARE, "Lower end.", shown=True),
        Column("high", ColumnType.SHARE, "Upper end.", shown=True),
        Column("day", ColumnType.DAY, "The day."),
        Column("km", ColumnType.NUMBER, "Distance.", unit="km"),
        Column("detected", ColumnType.FLAG, "Whether it is detected.", shown=True),
    ),
)
FORMULAS = ["=1+1", "+cmd|'/C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1",
            '="a"', "-inf"]  # fmt: skip
TEXTS = ["-1.5", "+2", "-1e-300", "1", "a=b", "'=1", "", "a-b"]


def rows_of(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


def shares(*values: str) -> bytes:
    rows = [(value, 0.5, 0.4, 0.6, date(2026, 11, 2), None, True) for value in values]
    return SCHEMA.of_rows(rows).to_parquet()


@pytest.mark.parametrize("value", FORMULAS)
def test_no_cell_is_a_formula(value: str, tmp_path: Path) -> None:
    table = SCHEMA.of_rows([(value, -0.5, 0.0, 0.0, None, 1.0, False)])
    table.write_csv(tmp_path / "a.csv")
    (_, row) = rows_of((tmp_path / "a.csv").read_bytes())
    assert row == [f"'{value}", "-0.5", "0", "0", "", "1", "false"]
    assert table.records()[0]["value"] == value
    plain = "value,weight\n" + f'"{value}",-2\n'.replace('="a"', '=""a""')
    assert rows_of(csv_of_texts(plain.encode(), 2))[1] == [f"'{value}", "-2"]


@pytest.mark.parametrize("value", TEXTS)
def test_numbers_and_other_texts_stay(value: str) -> None:
    assert rows_of(csv_of_parquet(shares(value)))[1][0] == value


def test_separators_of_other_countries_are_quoted() -> None:
    """A semicolon ends a cell there, also within quotes."""
    row = rows_of(csv_of_parquet(shares("x;=1+1;y")))[1]
    assert not any(cell.startswith("=") for cell in row[0].split(";"))


def test_an_exact_table_keeps_its_texts(tmp_path: Path) -> None:
    schema = TableSchema("list", "List", SCHEMA.columns[:1], exact=True)
    schema.of_rows([("=1",)]).write_csv(tmp_path / "a.csv")
    assert rows_of((tmp_path / "a.csv").read_bytes())[1] == ["=1"]


def test_parquet_holds_types_units_and_meanings() -> None:
    content = shares("a")
    schema = parquet.read_schema(io.BytesIO(content))
    columns = {column.name: column for column in columns_of(schema)}
    assert columns == {column.name: column for column in SCHEMA.columns}
    assert columns["km"].unit == "km"
    assert str(schema.field("day").type) == "date32[day]"


def test_unknown_numbers_are_null_everywhere(tmp_path: Path) -> None:
    table = SCHEMA.table({"value": ["a", "b"], "share": np.array([np.nan, np.inf])})
    assert table.records() == [{"value": "a", "share": None}, {"value": "b", "share": None}]
    table.write_csv(tmp_path / "a.csv")
    assert rows_of((tmp_path / "a.csv").read_bytes())[1:] == [["a", ""], ["b", ""]]


def test_the_console_joins_the_ends_of_an_interval() -> None:
    rows = [("a", 0.5, 0.4, 0.6, None, 1.0, True), ("b", 0.1, 0.0, 0.2, None, 2.0, False)]
    headings, cells = SCHEMA.of_rows(rows).shown(1)
    assert headings == ["value", "share", "interval", "detected"]
    assert cells == [("a", "50.0 %", "40.0 to 60.0 %", "yes")]


def test_a_page_searches_sorts_and_cuts() -> None:
    content = SCHEMA.of_rows(
        [(f"v{i}", i / 100, 0.0, 1.0, None, None, True) for i in range(100)]
    ).to_parquet()
    page = page_of_parquet(content, TableQuery(q="V1", sort="-share", rows=3), ["value", "share"])
    assert [row["value"] for row in page.rows] == ["v19", "v18", "v17"]
    assert (page.matching, page.total) == (11, 100)


def test_a_column_that_is_not_declared_is_refused() -> None:
    with pytest.raises(KeyError, match="other"):
        SCHEMA.table({"other": [1]})


def test_numbers_have_three_digits_and_shares_stay_within_0_and_100() -> None:
    shares = (-0.02, 0, 1.23456e-6, 0.000995, 0.0123456, 0.09996, 0.5, 0.9972, 1, 1.07)
    assert [percent(share).removesuffix(" %") for share in shares] == [
        "0", "0", "0.000123", "0.0995", "1.23", "10.0", "50.0", "99.7", "100", "100"]  # fmt: skip
    assert [points(one) for one in (-0.0123456, 0)] == ["-1.23 points", "0 points"]
    assert [number_text(one) for one in (0.25, 12.345, 999.6, 1234.5)] == [
        "0.25", "12.3", "1,000", "1,234"]  # fmt: skip


def test_an_open_interval_has_one_end() -> None:
    rows = [(None, 0.2), (0.1, None), (None, None), (-0.1, 1.2)]
    table = SCHEMA.of_rows([("a", 0.5, low, high, None, 1.0, True) for low, high in rows])
    assert [cells[2] for cells in table.shown(9)[1]] == [
        "below 20.0 %", "10.0 % or more", "", "0 to 100 %"]  # fmt: skip
