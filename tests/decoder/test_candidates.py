"""Lists of candidates as people have them."""

import gzip
import os
from datetime import date

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from decoder import Candidates
from decoder.candidates.lists import metric_candidates
from decoder.errors import CandidatesError
from rappor_core.aggregate import Aggregate
from tests.decoder.params_support import rappor


def test_odd_text_files_are_read(tmp_path):
    path = tmp_path / "list.txt"
    path.write_bytes(
        "\ufeffone\r\ntwo\r\n\r\none\r\ncafe\u0301\r\ncaf\u00e9".encode() + b"\n\xff\xfe\n"
    )
    candidates = Candidates.from_file(path)
    assert candidates.values == [b"one", b"two", "caf\u00e9".encode()]
    notes = candidates.notes
    assert (notes.read, notes.empty, notes.duplicates, notes.not_text) == (7, 1, 2, 1)
    assert str(notes) == "7 entries read; left out: 1 empty, 2 duplicate, 1 not UTF-8"


def test_spaces_are_part_of_a_value():
    assert Candidates.from_strings([" a", "a ", "a"]).values == [b" a", b"a ", b"a"]


@pytest.mark.parametrize("zipped", [False, True])
def test_a_column_of_a_table(tmp_path, zipped):
    text = b'rank,word\r\n1,alpha\r\n2,"be,ta"\r\n3,\r\n'
    path = tmp_path / ("words.csv.gz" if zipped else "words.csv")
    path.write_bytes(gzip.compress(text) if zipped else text)
    candidates = Candidates.from_file(path, "word")
    assert candidates.values == [b"alpha", b"be,ta"]
    assert candidates.notes.empty == 1
    with pytest.raises(CandidatesError, match="no column 'page'; it has 'rank', 'word'"):
        Candidates.from_file(path, "page")


def test_parquet(tmp_path):
    path = tmp_path / "words.parquet"
    parquet.write_table(pa.table({"word": ["a", None, "b"], "n": [1, 2, 3]}), path)
    assert Candidates.from_file(path, "word").values == [b"a", b"b"]
    assert Candidates.from_file(path, "n").values == [b"1", b"2", b"3"]
    with pytest.raises(CandidatesError, match="name one of its columns"):
        Candidates.from_file(path)


def test_numbers_and_dates():
    assert Candidates.numbers(-1, 3, 2).values == [b"-1", b"1", b"3"]
    days = Candidates.dates(date(2026, 2, 27), date(2026, 3, 1)).values
    assert days == [b"2026-02-27", b"2026-02-28", b"2026-03-01"]
    with pytest.raises(CandidatesError, match="from 3 to 1"):
        Candidates.numbers(3, 1)


def test_an_empty_list_says_what_was_left_out():
    with pytest.raises(CandidatesError, match="2 entries read; left out: 2 empty"):
        Candidates.from_strings(["", ""])


def test_a_column_of_plain_text_is_refused(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("a\n")
    with pytest.raises(CandidatesError, match="not a table"):
        Candidates.from_file(path, "word")


def test_strings_must_be_listed_but_categories_are_known():
    bloom = rappor(4, 1, 1, 0.5, 0.5, 0.75)
    with pytest.raises(CandidatesError, match="give a list of candidates"):
        metric_candidates(Aggregate("page", bloom, (9,), ((1, 2, 3, 4),)))
    basic = rappor(2, 1, 1, 0, 0.1, 0.9, encoding="one_hot")
    named = Aggregate("size", basic, (9,), ((1, 2),), definition={"categories": ["S", "L"]})
    assert metric_candidates(named).values == [b"S", b"L"]
    with pytest.raises(CandidatesError, match="3 candidates for num_bits = 2"):
        Candidates.from_strings(["a", "b", "c"]).positions(basic)


def test_a_pipe_is_read_once_and_whole():
    reader, writer = os.pipe()
    os.write(writer, b"one\ntwo\nthree\n")
    os.close(writer)
    try:
        assert Candidates.from_file(f"/dev/fd/{reader}").values == [b"one", b"two", b"three"]
    finally:
        os.close(reader)


def test_bytes_of_parquet_columns_are_text(tmp_path):
    cells = pa.array([b"plain", "caf\u00e9".encode(), b"\xff", None], pa.binary())
    parquet.write_table(pa.table({"word": cells}), tmp_path / "words.parquet")
    candidates = Candidates.from_file(tmp_path / "words.parquet")
    assert candidates.values == [b"plain", "caf\u00e9".encode()]
    assert (candidates.notes.not_text, candidates.notes.empty) == (1, 1)
    zipped = tmp_path / "words.parquet.gz"
    zipped.write_bytes(gzip.compress((tmp_path / "words.parquet").read_bytes()))
    assert Candidates.from_file(zipped).values == candidates.values


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("words.csv", "word\nb\n".encode("utf-16"), "UTF-16"),
        ("words.csv.gz", gzip.compress("word\nb\n".encode("utf-16"), mtime=0), "UTF-16"),
        ("words.csv", b'one\n"two\nthree\nfour\n', "line 4: unexpected end of data; check"),
        ("words.csv", b'one\n"two" too,2\n', "line 2: .*; check the quotes"),
    ],
)
def test_tables_that_would_be_misread_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CandidatesError, match=message):
        Candidates.from_file(tmp_path / name)


@pytest.mark.parametrize(
    ("strings", "message"),
    [("word", "'word' is one value"), ([1, 2], "candidate 1 is not text"), ([None], "None")],
)
def test_what_is_no_list_of_text_is_refused(strings, message):
    with pytest.raises(CandidatesError, match=message):
        Candidates.from_strings(strings)
