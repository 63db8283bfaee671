"""`rappor release synthesize` and `rappor release ledger`."""

import csv
import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from decoder.kinds.pair import KIND, joint_result
from decoder.kinds.run import write_result
from decoder.options import DecodeOptions
from decoder.pairs.decoding import decode_pairs
from decoder.progress import silent
from disclosure.release import build_release, load_policy, read_source
from disclosure.rows.decoded import combine_shares
from disclosure.rows.publishing import admit_estimates, read_estimates
from disclosure.series import read_ledger
from tests.cli.density_support import DAY
from tests.cli.release_support import POLICY
from tests.decoder.test_pairs import SHARES, drawn, metric

DOMAIN = """
[columns]
plan = ["basic", "pro", "=1+1"]
age = { low = 0, high = 99, bins = 10 }
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "release.toml"
    path.write_text(POLICY.replace("min_low = 0.02", "min_low = 0.01"))
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    counts = replace(drawn(metric(), SHARES, 50_000, 10), first_day=DAY, last_day=DAY)
    result = joint_result(decode_pairs(counts), DecodeOptions())
    write_result(result, KIND, "decode", tmp_path / "pairs", silent)
    return tmp_path / "pairs"


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "people.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "plan", "age"])
        for number in range(3_000):
            plan = rng.choice(["basic", "pro", "=1+1"], p=[0.6, 0.3, 0.1])
            writer.writerow([f"person {number}", plan, rng.integers(0, 100)])
    (tmp_path / "domain.toml").write_text(DOMAIN)
    return path


def read_sets(folder: Path) -> list[dict[str, list[str]]]:
    found = []
    for path in sorted(folder.glob("rows-*.csv")):
        with path.open(newline="") as file:
            header, *rows = csv.reader(file)
        found.append(dict(zip(header, map(list, zip(*rows, strict=True)), strict=True)))
    return found


def test_sets_of_pairs_combine_to_their_estimates(pairs, policy, tmp_path, rappor) -> None:
    out = tmp_path / "rows"
    command = ["release", "synthesize", "decoded", str(pairs), "--policy", str(policy)]
    assert "12 sets of 4,000 rows" in rappor(*command, "-o", out, "--sets", "12", "--rows", "4000")
    reply = json.loads((out / "synthesis.json").read_text())
    assert (reply["reports"], reply["epsilon_spent"], len(reply["files"])) == (50_000, 0.0, 12)
    assert "One set alone" in " ".join(reply["notes"])
    sets = read_sets(out)
    assert {len(column) for one in sets for column in one.values()} == {4_000}
    with (pairs / "margins.csv").open(newline="") as file:
        margins = list(csv.DictReader(file))
    for row in margins:
        found = combine_shares(sets, {row["side"]: [row["value"]]}, 50_000)
        assert abs(found.estimate - float(row["estimate"])) < 4 * float(row["std_error"]) + 0.01
    assert "exists; rows are never overwritten" in rappor.refused(*command, "-o", out)


def test_rows_of_decodings_are_releases_like_others(decoded, policy, tmp_path, rappor) -> None:
    rappor("release", "keygen", tmp_path)
    key, public = (str(tmp_path / name) for name in ("release-key.pem", "release-key.pub.pem"))
    words = ["--policy", str(policy), "--signing-key", key]
    source, rows = str(decoded / "length"), tmp_path / "rows"
    draw = ["release", "synthesize", "decoded", source, *words, "--sets", "2"]
    build = ["release", "build", source, *words]
    rappor(*draw, "-o", rows)
    rappor("release", "verify", rows, "--public-key", public)
    assert "4 files as in the manifest; signed by this key" in rappor.out
    reply = json.loads((rows / "manifest.json").read_text())
    assert {*reply["files"]} == {"release.json", "rows-1.csv", "rows-2.csv", "synthesis.json"}
    for again in (build, draw):
        out = ["-o", str(tmp_path / "no"), "--earlier", str(rows), "--public-key", public]
        assert "was published in rows" in rappor.refused(*again, *out)
    rappor(*build, "-o", tmp_path / "table")
    on_table = [*draw, "-o", str(tmp_path / "no"), "--earlier", str(tmp_path / "table")]
    assert "--earlier needs the signer's --public-key" in rappor.refused(*on_table, code=2)
    assert "was published as a table" in rappor.refused(*on_table, "--public-key", public)
    for old, new, change in (("table", "rows", "new rows"), ("rows", "table", "rows gone")):
        rappor("release", "diff", tmp_path / old, tmp_path / new)
        told_of = f"{change}: length, {DAY} to {DAY}: synthetic rows"
        assert told_of in rappor.out
    other = ["release", "build", str(decoded / "word"), *words, "-o", str(tmp_path / "word")]
    rappor(*other, "--earlier", rows, "--public-key", public)
    listed = json.loads((tmp_path / "word" / "manifest.json").read_text())["earlier"]
    assert listed == [sha256((rows / "manifest.json").read_bytes()).hexdigest()]
    (rows / "rows-1.csv").write_text("length\n2 letters\n")
    said = rappor.refused("release", "verify", rows, "--public-key", public)
    assert "rows-1.csv was changed" in said
    strings = [*draw[:3], decoded / "word", *words, "-o", tmp_path / "no"]
    assert "does not contain all values" in rappor.refused(*strings)
    assert not (tmp_path / "no").exists()


def test_withheld_decodings_give_no_rows(pairs, policy, tmp_path, rappor) -> None:
    command = ["release", "synthesize", "decoded", str(pairs), "--policy", str(policy)]
    text = policy.read_text()
    for old, new, words in (
        ("min_reports = 1000", "min_reports = 60000", "50000 reports, at least 60000 needed"),
        ("sealed_after_days = 0", "sealed_after_days = 30", "is not sealed on"),
        ("min_low = 0.01", "min_low = 0.9", "no cell is detected with a lower end of 0.9 or more"),
    ):
        policy.write_text(text.replace(old, new))
        assert words in rappor.refused(*command, "-o", tmp_path / "no", "--issued", DAY)
    policy.write_text(text)
    (pairs / "covariance.npy").unlink()
    said = rappor.refused(*command, "-o", tmp_path / "no")
    assert "covariance.npy: no such file or directory; decode the pairs again" in said
    (pairs / "covariance.npy").write_bytes(b"no array")
    said = rappor.refused(*command, "-o", tmp_path / "no")
    assert "covariance.npy: not an array of numbers; decode" in said
    results = pairs / "results.json"
    whole = results.read_text()
    results.write_text(json.dumps(json.loads(whole) | {"cells": "many"}))
    assert f"{results}: cells = 'many': Input should be a valid array; decode" in rappor.refused(
        *command, "-o", tmp_path / "no"
    )
    results.write_text(whole)
    (pairs / "density.csv").touch()
    assert "contains results of several kinds" in rappor.refused(*command, "-o", tmp_path / "no")
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("min_low", [0.0001, 0.01])
def test_rows_show_the_cells_of_their_map(density: Path, policy: Path, min_low: float) -> None:
    """Slot by slot; a cell with a lower end above 0 is not detected as one of 16."""
    rules = replace(load_policy(policy), min_low=min_low, rounding=Decimal("0.0001"))
    issued = DAY + timedelta(days=30)
    made = build_release(read_source(density), rules, issued)
    shown = {
        (dict(table.strata)["slot"], cell)
        for table in made.tables
        for cell, symbol in zip(table.cells, table.symbols, strict=True)
        if not symbol
    }
    found = admit_estimates(read_estimates(density), rules, issued)
    assert {cell for cell in found.cells if cell[1] != "*"} == shown


@pytest.mark.parametrize("method", ["dpcocgen", "baseline"])
def test_rows_are_charged_to_the_ledger(people, tmp_path, rappor, method) -> None:
    ledger, out = tmp_path / "ledger.json", tmp_path / "rows"
    rappor("release", "ledger", ledger, "--epsilon", "1.5")
    command = ["release", "synthesize", "table", str(people), "--epsilon", "1"]
    command += ["--domain", str(tmp_path / "domain.toml"), "--ledger", str(ledger)]
    command += ["--synthesizer", method]
    assert "0.5 left" in rappor(*command, "-o", out)
    assert read_ledger(ledger).spent_epsilon == 1
    (rows,) = read_sets(out)
    assert set(rows) == {"plan", "age"}
    assert set(rows["plan"]) <= {"basic", "pro", "'=1+1"}
    assert 2_800 < len(rows["age"]) < 3_200
    assert 0.5 < rows["plan"].count("basic") / len(rows["age"]) < 0.7
    assert json.loads((out / "synthesis.json").read_text())["epsilon_spent"] == 1
    assert "would exceed the limit" in rappor.refused(*command, "-o", tmp_path / "again")
    assert not (tmp_path / "again").exists()
    assert "synthetic rows" in rappor("release", "ledger", ledger)
    assert "never restarted" in rappor.refused("release", "ledger", ledger, "--epsilon", "9")


def test_wrong_words_are_refused_before_spending(people, tmp_path, rappor) -> None:
    ledger = tmp_path / "ledger.json"
    rappor("release", "ledger", ledger, "--epsilon", "1")
    command = ["release", "synthesize", "table", str(people), "-o", str(tmp_path / "rows")]
    command += ["--domain", str(tmp_path / "domain.toml"), "--ledger", str(ledger)]
    rappor(*command, "--epsilon", "1", "--synthesizer", "magic", code=2)
    rappor(*command, "--epsilon", "-1", code=1)
    (tmp_path / "domain.toml").write_text(DOMAIN.replace('"pro", ', ""))
    said = rappor.refused(*command, "--epsilon", "1")
    assert "people.csv: column 'plan': value 'pro' is not declared" in said
    (tmp_path / "domain.toml").write_text("[columns]")
    assert "domain.toml: no columns are declared" in rappor.refused(*command, "--epsilon", "1")
    (tmp_path / "domain.toml").write_text(DOMAIN)
    assert read_ledger(ledger).spent_epsilon == 0
    (tmp_path / "ledger.json.lock").touch()
    assert "in use by another process" in rappor.refused(*command, "--epsilon", "1")


def test_nothing_is_charged_where_nothing_could_be_written(people, tmp_path, rappor) -> None:
    ledger = tmp_path / "ledger.json"
    rappor("release", "ledger", ledger, "--epsilon", "1")
    command = ["release", "synthesize", "table", str(people), "--epsilon", "0.5"]
    command += ["--domain", str(tmp_path / "domain.toml"), "--ledger", str(ledger)]
    for output, more, words in (
        (tmp_path, [], "exists; rows are never overwritten"),
        (tmp_path / "none" / "rows", [], "is not a folder"),
        (tmp_path / "rows", ["--rows", "1000000000000"], "exceed 100,000,000 values"),
    ):
        assert words in rappor.refused(*command, "-o", output, *more)
    assert read_ledger(ledger).spent_epsilon == 0
