"""`rappor release` on what `rappor decode -o` and `rappor density -o` have written."""

import csv
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from decoder.density.cells import places_of
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate
from tests.cli.density_support import DAY, DECLARED
from tests.metric_texts import declaration, word

POLICY = """
owner = "stats@example.org"
audience = "public"
min_reports = 1000
min_low = 0.02
rounding = 0.001
reports_rounding = 100
sealed_after_days = 0
strata = ["slot"]
"""


METRICS = word("word") + declaration(
    "length", "category", categories=["2 letters", "3 letters", "4-5 letters", "6 or more"],
    num_cohorts=1, fallback="2 letters", mechanism="l-osue",
    epsilon_infinity=4.0, epsilon_one=2.0, max_memoized_values=2,
)  # fmt: skip


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


def test_keygen_makes_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "keys"
    assert main(["release", "keygen", str(folder)]) == 0
    assert (folder / "release-key.pem").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o077 == 0


@pytest.fixture(scope="module")
def decoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of `rappor decode -o`: strings, and categories of which one is rare."""
    folder = tmp_path_factory.mktemp("decoded")
    rng, metrics = np.random.default_rng(0), parse_metrics(METRICS).metrics
    words = ["the", "to", *(f"word{i}.example.org" for i in range(50))]
    of_words = np.array([0.4, 0.2, *np.full(50, 0.008)])
    lengths = ["2 letters", "3 letters", "4-5 letters", "6 or more"]
    cases = {"word": (words, of_words), "length": (lengths, np.array([0.5, 0.3, 0.198, 0.002]))}
    (folder / "words.txt").write_text("\n".join(words) + "\n")
    for name, (values, shares) in cases.items():
        metric = metrics[name]
        found, _ = draw_aggregate(values, shares, 40_000, metric.params, rng, name)
        found = replace(found, definition=metric.to_dict(), params_id=metric.params_id,
                        first_day=DAY, last_day=DAY)  # fmt: skip
        (folder / f"{name}.json").write_text(found.to_json())
        listed = ["--candidates", str(folder / "words.txt")] if name == "word" else []
        assert main(["decode", "--aggregate", str(folder / f"{name}.json"), *listed,
                     "-o", str(folder / name)]) == 0  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def density(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crowd in the south-west of 8 by 8 quadkeys, and a little elsewhere."""
    folder = tmp_path_factory.mktemp("density")
    declared = (
        DECLARED.replace('grid = "square"', 'grid = "quadkey"')
        .replace("rows = 3\ncolumns = 3\n", "")
        .replace("levels = [0]", "levels = [7]")
        .replace("box = [0, 0, 8, 8]", "box = [0.1, 0.1, 11, 11]")
    )
    rng, paths = np.random.default_rng(0), []
    for metric in parse_metrics(declared).parts("places"):
        assert metric.location is not None
        values = list(places_of([metric.location]).finest)
        shares = np.full(len(values), 0.004)
        shares[0] = 1 - shares[1:].sum()
        found, _ = draw_aggregate(values, shares, 60_000, metric.params, rng, metric.name)
        found = replace(found, definition=metric.to_dict(), params_id=metric.params_id,
                        first_day=DAY, last_day=DAY + timedelta(days=6))  # fmt: skip
        path = folder / f"{metric.location.slot}.json"
        path.write_text(found.to_json())
        paths += ["--aggregate", str(path)]
    assert main(["density", "places", *paths, "-o", str(folder / "map")]) == 0
    return folder / "map"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "release.toml"
    path.write_text(POLICY)
    return path


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "release.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_a_decoding_becomes_a_verified_signed_release(
    decoded: Path, rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, out, later = tmp_path / "keys", tmp_path / "out", tmp_path / "later"
    keys.mkdir()
    assert main(["release", "keygen", str(keys)]) == 0
    private, public = keys / "release-key.pem", keys / "release-key.pub.pem"
    told = capsys.readouterr()
    assert private.read_text().splitlines()[1] not in told.out + told.err
    sources = [str(decoded / "word"), str(decoded / "length")]
    common = ["--policy", str(rules), "--signing-key", str(private)]
    assert main(["release", "build", *sources, *common, "-o", str(out)]) == 0
    assert "signed; files in" in capsys.readouterr().out
    assert main(["release", "verify", str(out), "--public-key", str(public), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["signed"]
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
    assert main(["release", "build", sources[1], *common, *again, "-o", str(later)]) == 0
    assert main(["release", "diff", str(out), str(later), "--json"]) == 0
    changes = json.loads(capsys.readouterr().out.splitlines()[-1])["changes"]
    assert [one["change"] for one in changes] == ["table gone"]
    assert main(["release", "diff", str(later), str(out)]) == 0
    assert "new table: word" in capsys.readouterr().out
    latest = ["--latest", str(tmp_path / "seen.json")]
    assert main(["release", "verify", str(out), "--digests-only", *latest]) == 2
    assert "--latest remembers what a signature vouches for" in capsys.readouterr().err
    signed = ["--public-key", str(public), *latest]
    assert [main(["release", "verify", str(one), *signed]) for one in (later, out)] == [0, 1]
    assert "is an old one" in capsys.readouterr().err
    (out / "release.csv").write_text("edited")
    assert main(["release", "verify", str(out), "--public-key", str(public)]) == 1
    assert "release.csv was changed after the release was made" in capsys.readouterr().err
    assert main(["release", "verify", str(out)]) == 2


def test_rare_strings_are_pooled_under_their_domain(
    decoded: Path, rules: Path, tmp_path: Path
) -> None:
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


def test_rare_cells_of_a_density_are_rolled_up(density: Path, rules: Path, tmp_path: Path) -> None:
    rules.write_text(
        POLICY + '[roll_up.places]\ntree = "cells"\nlevels = 3\nmax_correlation = 0.0\n'
    )
    out = tmp_path / "out"
    assert main(["release", "build", str(density), "--policy", str(rules), "-o", str(out),
                 "--issued", "2026-12-01"]) == 0  # fmt: skip
    rows = rows_of(out)
    assert {row["stratum_slot"] for row in rows} == {"night", "day"}
    merged = [row for row in rows if row["kind"] == "merged" and row["estimate"]]
    assert merged
    features = json.loads((out / "release.geojson").read_text())["features"]
    drawn = {one["properties"]["value"]: one for one in features
             if one["properties"]["kind"] == "merged"}  # fmt: skip
    for row in merged:
        if row["value"] in drawn:
            one = drawn[row["value"]]
            assert one["geometry"]["type"] == "MultiPolygon"
            assert len(one["properties"]["members"]) > 1
    plain = tmp_path / "plain"
    rules.write_text(POLICY)
    assert main(["release", "build", str(density), "--policy", str(rules), "-o", str(plain)]) == 0
    assert sum(1 for row in rows_of(plain) if row["symbol"]) > len(merged)


def test_our_own_release_is_audited_without_a_finding(
    decoded: Path, rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    built = ["release", "build", str(decoded / "length"), "--policy", str(rules), "-o", str(out)]
    assert main(built) == 0
    assert main(["release", "audit", str(out)]) == 0
    assert "0 are known more closely than promised" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "told"),
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
        (
            POLICY.replace("min_low = 0.02", "min_low = nan"),
            "min_low = nan: Input",
        ),
        (
            POLICY.replace("rounding = 0.001", "rounding = 0"),
            "rounding = 0: Input should",
        ),
        (POLICY + '[symbols]\nlow_interval = "0.5"', "symbols.low_interval = '0.5': 1 to 8"),
        ('owner = "a"', "audience: Field required; min_reports: Field required; min_low:"),
    ],
)
def test_a_bad_policy_is_refused_in_a_line(
    text: str, told: str, rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules.write_text(text)
    assert main(["release", "build", str(tmp_path), "--policy", str(rules), "-o",
                 str(tmp_path / "out")]) == 1  # fmt: skip
    error = capsys.readouterr().err
    assert told in error
    assert str(rules) in error


def test_sources_that_are_none_are_refused(
    decoded: Path, density: Path, rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(source: Path | str) -> str:
        assert main(["release", "build", str(source), "--policy", str(rules), "-o",
                     str(tmp_path / "out")]) == 1  # fmt: skip
        assert not (tmp_path / "out").exists()
        return capsys.readouterr().err

    assert "holds neither results.json" in build(tmp_path)
    assert "does not publish the stratum 'region'" in build(f"{decoded / 'word'}@region=north")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "results.json").write_text("{}")
    assert "broken" in build(broken)
    for name in ("results.json", "manifest.json", "candidates.csv"):
        (broken / name).write_bytes((decoded / "word" / name).read_bytes())
    (broken / "candidates.csv").write_text("value\nx\n")
    assert f"{broken / 'candidates.csv'}: no column 'estimate'" in build(broken)
    made = json.loads((decoded / "word/manifest.json").read_text())
    (broken / "manifest.json").write_text(json.dumps(made | {"first_day": None}))
    assert "does not say its days" in build(broken)
