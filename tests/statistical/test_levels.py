"""Levels of tests: of changes, of pairs, and of strings found without a list."""

import numpy as np
import pytest

from decoder import Candidates
from decoder.comparison.windows import compare_windows
from decoder.discovery.bucket_shares import GroupShares
from decoder.discovery.discovery import DiscoverOptions, discover, group_shares
from decoder.discovery.search import count, decide_by_level, search
from decoder.model.counts import debias
from decoder.model.noise import BitNoise
from decoder.pairs.decoding import JointTable, decode_pairs
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.params import RapporParams
from tests.discovery_support import falling_shares, site_names, small_metric
from tests.pair_support import coupled_table, drawn_pairs, pair_metric
from tests.prefix_draws import StringPopulation

PARAMS = RapporParams.rappor(
    num_bits=32, num_hashes=2, num_cohorts=32, prob_f=0.25, prob_p=0.25, prob_q=0.75
)
VALUES = Candidates.from_strings([f"v{i}" for i in range(12)])
DEVICES, REPORTS, PAIRS = 6_000, 10, 60


def highest(pairs: int) -> float:
    """The most that a correct test rejects, of so many pairs of windows."""
    return float(0.05 + 4.5 * np.sqrt(0.05 * 0.95 / (12 * pairs)))


def _devices(rng):
    """Cohort, value and permanent bits of each device."""
    cohort, value = rng.integers(0, 32, DEVICES), rng.integers(0, 12, DEVICES)
    bits = np.zeros((DEVICES, 33), dtype=bool)
    positions = VALUES.positions(PARAMS)[value, cohort]
    bits[np.arange(DEVICES)[:, None], positions] = True
    uniform = rng.random((DEVICES, 32))
    return cohort, np.where(uniform < 0.25, uniform < 0.125, bits[:, :32])


def _window(rng, cohort, permanent):
    shown = rng.binomial(REPORTS, np.where(permanent, 0.75, 0.25))
    counts = np.zeros((32, 32), dtype=int)
    np.add.at(counts, cohort, shown)
    reports = REPORTS * np.bincount(cohort, minlength=32)
    return Aggregate("t", PARAMS, tuple(reports.tolist()), tuple(map(tuple, counts.tolist())))


def _naive_p(before, after):
    """A test that takes each report as a different device: what must not be done."""
    change = compare_windows(before, after, VALUES, 1.0)
    chance = PARAMS.p_star * (1 - PARAMS.p_star) / (PARAMS.q_star - PARAMS.p_star) ** 2
    positions = 2 * 32 * (1 - 2 / 32)
    error = np.sqrt(2 * chance * 32 / before.num_reports / positions)
    return np.abs(change.difference) / error > 1.96


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("same_devices", "pairs"), [(False, 12), pytest.param(True, PAIRS, marks=pytest.mark.long)]
)
def test_level_of_the_test_for_change(same_devices, pairs):
    rng = np.random.default_rng(31)
    rejected, naive = [], []
    for _ in range(pairs):
        devices = _devices(rng)
        before = _window(rng, *devices)
        after = _window(rng, *(devices if same_devices else _devices(rng)))
        rejected.append((compare_windows(before, after, VALUES, REPORTS).p_value < 0.05).mean())
        naive.append(_naive_p(before, after).mean())
    assert np.mean(rejected) < highest(pairs)
    if not same_devices:
        assert np.mean(rejected) > 0.01
        assert np.mean(naive) > 0.15 > highest(pairs)


SIZE, LEVEL = 6, 0.05
TABLES = 250
MOST = LEVEL + 4 * (LEVEL * (1 - LEVEL) / TABLES) ** 0.5
LEAST = 0.008  # 2 of 250; fewer by chance in 1 of 2,000 seeds


def covered(table: JointTable, truth: Floats) -> float:
    cells = table.cells
    return float(((cells.low <= truth) & (truth <= cells.high)).mean())


@pytest.mark.statistical
def test_pairs_cover_and_hold_their_level() -> None:
    """40 tables of 36 cells: the coverage of 1,440 intervals has a standard error of .006."""
    rng = np.random.default_rng(204)
    metric, truth = pair_metric(SIZE, SIZE, 2.04), coupled_table(SIZE, SIZE, 0.5)
    shares = [
        covered(decode_pairs(drawn_pairs(metric, truth, 50_000, rng)), truth) for _ in range(40)
    ]
    assert abs(np.mean(shares) - 0.95) < 4 * 0.006
    product = coupled_table(SIZE, SIZE, 0.0)
    refused = [
        decode_pairs(drawn_pairs(metric, product, 50_000, rng)).independence.p_value <= LEVEL
        for _ in range(TABLES)
    ]
    assert LEAST <= np.mean(refused) <= MOST


