"""Does the decoder keep its promises? Populations with a known truth, decoded by every rule.

The settings are those of google/rappor's published regression simulations in spirit: k = 8, h = 2,
m = 128 cohorts of equal size, five distributions over n values, and lists of candidates that lack a
tenth of the values and hold wrong strings. Positions are drawn at random for every run (that is
what a hash does), cohorts are multinomial, bits binomial: exact, without a fleet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student
from threadpoolctl import threadpool_limits

from decoder.bit_tensor import Positions, mark_repeated, scatter_sums
from decoder.debias import debias
from decoder.estimators import Estimate, Observed, by_cavity, by_lasso
from decoder.inference import Correction, decide, p_values
from decoder.noise import BitNoise, CohortNoise, RandomString
from decoder.options import DecodeOptions, Method
from decoder.selected import selected_intervals

Floats = NDArray[np.float64]

NUM_BITS, NUM_HASHES, NUM_COHORTS = 8, 2, 128
SIZES: Mapping[str, tuple[int, int]] = {
    "small": (1_000_000, 100),
    "medium": (10_000_000, 1_000),
    "large": (100_000_000, 10_000),
}
DISTRIBUTIONS = ("uniform", "exp", "gauss", "zipf1", "zipf1.5")
RULES: tuple[Correction, ...] = ("bonferroni", "bh", "fdr", "fdr-eb")
LEVEL = 0.95


class Configuration(NamedTuple):
    """f, p, q of the reports; share of values missing from the list; wrong strings per value."""

    prob_f: float
    prob_p: float
    prob_q: float
    missing: float
    wrong: float


CONFIGURATIONS: Mapping[str, Configuration] = {
    "typical": Configuration(0.45, 0.39, 0.61, 0.1, 0.2),
    "sharp": Configuration(0.45, 0.39, 0.61, 0.0, 0.0),
    "loose": Configuration(0.0, 0.225, 0.775, 0.1, 0.2),
    "over_x2": Configuration(0.45, 0.39, 0.61, 0.1, 2.0),
    "over_x10": Configuration(0.45, 0.39, 0.61, 0.1, 10.0),
}
# What google/rappor's R decoder reaches in these settings (recall, false share), measured once.
REFERENCE: Mapping[tuple[str, str], tuple[float, float]] = {
    ("small", "typical"): (0.50, 0.03),
    ("small", "sharp"): (0.48, 0.0),
    ("small", "loose"): (0.83, 0.05),
    ("small", "over_x2"): (0.39, 0.14),
    ("small", "over_x10"): (0.29, 0.21),
    ("medium", "typical"): (0.09, 0.06),
    ("medium", "sharp"): (0.10, 0.0),
    ("medium", "loose"): (0.21, 0.05),
    ("medium", "over_x2"): (0.04, 0.26),
    ("medium", "over_x10"): (0.02, 0.43),
}


@dataclass(frozen=True)
class Cell:
    """One kind of run: size, configuration and distribution by name, and the run's seed."""

    size: str
    configuration: str
    distribution: str
    seed: int


@dataclass(frozen=True)
class Sample:
    """Counts with their truth: true shares of the listed candidates, 0 for wrong strings, (M,)."""

    bit_counts: Floats
    reports: Floats
    noise: BitNoise
    positions: Positions
    true_shares: Floats


@dataclass(frozen=True)
class RuleScore:
    """Of one rule in one run: recall, false discovery proportion, any false, interval coverage."""

    recall: float
    false_proportion: float
    any_false: bool
    detected: int
    covered: int


@dataclass(frozen=True)
class RunScore:
    """One run: by rule; all candidates' coverage; z of wrong strings; the ranking and its truth."""

    cell: Cell
    rules: Mapping[str, RuleScore]
    coverage: float
    wrong_z_squared: float
    ranked_true: NDArray[np.bool_]
    ranked_p: Floats
    iterations: int


def shares_of(distribution: str, n: int) -> Floats:
    """Shares of n values, (n,), by the name of their distribution; they sum to 1."""
    i = np.arange(1, n + 1)
    weights = {
        "uniform": np.ones(n),
        "exp": np.exp(-5 * i / n),
        "gauss": np.exp(-0.5 * ((i - (n + 1) / 2) / (n / 6)) ** 2),
        "zipf1": 1 / i,
        "zipf1.5": i**-1.5,
    }[distribution]
    return np.asarray(weights / weights.sum())


