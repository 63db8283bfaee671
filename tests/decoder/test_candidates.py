"""Lists of candidates as people have them."""

import gzip
import os
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from decoder import Candidates, decode, metric_candidates
from decoder.candidates.lists import bit_positions
from decoder.errors import CandidatesError
from rappor_core.aggregate import Aggregate
from rappor_core.hashing import bloom_positions
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import aggregate_of_metric
from tests.decoder.params_support import rappor
from tests.metric_texts import declaration


def test_odd_text_files_are_read(tmp_path):
    path = tmp_path / "list.txt"
    path.write_bytes(
        "\ufeffone\r\ntwo\r\n\r\none\r\ncafe\u0301\r\ncaf\u00e9".encode() + b"\n\xff\xfe\n"
    )
    candidates = Candidates.from_file(path)
    assert candidates.values == [b"one", b"two", "caf\u00e9".encode()]
    with pytest.raises(CandidatesError, match="not a table"):
        Candidates.from_file(path, "word")
    notes = candidates.notes
    assert (notes.read, notes.empty, notes.duplicates, notes.not_text) == (7, 1, 2, 1)
    assert str(notes) == "7 entries read; left out: 1 empty, 2 duplicate, 1 not UTF-8"


def test_spaces_are_part_of_a_value():
    assert Candidates.from_strings([" a", "a ", "a"]).values == [b" a", b"a ", b"a"]
    with pytest.raises(CandidatesError, match="2 entries read; left out: 2 empty"):
        Candidates.from_strings(["", ""])


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
        ("WORDS.GZ", b"home\nhelp\n", "not gzip, although its name ends in"),
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


VALUES = [b"a", b"", "Müller".encode(), b"https://example.org/" + b"x" * 200, b"\x00\xff"]


@pytest.mark.parametrize("family", ["mmh3", "md5"])
@pytest.mark.parametrize(
    ("num_bits", "num_hashes", "num_cohorts"), [(128, 2, 16), (7, 3, 5), (256, 1, 1)]
)
def test_positions_agree_with_the_core(family, num_bits, num_hashes, num_cohorts):
    params = rappor(num_bits, num_hashes, num_cohorts, 0.5, 0.5, 0.75, hash=family)
    tensor = bit_positions(VALUES, params)
    assert tensor.shape == (len(VALUES), num_cohorts, num_hashes)
    for i, value in enumerate(VALUES):
        for cohort in range(num_cohorts):
            seen = {int(bit) for bit in tensor[i, cohort]} - {num_bits}
            assert seen == set(bloom_positions(value, cohort, params))
            assert (tensor[i, cohort] < num_bits).sum() == len(seen)


TOML = declaration(
    "theme", "category", categories=["light", "dark", "none"], epsilon_infinity=3.0,
    epsilon_one=2.0, max_memoized_values=3,
) + declaration(
    "crashed", "boolean", epsilon_infinity=3.0, epsilon_one=2.0,
)  # fmt: skip
CELLS = declaration(
    "places", "location", owner="maps@example.org", expires="2099-12-31", grid="quadkey",
    box=[42.0, -72.8, 42.5, -72.4], levels=[13], period="week", mode="memo", num_bits=16,
    num_cohorts=1, mechanism="l-osue", epsilon_infinity=1.0, epsilon_one=0.75,
    max_memoized_values=3, no_data="no_data",
)  # fmt: skip
SHARES = {"theme": (0.7, 0.25, 0.05), "crashed": (0.03,)}


def aggregate_of(name: str) -> Aggregate:
    metric = parse_metrics(TOML).metrics[name]
    rng, total = np.random.default_rng(1), 100_000
    q, p = metric.params.q_star, metric.params.p_star
    held = [round(total * share) for share in SHARES[name]]
    counts = [rng.binomial(h, q) + rng.binomial(total - h, p) for h in held]
    day = date(2026, 1, 1)
    return aggregate_of_metric(metric, np.array([total]), np.array([counts]), day, day)


@pytest.mark.parametrize("listed", [["none", "dark", "light"], ["dark"], ["light", "dark", "none"]])
def test_the_order_of_a_list_moves_no_estimate(listed: list[str]) -> None:
    aggregate = aggregate_of("theme")
    decoding = decode(aggregate, Candidates.from_strings(listed))
    estimates = dict(
        zip(decoding.candidates.values, decoding.candidates.estimate.tolist(), strict=True)
    )
    assert estimates["light"] == pytest.approx(0.7, abs=0.02)
    assert estimates["dark"] == pytest.approx(0.25, abs=0.02)
    own = decode(aggregate, metric_candidates(aggregate))
    assert decoding.candidates.estimate.tolist() == own.candidates.estimate.tolist()


def test_false_before_true_does_not_swap_them() -> None:
    decoding = decode(aggregate_of("crashed"), Candidates.from_strings(["false", "true"]))
    estimates = dict(
        zip(decoding.candidates.values, decoding.candidates.estimate.tolist(), strict=True)
    )
    assert estimates["true"] == pytest.approx(0.03, abs=0.02)
    assert estimates["false"] == pytest.approx(0.97, abs=0.02)


@pytest.mark.parametrize(("name", "value"), [("theme", "blue"), ("crashed", "yes")])
def test_a_candidate_of_no_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(CandidatesError, match=f"'{value}' is not a value of metric '{name}'"):
        decode(aggregate_of(name), Candidates.from_strings([value]))


def test_values_that_are_no_cells_are_known() -> None:
    places = parse_metrics(CELLS).metrics["places/day/13"]
    counts = Aggregate("places/day/13", places.params, (10,), ((1,) * places.params.num_bits,),
                       places.params_id, None, None, places.to_dict())  # fmt: skip
    found = metric_candidates(counts)
    assert found.values[-2:] == [b"other", b"no_data"]
    assert found.reserved == 2
    assert metric_candidates(aggregate_of("theme")).reserved == 0
