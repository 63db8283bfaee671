"""google/rappor's files: read, and refused when they do not fit; metrics.json written."""

import csv
import json
from dataclasses import asdict

import numpy as np
import pytest

from decoder import Candidates, DecodeOptions, decode
from decoder.errors import CountsError
from decoder.formats.google_rappor import read_counts, read_map, read_params, write_metrics_json
from rappor_core.hashing import md5_positions
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor

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
