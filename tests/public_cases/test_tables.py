"""Tables of strangers: read as they are, or refused by line and column; never guessed in silence.

Seen at google/rappor (its own example map), markitdown #2390 and frictionless-py #1172 (thousands,
commas and blanks), pandas #58306 (types of Parquet), Tranco's lists (a rank, no header).
"""

from datetime import date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from decoder import Candidates, DecodeOptions, decode
from decoder.candidates.files import read_weights
from decoder.errors import CandidatesError, CountsError, DecodeError
from decoder.formats.density_inputs import read_flow_counts, read_points
from decoder.formats.google_rappor import read_counts, read_map, read_params
from metric_design.population import read_shares

GOOGLE = Path(__file__).parents[3] / "shared/public_cases/files_and_maps/01_google_map"


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_googles_own_example_is_decoded() -> None:
    """64 of the 300 rows of its map have fewer cells, where hashes collide, and are padded."""
    if not GOOGLE.is_dir():
        pytest.skip(f"{GOOGLE} is not there")
    params = read_params(GOOGLE / "params.csv")
    counts = read_counts(GOOGLE / "counts.csv", params)
    candidates = read_map(GOOGLE / "map.csv", params)
    assert len(candidates) == 300
    decoding = decode(counts, candidates, DecodeOptions(correction="bonferroni"))
    assert decoding.detected


def test_rows_of_a_map_are_shorter_where_hashes_collide(tmp_path: Path) -> None:
    params = read_params(write(tmp_path, "p.csv", '"k","h","m","p","q","f"\n4,2,2,.25,.75,0\n'))
    path = write(tmp_path, "map.csv", '"one",1,2,5,6\n"two",3,4,8,\n"three",2,4,7,7\n')
    tensor = read_map(path, params).positions(params)
    assert tensor.tolist() == [[[0, 1], [0, 1]], [[2, 3], [3, 4]], [[1, 3], [2, 4]]]


@pytest.mark.parametrize(
    "row", ["two,3,4", "two,3,4,1,2", "two,1,2,3,5", "two,5,6,1,2", "two,1,2,5,9", "two,0,1,5,6"]
)
def test_a_map_that_does_not_fit_names_the_line(tmp_path: Path, row: str) -> None:
    params = read_params(write(tmp_path, "params.csv", "k,h,m,p,q,f\n4,2,2,.25,.75,0\n"))
    path = write(tmp_path, "map.csv", f"one,1,2,5,6\n{row}\nthree,2,4,7,8\n")
    with pytest.raises(CountsError, match=r"map\.csv: line 2: its cells are not 1 to 2 bits"):
        read_map(path, params)


FLOWS = "origin,destination,count\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [(FLOWS + "a,b,4,227\n", "line 2 has 4 cells, and the first line 3"),
     (FLOWS + 'a,b,1\na,b,"4,227"\n', "line 3, column 'count': '4,227' is not a number"),
     (FLOWS + "a,b,1.234.567\n", "line 2, column 'count': '1.234.567' is not a number"),
     (FLOWS + "a,b,1_000\n", "line 2, column 'count': '1_000' is not a number"),
     (FLOWS + "a,b,4 227\n", "line 2, column 'count': '4 227' is not a number"),
     ("origin;destination;count\na;b;4,5\n", "line 2, column 'count': '4,5' is not a number"),
     (FLOWS + "a,b\n", "line 2 has 2 cells"),
     ("origin,origin,destination,count\na,a,b,1\n", "line 1: column 'origin' is repeated"),
     (FLOWS.encode("utf-16"), "UTF-16"),
     (FLOWS.encode() + b"K\xf6ln,b,1\n", "line 2, column 'origin': .* is not UTF-8")],
)  # fmt: skip
def test_numbers_are_never_guessed(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(CountsError, match=message):
        read_flow_counts(write(tmp_path, "flows.csv", text))


def test_the_delimiter_is_the_headers(tmp_path: Path) -> None:
    for mark in ",;\t":
        text = f"\ufeff{FLOWS}Basel, Nord|b|4.5\n".replace(",", mark, 2).replace("|", mark)
        text = text.replace("Basel, Nord", '"Basel, Nord"')
        assert read_flow_counts(write(tmp_path, "flows.csv", text)) == {("Basel, Nord", "b"): 4.5}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [("towns.csv", "London\nWashington, D.C.\n", "line 2 has 2 cells, and the first line 1"),
     ("towns.csv", "Paris, Texas\nLondon\n", r"line 1 has 2 columns \('Paris', ' Texas'\)"),
     ("towns.csv", "London\nParis \n", "line 2, column 1: 'Paris ' begins or ends with a blank"),
     ("towns.txt", "London\nParis \n", "line 2: 'Paris ' begins or ends with a blank"),
     ("towns.txt", "London\nParis\t\n", "line 2: .* begins or ends with a blank"),
     ("towns.txt", "London\n\xa0Paris\n", "line 2: .* begins or ends with a blank"),
     ("towns.txt", "London\nParis\u200b\n", "line 2: .* begins or ends with a blank"),
     ("towns.txt", "London\n\u2028\n", "line 2: .* begins or ends with a blank"),
     ("towns.txt", "London\n\x00Paris\n", "line 2: .* begins or ends with a blank")],
)  # fmt: skip
def test_candidates_are_not_cut_or_changed(tmp_path, name, text, message) -> None:
    with pytest.raises(CandidatesError, match=message):
        Candidates.from_file(write(tmp_path, name, text))


