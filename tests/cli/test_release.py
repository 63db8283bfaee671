"""`rappor release` on what `rappor decode -o` and `rappor density -o` have written."""

import csv
import json
from pathlib import Path

import pytest

from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from tests.cli.density_support import DAY
from tests.cli.release_support import POLICY, rows_of
from tests.metric_texts import declaration


def test_false_is_not_what_true_leaves(tmp_path: Path) -> None:
    """A boolean has two values: where one is too small to be shown, so is the other."""
    text = declaration(
        "word", "boolean", epsilon_infinity=4.0, epsilon_one=2.0, max_memoized_values=2
    )
    metric = parse_metrics(text).metrics["word"]
    reports, true = 100_000, 99_900
    p_star, q_star = metric.params.p_star, metric.params.q_star
    ones = round(true * q_star + (reports - true) * p_star)
    counts = Aggregate("word", metric.params, (reports,), ((ones,),), metric.params_id, DAY, DAY,
                       metric.to_dict())  # fmt: skip
    (tmp_path / "word.json").write_text(counts.to_json())
    (tmp_path / "release.toml").write_text(POLICY)
    decoded = ["decode", "--aggregate", str(tmp_path / "word.json"), "-o", str(tmp_path / "word")]
    assert main(decoded) == 0
    built = ["release", "build", str(tmp_path / "word"), "--policy", str(tmp_path / "release.toml")]
    assert main([*built, "-o", str(tmp_path / "made")]) == 0
    with (tmp_path / "made" / "release.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["symbol"] for row in rows] == ["u", "u"]
    assert [row["estimate"] for row in rows] == ["", ""]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "release.toml"
    path.write_text(POLICY)
    return path


def test_a_decoding_becomes_a_verified_signed_release(decoded, rules, tmp_path, rappor) -> None:
    keys, out, later = tmp_path / "keys", tmp_path / "out", tmp_path / "later"
    keys.mkdir()
    rappor("release", "keygen", keys)
    private, public = keys / "release-key.pem", keys / "release-key.pub.pem"
    assert private.read_text().splitlines()[1] not in rappor.out + rappor.err
    sources = [str(decoded / "word"), str(decoded / "length")]
    common = ["--policy", str(rules), "--signing-key", str(private)]
    assert "signed; files in" in rappor("release", "build", *sources, *common, "-o", out)
    assert json.loads(rappor("release", "verify", out, "--public-key", public, "--json"))["signed"]
    rows = {row["value"]: row for row in rows_of(out)}
    assert {"the", "to", "4-5 letters"} <= rows.keys()
    assert not any("word" in value for value in rows)  # rare strings are not named
    hidden = {value for value, row in rows.items() if row["symbol"]}
    assert hidden == {"6 or more", "4-5 letters"}  # it, and its complement to 1
    exact = json.loads((decoded / "length/results.json").read_text())["detected"]
    assert len(exact) >= 3
    for one in exact:
        if one["value"] in hidden:
            continue
        low, high = (float(rows[one["value"]][end]) for end in ("low", "high"))
        assert low <= one["low"] < one["high"] <= high
        assert "true_share" not in rows[one["value"]]
    again = ["--earlier", str(out), "--public-key", str(public)]
    rappor("release", "build", sources[1], *common, *again, "-o", later)
    rappor("release", "diff", out, later, "--json")
    changes = json.loads(rappor.out.splitlines()[-1])["changes"]
    assert [one["change"] for one in changes] == ["table gone"]
    assert "new table: word" in rappor("release", "diff", later, out)
    latest = ["--latest", str(tmp_path / "seen.json")]
    said = rappor.refused("release", "verify", out, "--digests-only", *latest, code=2)
    assert "--latest records signed releases" in said
    signed = ["--public-key", str(public), *latest]
    rappor("release", "verify", later, *signed)
    assert "is outdated" in rappor.refused("release", "verify", out, *signed)
    (out / "release.csv").write_text("edited")
    said = rappor.refused("release", "verify", out, "--public-key", public)
    assert "release.csv was changed after the release was made" in said
    rappor("release", "verify", out, code=2)


def test_rare_strings_are_pooled_under_their_domain(decoded, rules, tmp_path) -> None:
    """40 % of the reports, in hosts of 0.8 % each that are not shown one by one."""
    rules.write_text(POLICY + '[roll_up.word]\ntree = "domain"\nmax_correlation = 0.0\n')
    out = tmp_path / "out"
    assert main(["release", "build", str(decoded / "word"), "--policy", str(rules),
                 "-o", str(out)]) == 0  # fmt: skip
    rows = {row["value"]: row for row in rows_of(out)}
    assert rows.keys() == {"the", "to", "*.example.org"}
    pool = rows["*.example.org"]
    assert pool["kind"] == "merged"
    assert float(pool["low"]) <= 0.4 <= float(pool["high"]) + 0.05
    tree = tmp_path / "tree.csv"
    names = (decoded / "words.txt").read_text().split()
    tree.write_text("".join(f"{name},{'host' if '.' in name else 'word'},any\n" for name in names))
    rules.write_text(POLICY + "[roll_up.word]\nmax_correlation = 0.0\n")
    given = tmp_path / "given"
    assert main(["release", "build", str(decoded / "word"), "--policy", str(rules),
                 "-o", str(given), "--hierarchy", f"word={tree}"]) == 0  # fmt: skip
    assert {row["value"] for row in rows_of(given)} == {"the", "to", "host"}


def test_our_own_release_is_audited_without_a_finding(decoded, rules, tmp_path, rappor) -> None:
    out = tmp_path / "out"
    built = ["release", "build", str(decoded / "length"), "--policy", str(rules), "-o", str(out)]
    rappor(*built)
    assert "0 are known more closely than promised" in rappor("release", "audit", out)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("owner = 1", "owner = 1: Input should be a valid string"),
        (POLICY.replace("= 1000", "= 1e3"), "min_reports = 1000.0: Input"),
        (POLICY + 'last_day = "Monday"', "last_day = 'Monday': Input should be a valid date"),
        (POLICY + "[within.district]\nregion = 'n'", "within.district.region = 'n': Input"),
        (POLICY + "[roll_up.word]\ntree = 'oak'", "tree = 'oak': Input should be"),
        (POLICY + "[roll_up.word]\nmax_correlation = 2.0", "word.max_correlation = 2.0: Input"),
        (POLICY.replace("min_low = 0.02", "min_low = 0"), "min_low = 0: Input should be gre"),
        (POLICY + "color = 1", "color: Unexpected keyword"),
        (POLICY + '[symbols]\nlow_interval = "=1"', "symbols.low_interval = '=1': 1 to 8"),
        (POLICY.replace("min_low = 0.02", "min_low = nan"), "min_low = nan: Input"),
        (POLICY.replace("rounding = 0.001", "rounding = 0"), "rounding = 0: Input should"),
        ('owner = "a"', "audience: Field required; min_reports: Field required; min_low:"),
    ],
)
def test_a_bad_policy_is_refused_in_a_line(text, result, rules, tmp_path, rappor) -> None:
    rules.write_text(text)
    error = rappor.refused("release", "build", tmp_path, "--policy", rules, "-o", tmp_path / "out")
    assert result in error
    assert str(rules) in error
