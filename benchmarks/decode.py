"""Speed of decoding, as ratios against named alternatives in the same run.

1. The LASSO over the index tensor against scikit-learn's `Lasso(positive=True)` on the explicit
   sparse matrix at the same penalty, building included on both sides; objectives compared.
2. Hashing a list: the vectorised hash against the scalar one.
3. The whole job: `rappor decode` of a million strings in a process of its own, with peak memory.

usage: python benchmarks/decode.py [--candidates 100000 1000000] [--repeats 3] [--no-job]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import Lasso
from threadpoolctl import threadpool_limits

from decoder.bit_tensor import scatter_sums
from decoder.design_matrix import design_matrix
from decoder.estimators import Observed
from decoder.hashing import bit_positions
from decoder.noise import RandomString
from decoder.pipeline import observe
from decoder.selection import fit_lasso, noise_penalty
from rappor_core.hashing import bloom_positions
from rappor_core.params import RapporParams
from simulations.draws import draw_aggregate
from simulations.populations import exponential_shares

VALUES, REPORTS, SEED = 100, 10_000_000, 1
SHARES = exponential_shares(VALUES, 0.05)
PARAMS = RapporParams.rappor(
    num_bits=128, num_hashes=2, num_cohorts=16, prob_f=0.5, prob_p=0.5, prob_q=0.75
)


def strings(count: int) -> list[str]:
    """Candidates: the first `VALUES` are held."""
    return [f"https://example.org/page/{i}" for i in range(count)]


def seconds(action: Callable[[], Any], repeats: int) -> tuple[list[float], Any]:
    """Times of `repeats` runs after one that is not counted, and the last result."""
    result, times = action(), []
    for _ in range(repeats):
        start = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - start)
    return times, result


def show(name: str, times: list[float], base: list[float] | None = None) -> None:
    middle = statistics.median(times)
    ratio = "" if base is None else f"  {statistics.median(base) / middle:7.1f} x"
    print(f"  {name:<46}{middle:9.3f} s  ({min(times):.3f} to {max(times):.3f}){ratio}", flush=True)


class Uncentred(RandomString):
    """Columns X instead of X - a: the form that other libraries solve on a sparse matrix."""

    @property
    def mean(self) -> float:
        return 0.0


def lasso(count: int, repeats: int) -> None:
    """Ours and scikit-learn's, from the index tensor to the solution, at the same penalty."""
    print(f"LASSO, {count:,} candidates, k=128, m=16, h=2 (from the index tensor)")
    observed = observed_of(count)
    random = Uncentred(PARAMS.num_bits, PARAMS.num_hashes)
    weights = 1 / np.einsum("jbb->jb", observed.noise_of(np.zeros(count)))
    penalty = noise_penalty(weights, observed.noise.random, count, 0.05)

    def ours() -> np.ndarray:
        fit = fit_lasso(observed.bit_shares, observed.positions, weights, random, penalty)
        shares = np.zeros(count)
        shares[fit.selected] = fit.shares
        return shares

    with threadpool_limits(1):
        slow, reference = seconds(lambda: scikit_learn(observed, weights, penalty), repeats)
        fast, found = seconds(ours, repeats)
    show("scikit-learn, sparse matrix, positive=True", slow)
    show("index tensor, working set", fast, slow)
    mine, its = (objective(observed, weights, penalty, b) for b in (found, reference))
    print(f"  objective: {mine:.9g} against {its:.9g}, relative {(mine - its) / its:+.1e}")


def observed_of(count: int) -> Observed:
    """A population of `VALUES` values, with `count` candidates."""
    aggregate, _ = draw_aggregate(
        strings(VALUES),
        exponential_shares(VALUES, 0.05),
        REPORTS,
        PARAMS,
        np.random.default_rng(SEED),
    )
    tensor = bit_positions([text.encode() for text in strings(count)], PARAMS)
    return observe(aggregate, tensor, 1.0)


def scikit_learn(observed: Observed, weights: np.ndarray, penalty: float) -> np.ndarray:
    """The explicit matrix, rows scaled by sqrt(w), solved as tightly as ours."""
    X = design_matrix(observed.positions, PARAMS.num_bits)
    root = np.sqrt(weights).ravel()
    X.data *= root[X.indices]
    model = Lasso(
        alpha=penalty / len(root), positive=True, fit_intercept=False, tol=1e-8, max_iter=10_000
    )
    model.fit(X, root * observed.bit_shares.ravel())
    return np.asarray(model.coef_)


def objective(observed: Observed, weights: np.ndarray, penalty: float, shares: np.ndarray) -> float:
    """1/2 sum w (y - X b)^2 + penalty sum b."""
    fitted = scatter_sums(observed.positions, shares, PARAMS.num_bits)
    residual = observed.bit_shares - fitted
    return float(0.5 * (weights * residual**2).sum() + penalty * shares.sum())


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


def job(count: int) -> None:
    """`rappor decode` as a user runs it: from a file of strings to results.csv."""
    aggregate, _ = draw_aggregate(
        strings(VALUES),
        exponential_shares(VALUES, 0.05),
        REPORTS,
        PARAMS,
        np.random.default_rng(SEED),
    )
    with tempfile.TemporaryDirectory() as folder:
        counts, names = Path(folder, "counts.json"), Path(folder, "candidates.txt")
        counts.write_text(aggregate.to_json())
        names.write_text("\n".join(strings(count)))
        start = time.perf_counter()
        command = [sys.executable, "-m", "rappor_cli", "decode", "--aggregate", str(counts)]
        options = ["--candidates", str(names), "-o", folder, "--json"]
        subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
        took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024**2
    print(f"whole job, {count:,} candidates: {took:.1f} s, peak memory {peak:.2f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--candidates", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-job", action="store_true", help="leave the whole job out")
    options = parser.parse_args()
    hashing(5_000, options.repeats)
    for count in options.candidates:
        lasso(count, options.repeats)
    if not options.no_job:
        job(max(options.candidates))


if __name__ == "__main__":
    main()
