"""Files of a decoding: columns, plain JSON, a page that nothing can inject into."""

import csv
import io
import json
from datetime import date
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from decoder import Candidates, DecodeOptions, decode, write_outputs
from decoder.errors import OutputError
from decoder.kinds.run import in_memory, render_page
from decoder.kinds.values import KIND, decoding_content, decoding_result
from decoder.tables.paging import TableQuery, page_of_parquet
from decoder.tables.table import (
    Column,
    ColumnType,
    TableSchema,
    columns_of,
    csv_of_parquet,
    csv_of_texts,
)


@pytest.fixture
def decoding(make_aggregate, values, shares):
    odd = ['<script>alert("x")</script>', 'comma, "quoted"', *values[2:]]
    known = dict(zip(odd, shares.tolist(), strict=True))
    aggregate = make_aggregate(values=odd)
    return decode(aggregate, Candidates.from_strings(odd), DecodeOptions(true_shares=known))


def test_results_have_the_columns_of_google_rappor(decoding, tmp_path):
    write_outputs(decoding, tmp_path)
    with (tmp_path / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    google = "string estimate std_error proportion prop_std_error prop_low_95 prop_high_95"
    assert list(rows[0]) == [*google.split(), "p_value", "p_adjusted"]
    assert len(rows) == decoding.summary.num_detected
    counts = [float(row["estimate"]) for row in rows]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == pytest.approx(float(rows[0]["proportion"]) * 200_000)
    assert {row["string"] for row in rows} >= {'comma, "quoted"', '<script>alert("x")</script>'}


def test_json_is_strict_and_manifests_repeat_it(decoding, tmp_path):
    write_outputs(decoding, tmp_path)

    def refuse(name):
        raise AssertionError(name)

    results = json.loads((tmp_path / "results.json").read_text(), parse_constant=refuse)
    assert results["summary"]["num_detected"] == len(results["detected"])
    manifest = json.loads((tmp_path / "manifest.json").read_text(), parse_constant=refuse)
    assert manifest["num_reports"] == 200_000
    assert manifest["method"] == "cavity"
    assert manifest["params"] == decoding.params.to_dict()
    assert manifest["epsilon_one"] == pytest.approx(decoding.params.epsilon_one)
    assert "population" in manifest["target"]


def test_the_page_is_self_contained_and_escapes_values(decoding, tmp_path):
    write_outputs(decoding, tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<svg" in page
    assert "True share" in page


def test_results_for_machines_hold_no_nan(make_aggregate, values):
    """An empty cohort has no residual, and one-time RAPPOR no bound for life."""
    decoding = decode(make_aggregate().without([3]), Candidates.from_strings(values))
    content = json.loads(json.dumps(decoding_content(decoding), allow_nan=False))
    assert content["diagnostics"]["cohort_z"][3] is None
    assert content["diagnostics"]["cohort_z"][4] is not None


def test_an_interrupted_write_leaves_the_last_whole_file(decoding, tmp_path, monkeypatch):
    write_outputs(decoding, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def half(_content, _indent, path):
        path.write_text("{")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("decoder.kinds.run._write_json", half)
    with pytest.raises(OutputError, match=r"results\.json' cannot be written: no space left"):
        write_outputs(decoding, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_manifest_names_the_list(decoding):
    text = "".join(f"{value}\n" for value in decoding.candidates.values)
    assert (
        decoding_result(decoding).manifest["candidates_sha256"] == sha256(text.encode()).hexdigest()
    )


def test_bidi_and_hidden_characters_are_escaped(make_aggregate, values):
    odd = ["\u202eabc", "zero\u200bwidth", "two\nlines", "\U0001f469\u200d\U0001f467", *values[4:]]
    decoding = decode(make_aggregate(values=odd), Candidates.from_strings(odd))
    page = render_page(KIND, in_memory(decoding_result(decoding), "decode"))
    for shown in ("\\u202eabc", "zero\\u200bwidth", "two\\nlines", odd[3]):
        assert f'<th scope="row" dir="auto">{shown}</th>' in page
    assert "\u202e" not in page


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