def draw(cell: Cell) -> Sample:
    """Draw a population, its reports and a list of candidates."""
    rng = np.random.default_rng(cell.seed)
    num_reports, n = SIZES[cell.size]
    setting = CONFIGURATIONS[cell.configuration]
    shares = shares_of(cell.distribution, n)
    total = n + round(setting.wrong * n)
    shape = (total, NUM_COHORTS, NUM_HASHES)
    positions = mark_repeated(rng.integers(0, NUM_BITS, shape, dtype=np.int16), NUM_BITS)
    reports = np.full(NUM_COHORTS, num_reports // NUM_COHORTS)
    holders = rng.multinomial(reports, shares)
    noise = BitNoise(1 - setting.prob_f / 2, setting.prob_f / 2, setting.prob_q, setting.prob_p)
    counts = noisy_counts(rng, positions[:n], holders, reports, noise)
    listed = np.ones(total, dtype=bool)
    if setting.missing:
        listed[:n] = np.arange(1, n + 1) % 10 != 9
    truth = np.concatenate([shares, np.zeros(total - n)])[listed]
    return Sample(counts, reports.astype(float), noise, positions[listed], truth)


def noisy_counts(
    rng: np.random.Generator,
    positions: Positions,
    holders: NDArray[np.int64],
    reports: NDArray[np.int64],
    noise: BitNoise,
) -> Floats:
    """Bit counts (m, k) of holders (m, n) of values at positions (n, m, h), one report each."""
    set_bits = np.vstack(
        [
            scatter_sums(positions[:, [j]], row.astype(float), NUM_BITS)
            for j, row in enumerate(holders)
        ]
    ).astype(np.int64)
    ones = rng.binomial(set_bits, noise.q_star)
    zeros = rng.binomial(reports[:, None] - set_bits, noise.p_star)
    return np.asarray(ones + zeros, dtype=np.float64)


def run_cell(cell: Cell, method: Method = "cavity") -> RunScore:
    """Draw, decode and score one run."""
    sample = draw(cell)
    with threadpool_limits(1):
        estimate = fit(sample, method)
    p = p_values(estimate.tail.deviate(estimate.z))
    truth = sample.true_shares
    margin = float(student.isf((1 - LEVEL) / 2, estimate.freedom)) * estimate.std_errors
    inside = np.abs(estimate.shares - truth) <= margin  # not clipped at 0: that only helps
    order = np.argsort(p, kind="stable")
    wrong = truth == 0
    return RunScore(
        cell,
        {rule: _score(estimate, p, truth, rule) for rule in RULES},
        float(inside.mean()),
        float((estimate.z[wrong] ** 2).mean()) if wrong.any() else 1.0,
        ~wrong[order],
        p[order],
        estimate.iterations,
    )


def fit(sample: Sample, method: Method) -> Estimate:
    """Estimate all candidates of a sample."""
    random = RandomString(NUM_BITS, NUM_HASHES)
    bit_shares = debias(sample.bit_counts, sample.reports, sample.noise)
    cohorts = CohortNoise(sample.noise, random, sample.reports, 1.0)
    observed = Observed(bit_shares, sample.positions, cohorts)
    return by_cavity(observed, LEVEL) if method == "cavity" else by_lasso(observed, LEVEL, 0.05)


def _score(estimate: Estimate, p: Floats, truth: Floats, rule: Correction) -> RuleScore:
    options = DecodeOptions(correction=rule, level=LEVEL)
    decision = decide(p, estimate.local_fdr, rule, options.alpha)
    low, high = selected_intervals(estimate, decision, options)
    found, held = decision.detected, truth > 0
    false = int((found & ~held).sum())
    return RuleScore(
        float((found & held).sum() / held.sum()),
        false / max(int(found.sum()), 1),
        false > 0,
        int(found.sum()),
        int(((low <= truth) & (truth <= high))[found].sum()),
    )


def cells(sizes: Mapping[str, int], seed: int) -> Iterator[Cell]:
    """Every run: for each size, `sizes[size]` runs of each configuration and distribution.

    Seeds are drawn apart for each run from `seed`.
    """
    seeds = np.random.SeedSequence(seed)
    for size, runs in sizes.items():
        for configuration in CONFIGURATIONS:
            for distribution in DISTRIBUTIONS:
                for child in seeds.spawn(runs):
                    yield Cell(size, configuration, distribution, int(child.generate_state(1)[0]))


@dataclass(frozen=True)
class Row:
    """Means over the runs of one size and configuration; `recall_at_reference` is pooled."""

    size: str
    configuration: str
    runs: int
    recall: Mapping[str, float]
    false_proportion: Mapping[str, float]
    family_wise: Mapping[str, float]
    coverage: float
    coverage_detected: Mapping[str, float]
    detected: Mapping[str, int]
    wrong_z_squared: float
    recall_at_reference: float


def summarise(scores: list[RunScore]) -> list[Row]:
    """One row for each size and configuration, in the order of the tables."""
    rows = []
    for size in SIZES:
        for configuration in CONFIGURATIONS:
            wanted = (size, configuration)
            some = [s for s in scores if (s.cell.size, s.cell.configuration) == wanted]
            if some:
                rows.append(_row(size, configuration, some))
    return rows


def _row(size: str, configuration: str, some: list[RunScore]) -> Row:
    def mean(rule: str, field: str) -> float:
        return float(np.mean([getattr(score.rules[rule], field) for score in some]))

    detected: dict[str, int] = {
        rule: sum(score.rules[rule].detected for score in some) for rule in RULES
    }
    covered: dict[str, int] = {
        rule: sum(score.rules[rule].covered for score in some) for rule in RULES
    }
    return Row(
        size,
        configuration,
        len(some),
        {rule: mean(rule, "recall") for rule in RULES},
        {rule: mean(rule, "false_proportion") for rule in RULES},
        {rule: mean(rule, "any_false") for rule in RULES},
        float(np.mean([score.coverage for score in some])),
        {rule: covered[rule] / max(detected[rule], 1) for rule in RULES},
        detected,
        float(np.mean([score.wrong_z_squared for score in some])),
        recall_at(some, REFERENCE.get((size, configuration), (0.0, 0.0))[1]),
    )


def recall_at(some: list[RunScore], false_share: float) -> float:
    """Pooled recall where the pooled ranking is cut at a false share; NaN without wrong strings."""
    p = np.concatenate([score.ranked_p for score in some])
    true = np.concatenate([score.ranked_true for score in some])[np.argsort(p, kind="stable")]
    if true.all():
        return float("nan")
    shares = np.cumsum(~true) / np.arange(1, len(true) + 1)
    allowed = np.flatnonzero(shares <= false_share)
    return float(true[: allowed[-1] + 1].sum() / true.sum()) if len(allowed) else 0.0
