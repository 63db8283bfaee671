"""The calibration of the decoder: error rates and coverage on populations with a known truth.

The settings follow google/rappor's published regression simulations: k = 8, h = 2, m = 128 cohorts
of equal size, five distributions over n values, and candidate lists that lack a tenth of the values
and contain wrong strings. Additional settings are the RAPPOR paper's exponential experiment, few
rows, lists without any true value, and settings chosen to break a decoder (`STRESS`): one dominant
value, more values than rows, several candidates per row, a single cohort. Positions are drawn at
random for every run, as a hash would, cohorts are multinomial, and bits binomial: exact, without a
fleet. Candidates that set the same bits in every cohort are merged, as in `decode`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from threadpoolctl import threadpool_limits

from decoder.errors import ConvergenceError, DecodeError
from decoder.estimation.estimate import Estimate, by_cavity, by_lasso
from decoder.estimation.least_squares import centered_columns, refit
from decoder.inference.multiple_testing import Correction, decide, p_values
from decoder.model.counts import Observed, debias, same_positions
from decoder.model.noise import BitNoise, CohortNoise, RandomString
from decoder.numerics.bit_tensor import Positions, mark_repeated
from decoder.options import DecodeOptions, Method
from decoder.results.selective_intervals import selected_intervals
from decoder.typing import Floats
from simulations.experiments.calibration_settings import SIZES, kept_of, shares_of
from simulations.populations.draws import bits_set

NUM_HASHES = 2
RULES: tuple[Correction, ...] = ("bonferroni", "bh", "fdr", "fdr-eb")
LEVEL, ALPHA = 0.95, 0.05
HEAVIEST = 5  # Number of listed values whose intervals are also counted separately


@dataclass(frozen=True)
class CalibrationRun:
    """The setting of one run: size, configuration and distribution by name, and the run's seed."""

    size: str
    configuration: str
    distribution: str
    seed: int


@dataclass(frozen=True)
class Sample:
    """The drawn counts, and the true share of each listed candidate, (M,); 0 for wrong strings."""

    observed: Observed
    true_shares: Floats


@dataclass(frozen=True)
class RuleScore:
    """The score of a decision rule in a run: recall, false discoveries, interval coverage."""

    recall: float  # The fraction of held listed values that are detected; NaN if none is held
    false_proportion: float  # The fraction of detected values that no device holds
    any_false: bool
    detected: int  # The number of detected values
    covered: int  # The number of these whose intervals contain the truth
    right: int = 0  # The number of detected values that devices hold
    right_covered: int = 0  # The number of these whose intervals contain the truth


@dataclass(frozen=True)
class RunScore:
    """The scores of one run.

    Attributes:
        rules: The scores by rule.
        coverage: The coverage of all candidates' intervals.
        wrong_z_squared: The mean squared z of wrong strings.
        oracle: The recall with Bonferroni of an oracle that knows which candidates are held
            (`oracle_recall`).
        bound: The recall of an oracle that knows every share but the tested share (`recall_bound`).
        heaviest: The coverage of the heaviest listed values' intervals as `fdr` prints them; NaN if
            devices hold none.
        converged: Whether the fit converged.
        refused: Whether the method returned no answer; then nothing is detected.
    """

    cell: CalibrationRun  # The setting
    rules: Mapping[str, RuleScore]
    coverage: float
    wrong_z_squared: float
    oracle: float
    bound: float
    heaviest: float = float("nan")
    converged: bool = True
    refused: bool = False


