"""Strings are found without a list, counted without bias, and nothing false is named too often."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decoder.discovery.bucket_shares import GroupShares, prefix_positions
from decoder.discovery.discovery import (
    DiscoverOptions,
    Discovery,
    discover,
    group_shares,
)
from decoder.discovery.search import CompletedString, count, search, upper_tail
from decoder.errors import CandidatesError, DecodeError
from decoder.kinds.discover import KIND, approved_strings, discovery_result
from decoder.kinds.run import in_memory, render_page, write_result
from decoder.model.noise import BitNoise
from decoder.progress import silent
from rappor_cli.main import main
from rappor_core.aggregate import Aggregate
from rappor_core.hashing import mmh3_positions
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


def test_a_population_is_where_devices_put_it(population: StringPopulation) -> None:
    for cohort in (0, 9, 10, 25, 49):
        bits = [METRIC.value_bits(name, cohort) for name in NAMES[:20]]
        assert [bit.bit_length() - 1 for bit in bits] == population.positions[:20, cohort].tolist()


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


def test_the_same_counts_give_the_same_answer(aggregate: Aggregate, discovery: Discovery) -> None:
    assert discover(aggregate) == discovery


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
    """30 % alongside 1 %, which share prefixes; strings of which one begins the other."""
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
    for options, message in (
        ({"alpha": 0.0}, "alpha = 0.0"),
        ({"level": 1.0}, "level = 1.0"),
        ({"crowd": 0}, "crowd = 0"),
        ({"repeats": 0.5}, "repeats = 0.5"),
    ):
        with pytest.raises(DecodeError, match=message):
            DiscoverOptions(**options)


def test_only_a_crowd_is_named(aggregate: Aggregate, discovery: Discovery) -> None:
    few = discover(aggregate, DiscoverOptions(crowd=10_000))
    told_from_chance = discovery.num_below_crowd + len(discovery.found)
    assert few.num_below_crowd == told_from_chance - len(few.found) > discovery.num_below_crowd
    assert min(row.estimate for row in few.found) * REPORTS >= 10_000


def test_what_the_metric_sends_itself_is_marked() -> None:
    names = ["other.example", *NAMES[:500]]
    shares = np.array([0.4, *[0.6 / 500] * 500])
    drawn, _ = StringPopulation.of(METRIC, names).draw(shares, 100_000, np.random.default_rng(4))
    (row,) = (row for row in discover(drawn).found if row.declared)
    assert (row.declared, row.estimate > 0.3) == ("fallback", True)


def test_the_tail_of_a_sum_of_rare_bits() -> None:
    """Against 2 million draws of a sum of Poisson counts, at 1 in 1,000; 5 standard errors."""
    rng, mean = np.random.default_rng(6), 20.0
    z = (rng.poisson(mean, 2_000_000) + rng.random(2_000_000) - 0.5 - mean) / np.sqrt(mean + 1 / 12)
    skewness = np.full(1, mean / (mean + 1 / 12) ** 1.5)
    cut = np.array([3.6])
    told = float(upper_tail(cut, skewness)[0])
    seen = float((z >= cut).mean())
    assert abs(told - seen) < 5 * np.sqrt(seen / 2e6) + 0.1 * seen
    assert float(upper_tail(cut, np.zeros(1))[0]) < seen / 2  # the normal law is refuted


def test_null_scores_are_standard(population: StringPopulation) -> None:
    """z of 2,000 strings that nobody holds: mean 0, variance 1 (bounds: 1 in a million)."""
    drawn, _ = population.draw(np.full(2_000, 1 / 2_000), 100_000, np.random.default_rng(12))
    noise = BitNoise.of(METRIC.params.mechanism)
    shares = group_shares(drawn, METRIC.details, noise)
    rng = np.random.default_rng(13)
    z = []
    for _ in range(20):
        bits = rng.integers(0, 2**48, 100)
        strings = [CompletedString(int(b), b"", False, int(b) % 4) for b in bits]
        counted = count(METRIC.details, shares, strings, noise, 1.0)
        z.append(counted.shares / counted.null_errors)
    scores = np.concatenate(z)
    assert abs(scores.mean()) < 4.9 / np.sqrt(2_000)
    assert abs(scores.std() - 1) < 4.9 / np.sqrt(4_000)
    assert abs(0.9 * scores.std() - 1) > 4.9 / np.sqrt(4_000)  # a scale wrong by 10 % is seen


HOSTILE = "=cmd|'/C calc'!A0\u202egnp\x1b[31m<script>"


def hostile(discovery: Discovery) -> Discovery:
    texts = (HOSTILE, "fine.example", "a\nb", "x" * 300, "\\n")
    rows = [replace(discovery.found[0], string=text, whole=True) for text in texts]
    cut = replace(discovery.found[0], string="begin", whole=False)
    return replace(discovery, found=(*rows, cut))


def write_hostile(discovery: Discovery, folder: Path) -> None:
    write_result(discovery_result(hostile(discovery)), KIND, "decode", folder, silent)


def test_text_of_strangers_is_escaped_everywhere(discovery: Discovery, tmp_path: Path) -> None:
    write_hostile(discovery, tmp_path)
    for path in set(tmp_path.iterdir()) - {tmp_path / "discovered.parquet"}:
        raw = path.read_text(encoding="utf-8")
        assert not {"\u202e", "\x1b"} & set(raw)
    with (tmp_path / "discovered.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["string"].startswith("'=cmd")
    assert "\\u202egnp\\x1b" in rows[0]["string"]
    assert [rows[i]["string"] for i in (1, 2, 4, 5)] == [
        "fine.example",
        "a\\nb",
        "\\\\n",
        "begin...",
    ]
    assert len(rows[3]["string"]) == 83
    page = render_page(KIND, in_memory(discovery_result(hostile(discovery)), "decode"))
    assert "<script>" not in page
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


def test_a_person_approves_each_new_candidate(discovery: Discovery, tmp_path: Path) -> None:
    write_hostile(discovery, tmp_path)
    with pytest.raises(CandidatesError, match=r"no row .* says yes"):
        approved_strings(tmp_path)
    review(tmp_path, {"fine.example": "Yes", "a\\nb": "no"})
    assert approved_strings(tmp_path) == ["fine.example"]
    for text, message in (("a\\nb", "not a single line"), ("begin...", "only the beginning")):
        review(tmp_path, {text: "yes"})
        with pytest.raises(CandidatesError, match=message):
            approved_strings(tmp_path)
    review(tmp_path, {"fine.example": "yes"})
    (tmp_path / "results.json").write_text('{"found": [{}]}')
    with pytest.raises(CandidatesError, match="lacks what was found"):
        approved_strings(tmp_path)
    (tmp_path / "results.json").write_text('{"found": []}')
    with pytest.raises(CandidatesError, match=r"id '\w+' is not one of results\.json"):
        approved_strings(tmp_path)
    write_hostile(discovery, tmp_path)
    review(tmp_path, {"fine.example": "perhaps"})
    with pytest.raises(CandidatesError, match="neither yes nor no"):
        approved_strings(tmp_path)


def test_the_command_finds_shows_and_hands_over(
    aggregate: Aggregate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_of_noise_alone_smaller_shares_would_be_named(discovery: Discovery) -> None:
    assert discovery.half_by_noise < discovery.half_found < discovery.most_found


@pytest.mark.long
def test_strings_are_named_at_the_stated_shares() -> None:
    """40 strings each. At .5 fewer than 10 have a chance of .001; at .95 fewer than 32, .0003."""
    metric, rng = small_metric(), np.random.default_rng(7)
    population = StringPopulation.of(metric, NAMES)

    def named(share: float) -> int:
        shares = np.r_[np.full(10, share), np.full(1_990, (1 - 10 * share) / 1_990)]
        drawn = [discover(population.draw(shares, 20_000, rng)[0]) for _ in range(4)]
        return sum(row.string in NAMES[:10] for one in drawn for row in one.found)

    assert 10 <= named(0.05) <= 30
    shares = np.r_[np.full(10, 0.05), np.full(1_990, 0.5 / 1_990)]
    one = discover(population.draw(shares, 20_000, rng)[0])
    assert one.half_by_noise < 0.03 < one.half_found == 0.05 < one.most_found < 0.08
    assert named(one.most_found) >= 32


def test_scores_do_not_depend_on_one_bucket() -> None:
    """Clipped: a bucket a hundred times as full counts no more than one that is a little full."""
    rng = np.random.default_rng(0)
    shares = rng.normal(1 / 64, 0.01, size=(8, 64))
    shares[2, 5] = 1.0
    group = GroupShares(np.arange(8), np.full(8, 1_000.0), shares, 16)
    assert group.scores()[2, 5] * np.sqrt(8) < 3.0