def test_a_json_list_keeps_blanks(tmp_path: Path) -> None:
    path = write(tmp_path, "towns.json", '["London ", "Paris"]')
    assert Candidates.from_file(path).values == [b"London ", b"Paris"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1.0, 2.0, float("nan")], "double"), ([True, False], "bool"),
     ([datetime(2026, 1, 1)], "timestamp"), ([[1]], "list")],
)  # fmt: skip
def test_types_of_parquet_are_not_turned_into_text(tmp_path, values, kind) -> None:
    parquet.write_table(pa.table({"v": values}), tmp_path / "values.parquet")
    with pytest.raises(CandidatesError, match=f"column 'v' is of type {kind}.*, not text"):
        Candidates.from_file(tmp_path / "values.parquet", "v")


def test_types_of_parquet_with_one_text_are_read(tmp_path: Path) -> None:
    table = pa.table({"day": [date(2026, 1, 1)], "n": pa.array([7], pa.int16()),
                      "s": pa.array(["x"]).dictionary_encode()})  # fmt: skip
    parquet.write_table(table, tmp_path / "values.parquet")
    found = [Candidates.from_file(tmp_path / "values.parquet", name).values[0] for name in "ns"]
    assert found == [b"7", b"x"]
    assert Candidates.from_file(tmp_path / "values.parquet", "day").values == [b"2026-01-01"]


def test_a_ranked_list_has_no_header(tmp_path: Path) -> None:
    path = write(tmp_path, "ranked.csv", "1,alpha.example\n2,beta.example\n")
    with pytest.raises(CandidatesError, match=r"line 1 has 2 columns.*column=2, its number"):
        Candidates.from_file(path)
    assert Candidates.from_file(path, "2").values == [b"alpha.example", b"beta.example"]
    with pytest.raises(CandidatesError, match=r"is data and not a header.*column=2"):
        Candidates.from_file(path, "alpha.example")
    with pytest.raises(CandidatesError, match="no column 3; line 1 has 2"):
        Candidates.from_file(path, "3")


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [(read_points, "latitude,longitude\n46,2\n46,2,1\n", "line 3 has 3 cells"),
     (read_points, 'latitude,longitude\n"46,2",1\n', "line 2, column 'latitude': '46,2'"),
     (read_points, "latitude,longitude\n91,2\n", "line 2, column 'latitude': '91' is not a"),
     (read_weights, "a,1\nb,2,5\n", "line 2 has 3 cells"),
     (read_weights, "a,1\nb ,2\n", "line 2, column 1: 'b ' begins or ends"),
     (read_weights, 'a,1\nb,"2,5"\n', "line 2, column 2: '2,5' is not a number"),
     (read_weights, "first,prior\nb,2\n", "line 1, column 2: 'prior' is not a number"),
     (read_shares, 'share\n.5\n"0,2"\n', "line 3, column 'share': '0,2' is not a number"),
     (read_shares, "share,n\n0.5,1\n0,2,1\n", "line 3 has 3 cells")],
)  # fmt: skip
def test_every_table_names_line_and_column(tmp_path, read, text, message) -> None:
    with pytest.raises(DecodeError, match=message) as refused:
        read(write(tmp_path, "table.csv", text))
    assert "table.csv: " in str(refused.value)


def test_shares_without_a_header_are_numbers(tmp_path: Path) -> None:
    np.testing.assert_allclose(read_shares(write(tmp_path, "s.csv", ".2\n.5\n")), [0.5, 0.2])
