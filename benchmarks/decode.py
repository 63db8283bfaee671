"""Speed of decoding, as ratios against named alternatives in the same run.

1. The whole job: `rappor decode` of a million strings in a process of its own, with its peak memory
   (first: while this process is small, since a child starts with the peak of its parent).
2. Hashing a list: the vectorised hash against the scalar one.
3. The LASSO over the index tensor against scikit-learn's `Lasso(positive=True)` on the explicit
   sparse matrix at the same penalty, building included on both sides; objectives compared, and by
   how much of the penalty each is off its optimality conditions.
4. The cavity fit of the medium settings of the calibration table.

Times are of the clock and of the processors (all threads); on a busy machine read the latter.

usage: python benchmarks/decode.py [--candidates 100000 1000000] [--repeats 3] [--no-job]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import Lasso
from threadpoolctl import threadpool_limits

from decoder.candidates.bloom_positions import bit_positions
from decoder.estimation.estimate import Observed
from decoder.estimation.lasso_path import fit_lasso, noise_penalty
from decoder.model.design_matrix import design_matrix
from decoder.model.noise import RandomString
from decoder.numerics.bit_tensor import gather_sums, scatter_sums
from decoder.pipeline import observe
from rappor_core.aggregate import Aggregate
from rappor_core.hashing import bloom_positions
from rappor_core.params import HashFamily, RapporParams
from simulations.experiments.calibration import Cell, draw, fit
from simulations.populations.draws import draw_aggregate
from simulations.populations.populations import exponential_shares

VALUES, REPORTS, SEED = 100, 10_000_000, 1
JOBS: tuple[tuple[int, HashFamily], ...] = ((16, "mmh3"), (64, "mmh3"), (16, "md5"))


class Took(NamedTuple):
    """Seconds of the clock and of the processors."""

    clock: float
    processor: float


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


def seconds(action: Callable[[], Any], repeats: int) -> tuple[list[Took], Any]:
    """Times of `repeats` runs after one that is not counted, and the last result."""
    result, times = action(), []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        result = action()
        times.append(Took(time.perf_counter() - start, time.process_time() - used))
    return times, result


def show(name: str, times: list[Took], base: list[Took] | None = None) -> None:
    """Medians and the spread of the clock; how many times `base` took longer, by either."""
    clock, processor = middle = Took(*map(statistics.median, zip(*times, strict=True)))
    spread = f"({min(times).clock:.3f} to {max(times).clock:.3f})"
    line = f"  {name:<44}{clock:9.3f} s  {spread}, processor {processor:.3f} s"
    if base is not None:
        both = zip(map(statistics.median, zip(*base, strict=True)), middle, strict=True)
        line += "  {:.1f} x, processor {:.1f} x".format(*(slow / fast for slow, fast in both))
    print(line, flush=True)


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


def lasso(count: int, repeats: int) -> None:
    """Ours and scikit-learn's, from the index tensor to the solution, at the same penalty."""
    print(f"LASSO, {count:,} candidates, k=128, m=16, h=2 (from the index tensor)")
    tensor = bit_positions([text.encode() for text in strings(count)], PARAMS)
    observed = observe(counts_of(PARAMS), tensor, 1.0)
    weights = 1 / np.einsum("jbb->jb", observed.noise_of(np.zeros(count)))
    penalty = noise_penalty(weights, observed.noise.random, count, 0.05)
    problem = Problem(observed, weights, penalty)
    with threadpool_limits(1):
        slow, reference = seconds(problem.scikit_learn, repeats)
        fast, found = seconds(problem.ours, repeats)
    show("scikit-learn, sparse matrix, positive=True", slow)
    show("index tensor, columns of the largest scores", fast, slow)
    (mine, over), (its, its_over) = problem.judged(found), problem.judged(reference)
    print(f"  objective: {mine:.9g} against {its:.9g}, relative {(mine - its) / its:+.1e}")
    print(f"  a score over the penalty: {over:.1e} of it against {its_over:.1e}")


def hashing(count: int, repeats: int) -> None:
    """Index tensors a second, vectorised and one value at a time."""
    print(f"hashing, {count:,} candidates, 16 cohorts, mmh3")
    values = [text.encode() for text in strings(count)]

    def scalar() -> None:
        for value in values:
            for cohort in range(PARAMS.num_cohorts):
                bloom_positions(value, cohort, PARAMS)

    slow, _ = seconds(scalar, repeats)
    fast, _ = seconds(lambda: bit_positions(values, PARAMS), repeats)
    show("scalar, value by value", slow)
    show("vectorised", fast, slow)


def medium() -> None:
    """Fits of 10^7 reports over 1,000 values, k=8, m=128, h=2."""
    print("cavity, medium settings (exponential shares)")
    with threadpool_limits(1):
        for configuration in ("typical", "loose", "over_x2", "over_x10"):
            sample = draw(Cell("medium", configuration, "exp", SEED))
            times, _ = seconds(partial(fit, sample, "cavity"), 1)
            show(f"{configuration}, {len(sample.true_shares):,} candidates", times)


def job(count: int, num_cohorts: int, family: HashFamily) -> None:
    """`rappor decode` as a user runs it: from a file of strings to results.csv."""
    aggregate = counts_of(params_of(num_cohorts, family))
    with tempfile.TemporaryDirectory() as folder:
        counts, names = Path(folder, "counts.json"), Path(folder, "candidates.txt")
        counts.write_text(aggregate.to_json())
        names.write_text("\n".join(strings(count)))
        command = [sys.executable, "-m", "rappor_cli", "decode", "--aggregate", str(counts)]
        options = ["--candidates", str(names), "-o", folder, "--json"]
        start = time.perf_counter()
        process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        took, peak = time.perf_counter() - start, usage.ru_maxrss / 1024**2
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the job failed: {process.returncode}")
    processor = usage.ru_utime + usage.ru_stime
    print(
        f"whole job, {count:,} candidates, m={num_cohorts}, {family}: {took:.1f} s, "
        f"processor {processor:.1f} s, peak memory {peak:.2f} GiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--candidates", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-job", action="store_true", help="leave the whole job out")
    options = parser.parse_args()
    for num_cohorts, family in () if options.no_job else JOBS:
        job(max(options.candidates), num_cohorts, family)
    hashing(5_000, options.repeats)
    for count in options.candidates:
        lasso(count, options.repeats)
    medium()


if __name__ == "__main__":
    main()
