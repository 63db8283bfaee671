"""The speed of decoding: the whole job, hashing a list, and the LASSO next to scikit-learn's."""

import sys
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.linear_model import Lasso
from threadpoolctl import threadpool_limits

from benchmarks.conftest import OURS, Comparison, child
from decoder.candidates.lists import bit_positions
from decoder.estimation.lasso import fit_lasso, noise_penalty
from decoder.model.counts import Observed, design_matrix, observe
from decoder.model.noise import RandomString
from rappor_core.aggregate import Aggregate
from rappor_core.hashing import bloom_positions
from rappor_core.params import HashFamily, RapporParams
from simulations.populations.draws import draw_aggregate
from simulations.populations.fleet import exponential_shares

VALUES, REPORTS, SEED, MILLION = 100, 10_000_000, 1, 1_000_000
SCALAR, SKLEARN = "the scalar hash, value by value", "scikit-learn, sparse matrix, positive=True"


def params_of(num_cohorts: int = 16, family: HashFamily = "mmh3") -> RapporParams:
    return RapporParams.rappor(
        num_bits=128, num_hashes=2, num_cohorts=num_cohorts, prob_f=0.5, prob_p=0.5, prob_q=0.75,
        hash=family,
    )  # fmt: skip


PARAMS = params_of()


def strings(count: int) -> list[str]:
    """Return candidates, of which devices hold the first `VALUES`."""
    return [f"https://example.org/page/{i}" for i in range(count)]


def counts_of(params: RapporParams) -> Aggregate:
    """Return the counts for a population with `VALUES` values."""
    shares, random = exponential_shares(VALUES, 0.05), np.random.default_rng(SEED)
    return draw_aggregate(strings(VALUES), shares, REPORTS, params, random)[0]


@pytest.mark.parametrize(("cohorts", "family"), [(16, "mmh3"), (64, "mmh3"), (16, "md5")])
def bench_job(comparison: Comparison, tmp_path: Path, cohorts: int, family: HashFamily) -> None:
    """Measure `rappor decode` as users run it, from a file of a million strings to results.csv."""
    counts, names = tmp_path / "counts.json", tmp_path / "candidates.txt"
    counts.write_text(counts_of(params_of(cohorts, family)).to_json())
    names.write_text("\n".join(strings(MILLION)))
    words = [sys.executable, "-m", "rappor_cli", "decode", "--aggregate", counts, "--json"]
    peaks: list[float] = []

    def job(_: int) -> float:
        used = child([*words, "--candidates", names, "-o", tmp_path / "out"])
        peaks.append(used.peak)
        return used.processor

    comparison.name(f"rappor decode of {MILLION:,} candidates, k=128 m={cohorts}, {family}", OURS)
    comparison.values(job, 1, "s")
    comparison.name(f"rappor decode of {MILLION:,} candidates, k=128 m={cohorts}, {family}", OURS,
                note=f"{max(peaks):.2f} GiB at most")  # fmt: skip


@pytest.mark.benchmark(timer=process_time)
@pytest.mark.parametrize("who", [OURS, SCALAR])
def bench_hashing(comparison: Comparison, who: str) -> None:
    """Measure the hashing of a candidate list, vectorized or one value at a time."""
    values = [text.encode() for text in strings(5_000)]

    def scalar() -> None:
        for value in values:
            for cohort in range(PARAMS.num_cohorts):
                bloom_positions(value, cohort, PARAMS)

    comparison.name("hashing 5,000 candidates into 16 cohorts, mmh3", who)
    comparison.times((lambda: bit_positions(values, PARAMS)) if who == OURS else scalar, rounds=5)


class Uncentered(RandomString):
    """Columns X instead of X - a, the form that other libraries solve on a sparse matrix."""

    @property
    def mean(self) -> float:
        return 0.0


class Problem(NamedTuple):
    """The LASSO on columns X: the observed counts, the rows' weights (m, k), and the penalty."""

    observed: Observed
    weights: np.ndarray
    penalty: float

    def ours(self) -> np.ndarray:
        """Return the shares of all candidates, (M,), from the index tensor."""
        observed, random = self.observed, Uncentered(PARAMS.num_bits, PARAMS.num_hashes)
        fit = fit_lasso(observed.bit_shares, observed.positions, self.weights, random, self.penalty)
        shares = np.zeros(len(observed.positions))
        shares[fit.selected] = fit.shares
        return shares

    def scikit_learn(self) -> np.ndarray:
        """Return the same shares from the explicit matrix, with rows scaled by sqrt(w).

        The time includes building the matrix."""
        X = design_matrix(self.observed.positions, PARAMS.num_bits)
        root = np.sqrt(self.weights).ravel()
        X.data *= root[X.indices]
        model = Lasso(alpha=self.penalty / len(root), positive=True, fit_intercept=False)
        model.set_params(tol=1e-8, max_iter=10_000)
        model.fit(X, root * self.observed.bit_shares.ravel())
        return np.asarray(model.coef_)


@pytest.mark.benchmark(timer=process_time)
@pytest.mark.parametrize("count", [100_000, MILLION])
@pytest.mark.parametrize("who", [OURS, SKLEARN])
def bench_lasso(comparison: Comparison, count: int, who: str) -> None:
    """Measure this project's LASSO or scikit-learn's, at equal penalties and solutions."""
    tensor = bit_positions([text.encode() for text in strings(count)], PARAMS)
    observed = observe(counts_of(PARAMS), tensor, 1.0)
    weights = 1 / np.einsum("jbb->jb", observed.noise_of(np.zeros(count)))
    penalty = noise_penalty(weights, observed.noise.random, count, 0.05)
    problem = Problem(observed, weights, penalty)
    comparison.name(f"LASSO, {count:,} candidates, k=128 m=16 h=2, from the index tensor", who)
    with threadpool_limits(1):
        comparison.times(problem.ours if who == OURS else problem.scikit_learn, rounds=3)
