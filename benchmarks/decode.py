"""Speed of decoding, as ratios against named alternatives in the same run.

1. The whole job: `rappor decode` of a million strings in a process of its own, with its peak memory
   (first: while this process is small, since a child starts with the peak of its parent).
2. Hashing a list: the vectorised hash against the scalar one.
3. The LASSO over the index tensor against scikit-learn's `Lasso(positive=True)` on the explicit
   sparse matrix at the same penalty, building included on both sides; objectives compared, and by
   how much of the penalty each is off its optimality conditions.
4. The cavity fit of the medium settings of the calibration table.

Usage: python benchmarks/decode.py [--candidates 100000 1000000] [--repeats 3] [--no-job]
       [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _run import Comparison, alternate, child, run, seconds
from sklearn.linear_model import Lasso
from threadpoolctl import threadpool_limits

from decoder.candidates.bloom_positions import bit_positions
from decoder.estimation.lasso_path import fit_lasso, noise_penalty
from decoder.model.counts import Observed, observe
from decoder.model.design_matrix import design_matrix
from decoder.model.noise import RandomString
from decoder.numerics.bit_tensor import gather_sums, scatter_sums
from rappor_core.aggregate import Aggregate
from rappor_core.hashing import bloom_positions
from rappor_core.params import HashFamily, RapporParams
from simulations.experiments.calibration import CalibrationRun, draw, fit
from simulations.populations.draws import draw_aggregate
from simulations.populations.populations import exponential_shares

VALUES, REPORTS, SEED = 100, 10_000_000, 1
JOBS: tuple[tuple[int, HashFamily], ...] = ((16, "mmh3"), (64, "mmh3"), (16, "md5"))


def params_of(num_cohorts: int = 16, family: HashFamily = "mmh3") -> RapporParams:
    return RapporParams.rappor(
        num_bits=128,
        num_hashes=2,
        num_cohorts=num_cohorts,
        prob_f=0.5,
        prob_p=0.5,
        prob_q=0.75,
        hash=family,
    )


PARAMS = params_of()


def strings(count: int) -> list[str]:
    """Candidates: the first `VALUES` are held."""
    return [f"https://example.org/page/{i}" for i in range(count)]


def counts_of(params: RapporParams) -> Aggregate:
    """Counts of a population of `VALUES` values."""
    shares, random = exponential_shares(VALUES, 0.05), np.random.default_rng(SEED)
    return draw_aggregate(strings(VALUES), shares, REPORTS, params, random)[0]


class Uncentred(RandomString):
    """Columns X instead of X - a: the form that other libraries solve on a sparse matrix."""

    @property
    def mean(self) -> float:
        return 0.0


class Problem(NamedTuple):
    """The LASSO on columns X: what was seen, the rows' weights (m, k), the penalty."""

    observed: Observed
    weights: np.ndarray
    penalty: float

    def ours(self) -> np.ndarray:
        """Shares of all candidates, (M,), from the index tensor."""
        seen, random = self.observed, Uncentred(PARAMS.num_bits, PARAMS.num_hashes)
        found = fit_lasso(seen.bit_shares, seen.positions, self.weights, random, self.penalty)
        shares = np.zeros(len(seen.positions))
        shares[found.selected] = found.shares
        return shares

    def scikit_learn(self) -> np.ndarray:
        """The same on the explicit matrix, rows scaled by sqrt(w)."""
        X = design_matrix(self.observed.positions, PARAMS.num_bits)
        root = np.sqrt(self.weights).ravel()
        X.data *= root[X.indices]
        model = Lasso(alpha=self.penalty / len(root), positive=True, fit_intercept=False)
        model.set_params(tol=1e-8, max_iter=10_000)
        model.fit(X, root * self.observed.bit_shares.ravel())
        return np.asarray(model.coef_)

    def judged(self, shares: np.ndarray) -> tuple[float, float]:
        """1/2 sum w (y - X b)^2 + penalty sum b, and by how much of the penalty a score is over."""
        fitted = scatter_sums(self.observed.positions, shares, PARAMS.num_bits)
        residual = self.observed.bit_shares - fitted
        scores = gather_sums(self.observed.positions, self.weights * residual)
        objective = 0.5 * (self.weights * residual**2).sum() + self.penalty * shares.sum()
        return float(objective), float(scores.max() / self.penalty - 1)