def draw(cell: CalibrationRun) -> Sample:
    """Draw a population, its reports and a list of candidates."""
    rng, size = np.random.default_rng(cell.seed), SIZES[cell.size]
    n, m, k = size.values, size.num_cohorts, size.num_bits
    setting = size.configurations[cell.configuration]
    shares = shares_of(cell.distribution, n)
    total = n + round(setting.wrong * n)
    positions = mark_repeated(rng.integers(0, k, (total, m, NUM_HASHES), dtype=np.int16), k)
    reports = np.full(m, size.reports // m)
    holders = rng.multinomial(reports, shares)
    noise = BitNoise(1 - setting.prob_f / 2, setting.prob_f / 2, setting.prob_q, setting.prob_p)
    counts = noisy_counts(rng, positions[:n], holders, reports, noise, k)
    listed = np.ones(total, dtype=bool)
    listed[:n] = kept_of(setting.missing, n)
    bit_shares = debias(counts, reports.astype(float), noise)
    cohorts = CohortNoise(noise, RandomString(k, NUM_HASHES), reports.astype(float), 1.0)
    truth = np.concatenate([shares, np.zeros(total - n)])[listed]
    group = same_positions(positions[listed], k)
    first = np.flatnonzero(group == np.arange(len(group)))
    masses = np.bincount(group, weights=truth, minlength=len(group)).astype(np.float64)
    return Sample(Observed(bit_shares, positions[listed][first], cohorts), masses[first])


def noisy_counts(
    rng: np.random.Generator,
    positions: Positions,
    holders: NDArray[np.int64],
    reports: NDArray[np.int64],
    noise: BitNoise,
    num_bits: int,
) -> Floats:
    """Draw bit counts (m, k), given the holders (m, n) of each value and its bits (n, m, h)."""
    ones = bits_set(holders, positions, num_bits)
    counts = rng.binomial(ones, noise.q_star) + rng.binomial(reports[:, None] - ones, noise.p_star)
    return np.asarray(counts, dtype=np.float64)


def run_cell(cell: CalibrationRun, method: Method = "cavity") -> RunScore:
    """Draw, decode and score one run."""
    with threadpool_limits(1):
        sample = draw(cell)
        oracle, bound = oracle_recall(sample), recall_bound(sample)
        try:
            estimate = fit(sample, method)
        except DecodeError:
            return _refused(cell, oracle, bound)
    truth = sample.true_shares
    inside = (estimate.low <= truth) & (truth <= estimate.high)  # Not clipped at 0
    wrong = truth == 0
    return RunScore(
        cell,
        {rule: _score(estimate, truth, rule) for rule in RULES},
        float(inside.mean()),
        float((estimate.z[wrong] ** 2).mean()) if wrong.any() else float("nan"),
        oracle,
        bound,
        _heaviest_covered(estimate, truth, inside),
        estimate.converged,
    )


def _refused(cell: CalibrationRun, oracle: float, bound: float) -> RunScore:
    no = float("nan")
    rules: dict[str, RuleScore] = {rule: RuleScore(no, 0.0, False, 0, 0) for rule in RULES}
    return RunScore(cell, rules, no, no, oracle, bound, refused=True)


def _heaviest_covered(estimate: Estimate, truth: Floats, inside: NDArray[np.bool_]) -> float:
    """Return the covered fraction of the largest listed shares, by the intervals as printed."""
    heaviest = np.argsort(-truth, kind="stable")[: min(HEAVIEST, int((truth > 0).sum()))]
    if not len(heaviest):
        return float("nan")
    options = DecodeOptions(correction="fdr", level=LEVEL)
    decision = decide(
        estimate.p_values,
        estimate.local_fdr,
        "fdr",
        options.alpha,
        null_p=estimate.null_p_values,
        careful=estimate.has_few_cohorts,
    )
    low, high = selected_intervals(estimate, decision, options)
    chosen = (low <= truth) & (truth <= high)
    return float(np.where(decision.detected, chosen, inside)[heaviest].mean())


def fit(sample: Sample, method: Method, weights: Floats | None = None) -> Estimate:
    """Estimate a sample's shares; `weights` (M,) will divide the p-values in the rule."""
    if method == "cavity":
        return by_cavity(sample.observed, LEVEL, weights=weights)
    return by_lasso(sample.observed, LEVEL, ALPHA, weights=weights)


def oracle_recall(sample: Sample) -> float:
    """Return the recall, with Bonferroni, of least squares on only the listed values that are held.

    NaN if these are more than half of the rows, or cannot be distinguished."""
    observed, present = sample.observed, sample.true_shares > 0
    if not 0 < present.sum() <= observed.centered.size / 2:
        return float("nan")
    random = observed.noise.random
    columns = centered_columns(observed.positions[present], random)
    try:
        fitted = refit(observed.noise_of(sample.true_shares), observed.centered, columns, random)
    except ConvergenceError:  # Values that the cohorts cannot distinguish
        return float("nan")
    errors = np.sqrt(fitted.balance.excess * np.diag(fitted.covariance))
    return float((p_values(fitted.shares / errors) <= ALPHA / len(present)).mean())


def recall_bound(sample: Sample) -> float:
    """Return the expected recall, with Bonferroni, of a test that knows every other share.

    The other shares include unlisted values. No unbiased test that is valid for wrong strings can
    detect more. NaN if no value is held."""
    observed, present = sample.observed, sample.true_shares > 0
    if not present.any():
        return float("nan")
    random = observed.noise.random
    columns = centered_columns(observed.positions[present], random)
    inverses = np.linalg.inv(observed.noise_of(sample.true_shares))
    blocks = columns.reshape(*observed.centered.shape, -1)
    information = np.einsum("jbi,jbi->i", blocks, inverses @ blocks)
    z = sample.true_shares[present] * np.sqrt(information)
    return float(ndtr(z + ndtri(ALPHA / len(present))).mean())


def _score(estimate: Estimate, truth: Floats, rule: Correction) -> RuleScore:
    options = DecodeOptions(correction=rule, level=LEVEL)
    decision = decide(
        estimate.p_values,
        estimate.local_fdr,
        rule,
        options.alpha,
        null_p=estimate.null_p_values,
        careful=estimate.has_few_cohorts,
    )
    low, high = selected_intervals(estimate, decision, options)
    named, present = decision.detected, truth > 0
    false = int((named & ~present).sum())
    covered = named & (low <= truth) & (truth <= high)
    return RuleScore(
        float((named & present).sum() / present.sum()) if present.any() else float("nan"),
        false / max(int(named.sum()), 1),
        false > 0,
        int(named.sum()),
        int(covered.sum()),
        int((named & present).sum()),
        int((covered & present).sum()),
    )


def cells(sizes: Mapping[str, int], seed: int) -> Iterator[CalibrationRun]:
    """Yield the settings of all runs: `sizes[size]` runs per size, configuration and distribution.

    Each run has its own seed, derived from `seed`."""
    seeds = np.random.SeedSequence(seed)
    for size, runs in sizes.items():
        for configuration in SIZES[size].configurations:
            for distribution in SIZES[size].distributions:
                for child in seeds.spawn(runs):
                    yield CalibrationRun(
                        size, configuration, distribution, int(child.generate_state(1)[0])
                    )
