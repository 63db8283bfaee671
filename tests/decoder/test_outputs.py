"""Files of a decoding: columns, plain JSON, a page that nothing can inject into."""

import csv
import io
import json
from dataclasses import asdict
from datetime import date
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from decoder import Candidates, DecodeOptions, decode, write_outputs
from decoder.errors import CountsError, OutputError
from decoder.formats.google_rappor import read_counts, read_map, read_params, write_metrics_json
from decoder.kinds.run import in_memory, render_page
from decoder.kinds.values import KIND, decoding_content, decoding_result
from decoder.tables import table as tables
from decoder.tables.format import number_text, percent, points
from decoder.tables.paging import TableQuery, page_of_parquet
from rappor_core.hashing import md5_positions
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor


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


SCHEMA = tables.TableSchema(
    "shares",
    "Shares of values",
    (
        tables.Column("value", tables.ColumnType.TEXT, "The value.", shown=True),
        tables.Column("share", tables.ColumnType.SHARE, "Share of the reports.", shown=True),
        tables.Column("low", tables.ColumnType.SHARE, "Lower end.", shown=True),
        tables.Column("high", tables.ColumnType.SHARE, "Upper end.", shown=True),
        tables.Column("day", tables.ColumnType.DAY, "The day."),
        tables.Column("km", tables.ColumnType.NUMBER, "Distance.", unit="km"),
        tables.Column("detected", tables.ColumnType.FLAG, "Whether it is detected.", shown=True),
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
    assert rows_of(tables.csv_of_texts(plain.encode(), 2))[1] == [f"'{value}", "-2"]


@pytest.mark.parametrize("value", TEXTS)
def test_numbers_and_other_texts_stay(value: str) -> None:
    assert rows_of(tables.csv_of_parquet(shares(value)))[1][0] == value


def test_separators_of_other_countries_are_quoted() -> None:
    """A semicolon ends a cell there, also within quotes."""
    row = rows_of(tables.csv_of_parquet(shares("x;=1+1;y")))[1]
    assert not any(cell.startswith("=") for cell in row[0].split(";"))


def test_an_exact_table_keeps_its_texts(tmp_path: Path) -> None:
    schema = tables.TableSchema("list", "List", SCHEMA.columns[:1], exact=True)
    schema.of_rows([("=1",)]).write_csv(tmp_path / "a.csv")
    assert rows_of((tmp_path / "a.csv").read_bytes())[1] == ["=1"]


def test_parquet_holds_types_units_and_meanings() -> None:
    content = shares("a")
    schema = parquet.read_schema(io.BytesIO(content))
    columns = {column.name: column for column in tables.columns_of(schema)}
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


WORDS = [f"word{i}" for i in range(20)]


@pytest.fixture
def md5_params():
    return rappor(32, 2, 64, 0.25, 0.25, 0.75, hash="md5")


@pytest.fixture
def files(md5_params, tmp_path):
    """params.csv, counts.csv and a map made by hand from MD5, with CRLF."""
    shares = np.repeat([0.2, 0.0], [5, 15])
    aggregate, _ = draw_aggregate(WORDS, shares, 100_000, md5_params, np.random.default_rng(0))
    paths = {name: tmp_path / f"{name}.csv" for name in ("params", "counts", "map")}
    paths["params"].write_text("k,h,m,p,q,f\r\n32,2,64,0.25,0.75,0.25\r\n")
    rows = zip(aggregate.reports_per_cohort, aggregate.bit_counts, strict=True)
    text = "\n".join(",".join(map(str, (total, *counts))) for total, counts in rows)
    paths["counts"].write_text(text + "\n")
    with paths["map"].open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        for word in WORDS:
            cells = [
                cohort * 32 + bit + 1
                for cohort in range(64)
                for bit in md5_positions(word.encode(), cohort, 32, 2)
            ]
            writer.writerow([word, *cells])
    return paths


def test_map_and_hash_give_the_same_decoding(files):
    params = read_params(files["params"])
    aggregate = read_counts(files["counts"], params)
    by_map = decode(aggregate, read_map(files["map"], params))
    by_hash = decode(aggregate, Candidates.from_strings(WORDS))
    assert {row.value for row in by_map.detected} == set(WORDS[:5])
    np.testing.assert_array_equal(by_map.candidates.estimate, by_hash.candidates.estimate)


def test_metrics_json_has_their_six_numbers(files, tmp_path):
    aggregate = read_counts(files["counts"], read_params(files["params"]))
    decoding = decode(aggregate, Candidates.from_strings(WORDS))
    write_metrics_json(asdict(decoding.summary), 1.5, tmp_path / "metrics.json")
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    names = "sample_size allocated_mass num_detected explained_var missing_var total_elapsed_time"
    assert list(metrics) == names.split()
    assert metrics["num_detected"] == 5
    assert metrics["allocated_mass"] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("hash_family", ["md5", "mmh3"])
def test_basic_rappor_of_one_cohort_is_decoded(tmp_path, hash_family):
    (tmp_path / "params.csv").write_text("k,h,m,p,q,f\n4,1,1,0.25,0.75,0\n")
    (tmp_path / "counts.csv").write_text("10000,6500,3500,2490,2510\n")
    (tmp_path / "map.csv").write_text("a,1\nb,2\nc,3\nd,4\n")
    params = read_params(tmp_path / "params.csv", hash_family)
    aggregate = read_counts(tmp_path / "counts.csv", params)
    options = DecodeOptions(correction="bonferroni")
    decoding = decode(aggregate, read_map(tmp_path / "map.csv", params), options)
    assert [(row.value, row.share) for row in decoding.detected] == [
        ("a", pytest.approx(0.8)),
        ("b", pytest.approx(0.2)),
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("params", "k,h,m\n1,2,3\n", "no column 'p', 'q', 'f'; it has 'k', 'h', 'm'"),
        ("counts", "1,2,3\n", "1 rows of 3 cells; the parameters say 64 cohorts"),
        ("map", "word,1,2\n", "line 1: its cells are not 1 to 2 bits of each of 64 cohorts"),
        ("map", "word," + ",".join(["1"] * 128) + "\n", "line 1: its cells are not 1 to 2 bits"),
    ],
)
def test_files_that_do_not_fit_are_refused(files, md5_params, name, text, message):
    files[name].write_text(text)
    readers = {
        "params": read_params,
        "counts": lambda path: read_counts(path, md5_params),
        "map": lambda path: read_map(path, md5_params),
    }
    with pytest.raises(CountsError, match=message):
        readers[name](files[name])


@pytest.mark.parametrize(
    ("k", "m", "rows", "own"),
    [
        (4, 1, ["a,1", "b,2", "c,3", "d,4"], True),  # each bit belongs to one string
        (4, 2, ["a,1,5", "b,2,6"], True),  # the same bit in both cohorts, as no hash does
        (4, 2, ["a,1,6", "b,3,5"], False),
        (8, 1, ["a,2", "b,1", "c,3"], True),  # the first bits, in any order; the others are spare
        (8, 1, ["a,1", "b,2", "c,4"], False),  # apart by chance: others may share the bits
        (4, 1, ["a,1", "b,1", "c,3", "d,4"], False),
    ],
)
def test_when_a_map_is_that_of_basic_rappor(tmp_path, k, m, rows, own):
    params = rappor(k, 1, m, 0, 0.25, 0.75)
    (tmp_path / "map.csv").write_text("\n".join(rows) + "\n")
    assert read_map(tmp_path / "map.csv", params).own_bits is own


def test_numbers_have_three_digits_and_shares_stay_within_0_and_100() -> None:
    shares = (-0.02, 0, 1.23456e-6, 0.000995, 0.0123456, 0.09996, 0.5, 0.9972, 1, 1.07)
    assert [percent(share).removesuffix(" %") for share in shares] == [
        "0", "0", "0.000123", "0.0995", "1.23", "10.0", "50.0", "99.7", "100", "100"]  # fmt: skip
    assert [points(one) for one in (-0.0123456, 0, 1.2)] == ["-1.23 points", "0 points",
                                                             "+120 points"]  # fmt: skip
    assert [number_text(one) for one in (0.25, 12.345, 999.6, 1234.5)] == [
        "0.25", "12.3", "1,000", "1,234"]  # fmt: skip


def test_an_open_interval_has_one_end() -> None:
    rows = [(None, 0.2), (0.1, None), (None, None), (-0.1, 1.2)]
    table = SCHEMA.of_rows([("a", 0.5, low, high, None, 1.0, True) for low, high in rows])
    assert [cells[2] for cells in table.shown(9)[1]] == [
        "below 20.0 %", "10.0 % or more", "", "0 to 100 %"]  # fmt: skip