def lasso(count: int, repeats: int) -> Iterator[Comparison]:
    """Ours and scikit-learn's, from the index tensor to the solution, at the same penalty."""
    tensor = bit_positions([text.encode() for text in strings(count)], PARAMS)
    observed = observe(counts_of(PARAMS), tensor, 1.0)
    weights = 1 / np.einsum("jbb->jb", observed.noise_of(np.zeros(count)))
    penalty = noise_penalty(weights, observed.noise.random, count, 0.05)
    problem = Problem(observed, weights, penalty)
    with threadpool_limits(1):
        times = alternate({"its": problem.scikit_learn, "ours": problem.ours}, repeats)
        (mine, over), (its, its_over) = map(
            problem.judged, (problem.ours(), problem.scikit_learn())
        )
    yield Comparison(
        "", f"LASSO, {count:,} candidates, k=128 m=16 h=2, from the index tensor", "s",
        times["ours"], "scikit-learn, sparse matrix, positive=True", times["its"],
        note=f"objective {(mine - its) / its:+.1e} of its; a score over the penalty by {over:.0e} "
        f"of it, its by {its_over:.0e}",
    )  # fmt: skip


def hashing(count: int, repeats: int) -> Iterator[Comparison]:
    """Index tensors, vectorised and one value at a time."""
    values = [text.encode() for text in strings(count)]

    def scalar() -> None:
        for value in values:
            for cohort in range(PARAMS.num_cohorts):
                bloom_positions(value, cohort, PARAMS)

    times = alternate({"scalar": scalar, "ours": lambda: bit_positions(values, PARAMS)}, repeats)
    yield Comparison(
        "", f"hashing {count:,} candidates into 16 cohorts, mmh3", "s", times["ours"],
        "the scalar hash, value by value", times["scalar"],
    )  # fmt: skip


def medium() -> Iterator[Comparison]:
    """Fits of 10^7 reports over 1,000 values, k=8, m=128, h=2."""
    with threadpool_limits(1):
        for configuration in ("typical", "loose", "over_x2", "over_x10"):
            sample = draw(CalibrationRun("medium", configuration, "exp", SEED))
            fit(sample, "cavity")
            took = seconds(partial(fit, sample, "cavity"))
            name = f"cavity fit, {configuration}, {len(sample.true_shares):,} candidates, k=8 m=128"
            yield Comparison("", name, "s", (took,))


def job(count: int, num_cohorts: int, family: HashFamily) -> Comparison:
    """`rappor decode` as a user runs it: from a file of strings to results.csv."""
    aggregate = counts_of(params_of(num_cohorts, family))
    with tempfile.TemporaryDirectory() as folder:
        counts, names = Path(folder, "counts.json"), Path(folder, "candidates.txt")
        counts.write_text(aggregate.to_json())
        names.write_text("\n".join(strings(count)))
        command = [sys.executable, "-m", "rappor_cli", "decode", "--aggregate", counts]
        used = child([*command, "--candidates", names, "-o", folder, "--json"])
    return Comparison(
        "", f"rappor decode of {count:,} candidates, k=128 m={num_cohorts}, {family}", "s",
        (used.processor,), note=f"{used.clock:.1f} s by the clock, {used.peak:.2f} GiB at most",
    )  # fmt: skip


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """The jobs first: a child starts with the peak memory of its parent."""
    sizes = chosen.candidates[:1] if chosen.small else chosen.candidates
    for num_cohorts, family in () if chosen.no_job else JOBS[: 1 if chosen.small else None]:
        yield job(max(sizes), num_cohorts, family)
    yield from hashing(5_000, chosen.repeats)
    for count in sizes:
        yield from lasso(count, chosen.repeats)
    if not chosen.small:
        yield from medium()


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--candidates", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-job", action="store_true", help="leave the whole job out")


if __name__ == "__main__":
    run(__doc__, measure, options)
