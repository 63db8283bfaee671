"""Strings are found without a list, counted without bias, and nothing false is named too often."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decoder.discovery.bucket_shares import GroupShares, prefix_positions
from decoder.discovery.discovery import DiscoverOptions, Discovery, discover, group_shares
from decoder.discovery.search import BEAM, _holm, count, decide_by_level, search, upper_tail
from decoder.errors import CandidatesError, DecodeError
from decoder.kinds.discover import KIND, approved_strings, discovery_result
from decoder.kinds.result import Result
from decoder.kinds.run import in_memory, render_page, write_result
from decoder.model.noise import BitNoise
from decoder.progress import silent
from decoder.typing import Floats
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.hashing import mmh3_positions
from rappor_core.mechanism import TwoRoundMechanism
from tests.discovery_support import falling_shares, site_metric, site_names, small_metric
from tests.prefix_draws import StringPopulation

NAMES = site_names(2_000)
METRIC = small_metric()
REPORTS = 200_000


@pytest.fixture(scope="module")
def population() -> StringPopulation:
    return StringPopulation.of(METRIC, NAMES)


@pytest.fixture(scope="module")
def aggregate(population: StringPopulation) -> Aggregate:
    return population.draw(falling_shares(2_000), REPORTS, np.random.default_rng(3))[0]


@pytest.fixture(scope="module")
def discovery(aggregate: Aggregate) -> Discovery:
    return discover(aggregate)


@pytest.mark.parametrize("num_bits", [4, 8, 13, 16, 31, 48, 64])
def test_positions_are_those_of_the_device(num_bits: int) -> None:
    rng = np.random.default_rng(num_bits)
    prefixes = rng.integers(0, 2**num_bits, 50, dtype=np.uint64)
    cohorts = np.array([0, 3, 159, 65_535])
    found = prefix_positions(prefixes, num_bits, cohorts, 1_000)
    size = (num_bits + 7) // 8
    for prefix, row in zip(prefixes.tolist(), found, strict=True):
        key = (prefix << (8 * size - num_bits)).to_bytes(size, "big")
        assert [mmh3_positions(key, int(c), 1_000, 1)[0] for c in cohorts] == row.tolist()


def test_frequent_strings_are_found_and_no_other(discovery: Discovery) -> None:
    """The seeds are fixed; estimates are within 4.5 standard errors."""
    shares = falling_shares(2_000)
    found = {row.string: row for row in discovery.found}
    expected = [name for name, share in zip(NAMES, shares, strict=True) if share > 0.01]
    assert len(expected) >= 12
    for name, share in zip(expected, shares, strict=False):
        assert abs(found[name].estimate - share) < 4.5 * found[name].std_error
        assert 0 < found[name].low < found[name].estimate < found[name].high
    assert set(found) <= set(NAMES)
    assert [row.estimate for row in discovery.found] == sorted(
        (row.estimate for row in discovery.found), reverse=True
    )


def test_groups_that_choose_strings_do_not_count_them(aggregate: Aggregate) -> None:
    """Whatever its groups up to the last choice say, the estimate of a string does not move."""
    groups, noise = METRIC.details, BitNoise.of(METRIC.params.mechanism)
    shares = group_shares(aggregate, groups, noise)
    found = search(groups, shares[:-1])
    last = [string for string in found if string.level == groups.num_levels - 1]
    before = count(groups, shares, last, noise, 1.0)
    rng = np.random.default_rng(2)
    changed = [replace(group, shares=rng.permuted(group.shares, axis=1)) for group in shares[:-1]]
    after = count(groups, [*changed, shares[-1]], last, noise, 1.0)
    assert (before.shares == after.shares).all()
    assert (before.null_errors == after.null_errors).all()
    lost = replace(shares[-1], shares=rng.permuted(shares[-1].shares, axis=1))
    assert (count(groups, [*changed, lost], last, noise, 1.0).shares != before.shares).any()


def test_heavy_strings_neither_hide_nor_lift_light_ones() -> None:
    held = ["shop.com", "shop.co", "shop.cam", "shop"]
    names = [*held, *NAMES[:600]]
    shares = np.array([0.3, 0.02, 0.02, 0.02, *[0.64 / 600] * 600])
    metric = site_metric(6.0, "num_bits = 256\nnum_cohorts = 50\nbits_per_level = 16")
    drawn, _ = StringPopulation.of(metric, names).draw(shares, 200_000, np.random.default_rng(8))
    found = {row.string: row for row in discover(drawn).found}
    for name, share in zip(held, shares, strict=False):
        assert abs(found[name].estimate - share) < 4.5 * found[name].std_error
    assert set(held) <= set(found) <= {*held, *NAMES[:600]}


def test_empty_cohorts_are_skipped_and_groups_refused(aggregate: Aggregate) -> None:
    named = {row.string for row in discover(aggregate.without([3, 14, 49])).found}
    assert {NAMES[0], NAMES[1]} <= named
    with pytest.raises(DecodeError, match="none of the cohorts of group 2 of 5 has reports"):
        discover(aggregate.without(range(10, 20)))


def test_another_kind_and_a_missing_definition_are_refused(aggregate: Aggregate) -> None:
    with pytest.raises(DecodeError, match="lacks its definition"):
        discover(replace(aggregate, definition={}))
    for name, value in {"alpha": 0.0, "level": 1.0, "crowd": 0, "repeats": 0.5}.items():
        with pytest.raises(DecodeError, match=f"{name} = {value}"):
            DiscoverOptions(**{name: value})


def test_only_a_crowd_is_named(aggregate: Aggregate, discovery: Discovery) -> None:
    few = discover(aggregate, DiscoverOptions(crowd=10_000))
    told_from_chance = discovery.num_below_crowd + len(discovery.found)
    assert few.num_below_crowd == told_from_chance - len(few.found) > discovery.num_below_crowd
    assert min(row.estimate for row in few.found) * REPORTS >= 10_000


def test_what_the_metric_sends_itself_is_marked() -> None:
    names, shares = ["other.example", *NAMES[:500]], np.array([0.4, *[0.6 / 500] * 500])
    drawn, _ = StringPopulation.of(METRIC, names).draw(shares, 100_000, np.random.default_rng(4))
    (row,) = (row for row in discover(drawn).found if row.declared)
    assert (row.declared, row.estimate > 0.3) == ("fallback", True)


def test_the_tail_of_a_sum_of_rare_bits() -> None:
    """Against 2 million draws of a sum of Poisson counts, at 1 in 1,000; 5 standard errors."""
    rng, mean = np.random.default_rng(6), 20.0
    z = (rng.poisson(mean, 2_000_000) + rng.random(2_000_000) - 0.5 - mean) / np.sqrt(mean + 1 / 12)
    skewness = np.full(1, mean / (mean + 1 / 12) ** 1.5)
    cut = np.array([3.6])
    reply = float(upper_tail(cut, skewness)[0])
    seen = float((z >= cut).mean())
    assert abs(reply - seen) < 5 * np.sqrt(seen / 2e6) + 0.1 * seen
    assert float(upper_tail(cut, np.zeros(1))[0]) < seen / 2  # the normal law is refuted


HOSTILE = "=cmd|'/C calc'!A0\u202egnp\x1b[31m<script>"


@pytest.fixture
def hostile(discovery: Discovery, tmp_path: Path) -> Result:
    """A result with odd strings, and its files."""
    texts = (HOSTILE, "fine.example", "a\nb", "x" * 300, "\\n")
    rows = [replace(discovery.found[0], string=text, whole=True) for text in texts]
    cut = replace(discovery.found[0], string="begin", whole=False)
    result = discovery_result(replace(discovery, found=(*rows, cut)))
    write_result(result, KIND, "decode", tmp_path, silent)
    return result


def test_text_of_strangers_is_escaped_everywhere(hostile: Result, tmp_path: Path) -> None:
    for path in set(tmp_path.iterdir()) - {tmp_path / "discovered.parquet"}:
        raw = path.read_text(encoding="utf-8")
        assert not {"\u202e", "\x1b"} & set(raw)
    with (tmp_path / "discovered.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["string"].startswith("'=cmd")
    assert "\\u202egnp\\x1b" in rows[0]["string"]
    shown = ["fine.example", "a\\nb", "\\\\n", "begin..."]
    assert [rows[i]["string"] for i in (1, 2, 4, 5)] == shown
    assert len(rows[3]["string"]) == 83
    assert "<script>" not in render_page(KIND, in_memory(hostile, "decode"))
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["found"][0]["string"] == HOSTILE


def review(folder: Path, decisions: dict[str, str]) -> None:
    """Write what a person decided into the table, by the string as shown."""
    path = folder / "discovered.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(row | {"publish": decisions.get(row["string"], "")} for row in rows)


@pytest.mark.usefixtures("hostile")
def test_a_person_approves_each_new_candidate(tmp_path: Path) -> None:
    with pytest.raises(CandidatesError, match=r"no row .* has publish = yes"):
        approved_strings(tmp_path)
    review(tmp_path, {"fine.example": "Yes", "a\\nb": "no"})
    assert approved_strings(tmp_path) == ["fine.example"]
    for text, message in (("a\\nb", "not a single line"), ("begin...", "only the beginning")):
        review(tmp_path, {text: "yes"})
        with pytest.raises(CandidatesError, match=message):
            approved_strings(tmp_path)
    review(tmp_path, {"fine.example": "perhaps"})
    with pytest.raises(CandidatesError, match="neither yes nor no"):
        approved_strings(tmp_path)
    review(tmp_path, {"fine.example": "yes"})
    (tmp_path / "results.json").write_text('{"found": [{}]}')
    with pytest.raises(CandidatesError, match="does not contain the strings that were found"):
        approved_strings(tmp_path)
    (tmp_path / "results.json").write_text('{"found": []}')
    with pytest.raises(CandidatesError, match=r"id '\w+' is not one of results\.json"):
        approved_strings(tmp_path)


def test_the_command_finds_shows_and_hands_over(aggregate, tmp_path, capsys) -> None:
    counts, out = tmp_path / "site.json", tmp_path / "out"
    counts.write_text(aggregate.to_json())
    assert main(["discover", "--aggregate", str(counts), "-o", str(out)]) == 0
    shown = capsys.readouterr().out
    assert NAMES[0] in shown
    assert "a person must read it" in shown
    assert {path.name for path in out.iterdir()} == {
        "discovered.csv", "discovered.parquet", "results.json", "manifest.json", "report.html",
    }  # fmt: skip
    assert main(["discover", "--aggregate", str(counts), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["found"][0]["string"] == NAMES[0]
    review(out, {NAMES[0]: "yes", NAMES[1]: "yes"})
    words = tmp_path / "words.txt"
    assert main(["discover", "--approved", str(out), "-o", str(words)]) == 0
    assert words.read_text().split() == NAMES[:2]


def test_scores_do_not_depend_on_one_bucket() -> None:
    """Clipped: a bucket a hundred times as full counts no more than one that is a little full."""
    rng = np.random.default_rng(0)
    shares = rng.normal(1 / 64, 0.01, size=(8, 64))
    shares[2, 5] = 1.0
    group = GroupShares(np.arange(8), np.full(8, 1_000.0), shares, 16)
    assert group.scores()[2, 5] * np.sqrt(8) < 3.0


ALPHA = 0.05


def test_alpha_is_never_spent_twice() -> None:
    """Whatever ends at each level: the bounds sum to alpha, or less if the last has none."""
    rng = np.random.default_rng(1)
    for num_levels in (2, 4, 8):
        for _ in range(100):
            sizes = rng.integers(0, BEAM + 1, num_levels)
            levels = np.repeat(np.arange(num_levels), sizes)
            bounds = decide_by_level(rng.random(sizes.sum()), levels, num_levels, ALPHA).bounds
            assert bounds.sum() <= ALPHA * (1 + 1e-9)
            if sizes[-1]:
                assert bounds.sum() == pytest.approx(ALPHA)


def test_thresholds_do_not_depend_on_later_levels() -> None:
    p_values = np.array([1e-4, 0.3, 0.02, 0.5])
    early = decide_by_level(p_values[:2], np.array([0, 1]), 4, ALPHA)
    late = decide_by_level(p_values, np.array([0, 1, 2, 3]), 4, ALPHA)
    assert (early.bounds == late.bounds[:2]).all()
    assert (early.adjusted == late.adjusted[:2]).all()


def test_searches_by_p_values_name_at_most_alpha() -> None:
    """It continues if the first string is indistinguishable from chance. 8,000 runs, 4 errors."""
    rng, runs = np.random.default_rng(2), 8_000
    wrong = {"by level": 0, "over all": 0}
    for _ in range(runs):
        first = rng.random()
        size = 1 if first < ALPHA else 1 + BEAM
        p_values = np.append(first, rng.random(size - 1))
        levels = np.append(0, np.full(size - 1, 3))
        wrong["by level"] += int(decide_by_level(p_values, levels, 4, ALPHA).detected.any())
        wrong["over all"] += int((_holm(p_values) <= ALPHA).any())
    error = (ALPHA * (1 - ALPHA) / runs) ** 0.5
    assert wrong["by level"] / runs < ALPHA + 4 * error
    assert wrong["over all"] / runs > ALPHA + 12 * error


def test_adjusted_values_are_least_alphas_of_detection() -> None:
    rng = np.random.default_rng(3)
    p_values, levels = rng.random(60) ** 4, rng.integers(0, 3, 60)
    reply = decide_by_level(p_values, levels, 3, ALPHA)
    assert reply.detected.sum() > 3
    assert (reply.detected == (reply.adjusted <= ALPHA)).all()
    assert reply.detected[p_values <= reply.bounds].all()
    for place in np.flatnonzero(reply.detected):
        alpha = float(reply.adjusted[place])
        assert decide_by_level(p_values, levels, 3, alpha * 1.001).detected[place]
        assert not decide_by_level(p_values, levels, 3, alpha * 0.999).detected[place]


def _drawn(noise: BitNoise, heavy: int, rng: np.random.Generator) -> GroupShares:
    """10 cohorts of 256 buckets, of 2,000 reports each, all of which hold one prefix."""
    cohorts, reports = np.arange(10), np.full(10, 2_000)
    full = np.zeros((10, 256), dtype=np.int64)
    places = prefix_positions(np.array([heavy], dtype=np.uint64), 48, cohorts, 256)[0]
    full[cohorts, places] = reports
    rest = reports[:, None] - full
    counts = rng.binomial(full, noise.q_star) + rng.binomial(rest, noise.p_star)
    shares: Floats = (counts / reports[:, None] - noise.p_star) / noise.gap
    return GroupShares(cohorts, reports.astype(float), shares, 48)


def test_neighbors_of_heavy_strings_vary_more() -> None:
    """800 scores of strings that nobody holds, 2 of whose buckets are full: 4 standard errors."""
    rng = np.random.default_rng(4)
    once = TwoRoundMechanism.one_shot(4.0)
    noise, heavy, cohorts = BitNoise.of(once), 77, np.arange(10)
    some = rng.integers(0, 2**48, 60_000, dtype=np.uint64)
    places = prefix_positions(np.append(some, np.uint64(heavy)), 48, cohorts, 256)
    share = some[(places[:-1] == places[-1]).sum(axis=1) == 2][:40]
    assert len(share) == 40
    scores, plain = [], []
    for _ in range(20):
        group = _drawn(noise, heavy, rng)
        prefixes = np.append(share, np.uint64(heavy))
        fit = group.fit(prefixes, noise)
        assert abs(fit.shares[-1] - 1) < 0.1
        scores.append(fit.z[:-1])
        plain.append(group.fit(prefixes).z[:-1])
    assert abs(np.std(scores) - 1) < 4 / np.sqrt(2 * 800)
    assert np.std(plain) > 1.25
