"""Files of a decoding: columns, plain JSON, a page that nothing can inject into."""

import csv
import json
from hashlib import sha256

import numpy as np
import pytest

from decoder import Candidates, DecodeOptions, decode, write_outputs
from decoder.errors import OutputError
from decoder.kinds.run import in_memory, render_page
from decoder.kinds.values import KIND, decoding_content, decoding_result

NAMES = {"results.csv", "results.parquet", "candidates.csv", "candidates.parquet", "results.json",
         "manifest.json", "report.html"}  # fmt: skip


@pytest.fixture
def decoding(make_aggregate, values, shares):
    odd = ['<script>alert("x")</script>', 'comma, "quoted"', *values[2:]]
    known = dict(zip(odd, shares.tolist(), strict=True))
    aggregate = make_aggregate(values=odd)
    return decode(aggregate, Candidates.from_strings(odd), DecodeOptions(true_shares=known))


def test_all_files_are_written_repeatably(decoding, tmp_path):
    first = {path.name: path.read_bytes() for path in write_outputs(decoding, tmp_path / "a" / "b")}
    again = {path.name: path.read_bytes() for path in write_outputs(decoding, tmp_path / "c")}
    assert set(first) == NAMES
    assert first == again


def test_results_have_the_columns_of_google_rappor(decoding, tmp_path):
    write_outputs(decoding, tmp_path)
    with (tmp_path / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:7] == [
        "string",
        "estimate",
        "std_error",
        "proportion",
        "prop_std_error",
        "prop_low_95",
        "prop_high_95",
    ]
    assert list(rows[0])[7:] == ["p_value", "p_adjusted"]
    assert len(rows) == decoding.summary.num_detected
    counts = [float(row["estimate"]) for row in rows]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == pytest.approx(float(rows[0]["proportion"]) * 200_000)
    assert {row["string"] for row in rows} >= {'comma, "quoted"', '<script>alert("x")</script>'}


def test_every_candidate_is_in_its_file(decoding, values, tmp_path):
    write_outputs(decoding, tmp_path)
    with (tmp_path / "candidates.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows] == list(decoding.candidates.values)
    estimates = [float(row["estimate"]) for row in rows]
    np.testing.assert_allclose(estimates, decoding.candidates.estimate, rtol=1e-6)
    assert {row["detected"] for row in rows} == {"true", "false"}


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