METRIC = small_metric(4.0)
NAMES = site_names(2_000)
ONE = DiscoverOptions(crowd=1)


@pytest.fixture(scope="module")
def population() -> StringPopulation:
    return StringPopulation.of(METRIC, NAMES)


@pytest.mark.statistical
@pytest.mark.long
def test_null_populations_name_in_5_percent(population: StringPopulation) -> None:
    """200 populations of equal shares. A true rate of 5 % gives 19 or more in 0.6 % of cases, one
    of 15 % gives 18 or fewer in 1 %.
    """
    rng, shares = np.random.default_rng(41), np.full(len(NAMES), 1 / len(NAMES))
    wrong = 0
    for _ in range(200):
        found = discover(population.draw(shares, 100_000, rng)[0], ONE).found
        wrong += any(row.string not in NAMES for row in found)
    assert wrong <= 18


@pytest.mark.statistical
@pytest.mark.long
def test_intervals_hold_and_estimates_are_unbiased(population: StringPopulation) -> None:
    """30 populations. What is accepted is covered in .92 or more, up to 3 standard errors; the mean
    z of every true string at which the search ended, accepted or not, is within .2.
    """
    rng, shares = np.random.default_rng(43), falling_shares(len(NAMES))
    truth = dict(zip(NAMES, shares.tolist(), strict=True))
    groups, noise = METRIC.details, BitNoise.of(METRIC.params.mechanism)
    covered, scores = [], []
    for _ in range(30):
        aggregate, _ = population.draw(shares, 200_000, rng)
        covered += [
            row.low <= truth[row.string] <= row.high
            for row in discover(aggregate, ONE).found
            if row.string in truth
        ]
        fresh = group_shares(aggregate, groups, noise)
        ended = search(groups, fresh[:-1])
        counted = count(groups, fresh, ended, noise, 1.0)
        names = [string.data.decode("utf-8", "replace") for string in ended]
        scores += [
            (share - truth[name]) / error
            for name, share, error in zip(names, counted.shares, counted.std_errors, strict=True)
            if name in truth
        ]
    assert len(covered) > 150
    assert np.mean(covered) > 0.92 - 3 * np.sqrt(0.08 * 0.92 / len(covered))
    assert abs(np.mean(scores)) < 0.2
    assert np.std(scores) < 1.15


@pytest.mark.statistical
@pytest.mark.long
def test_redrawn_counts_name_a_string_in_5_percent() -> None:
    """Epsilon 1: 20 searches without a frequent string, the group that counts drawn 50 times each.

    Of 1,000 decisions 5 % are 50, with a standard deviation of 8 at most over the searches; one of
    10 % gives 84 or fewer in 4 % of cases. Strings that devices hold are not wrong.
    """
    rng, metric = np.random.default_rng(53), small_metric(1.0)
    population, shares = StringPopulation.of(metric, NAMES), np.full(len(NAMES), 1 / len(NAMES))
    buckets, noise = population.bucket_shares(shares), BitNoise.of(metric.params.mechanism)
    wrong = 0
    for _ in range(20):
        groups = list(group_shares(population.draw(shares, 100_000, rng)[0], metric.details, noise))
        ended, last = search(metric.details, groups[:-1]), groups[-1]
        false = np.array([string.data.decode("utf-8", "replace") not in NAMES for string in ended])
        levels = np.array([string.level for string in ended])
        for _ in range(50):
            reports = last.reports.astype(np.int64)
            held = rng.multinomial(reports, buckets[last.cohorts])
            counts = rng.binomial(held, noise.q_star)
            counts += rng.binomial(reports[:, None] - held, noise.p_star)
            result = debias(counts.astype(np.float64), last.reports, noise)
            groups[-1] = GroupShares(last.cohorts, last.reports, result, last.num_bits)
            p_values = count(metric.details, groups, ended, noise, 1.0).p_values
            named = decide_by_level(p_values, levels, metric.details.num_levels, 0.05).detected
            wrong += bool((named & false).any())
    assert 18 <= wrong <= 84
