"""The index tensor of the candidates, and the sums over it that every estimator needs.

A candidate sets at most h of the k bits in each of m cohorts. Instead of the 0/1 matrix X
(m*k, M) we hold the tensor of its set bits, `positions` (M, m, h), a byte each up
to k = 255: at a million candidates 32 MB instead of 400. Where two hashes of a candidate fall on
the same bit, the second entry is the sentinel k, which addresses a column of zeros, so that each
bit counts once.

Every sum is over one candidate at a time, or over fixed ranges, in a fixed order: the result is
the same to the last bit whatever the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Positions: TypeAlias = NDArray[np.integer[Any]]
Floats: TypeAlias = NDArray[np.float64]
Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_CHUNKS_PER_THREAD = 4
_WORTH_A_THREAD = 1 << 18  # look-ups: below, starting threads takes longer than the sums


def compiled(kernel: Kernel) -> Kernel:
    """Compile a kernel at its first call; it releases the interpreter's lock.

    The machine code is kept on disk where there is a folder for it that can be written.
    """
    try:
        return cast(Kernel, njit(nogil=True, cache=True)(kernel))
    except RuntimeError:  # a read-only installation, and no home: compiled by each process
        return cast(Kernel, njit(nogil=True)(kernel))


def run_in_chunks(kernel: Callable[..., None], total: int, *arguments: Any) -> None:
    """Call `kernel(low, high, *arguments)` over [0, total) on all cores.

    The kernel writes its own range only, so the split does not change the result.
    """
    threads = os.cpu_count() or 1
    edges = np.linspace(0, total, threads * _CHUNKS_PER_THREAD + 1).astype(int)
    with ThreadPoolExecutor(threads) as pool:
        jobs = [
            pool.submit(kernel, low, high, *arguments)
            for low, high in pairwise(edges)
            if low < high
        ]
        for job in jobs:
            job.result()


def position_type(num_bits: int) -> np.dtype[Any]:
    """The smallest integer type that holds 0..k, the sentinel included; unsigned, so that compiled
    sums need not look for indices that count from the end.
    """
    return np.min_scalar_type(num_bits)


def mark_repeated(positions: Positions, num_bits: int) -> Positions:
    """Replace, in place, a position that repeats an earlier hash of its cohort by the sentinel k.

    positions: (M, m, h). Returns the same array.
    """
    num_hashes = positions.shape[2]
    for later in range(1, num_hashes):
        repeated = positions[:, :, :later] == positions[:, :, later : later + 1]
        positions[:, :, later][repeated.any(axis=2)] = num_bits
    return positions


def gather_sums(positions: Positions, values: Floats) -> Floats:
    """X' v: for each candidate the sum of `values` (m, k) over its set bits. Returns (M,)."""
    padded = np.pad(values, ((0, 0), (0, 1)))
    sums = np.empty(len(positions))
    if positions.size < _WORTH_A_THREAD:
        _gather(0, len(positions), positions, padded, sums)
    else:
        run_in_chunks(_gather, len(positions), positions, padded, sums)
    return sums


def dense_columns(positions: Positions, num_bits: int) -> Floats:
    """X of a few candidates as a dense matrix, (m*k, A)."""
    num_candidates, num_cohorts, _ = positions.shape
    padded = np.zeros((num_cohorts, num_bits + 1, num_candidates))
    cohort = np.arange(num_cohorts)[None, :, None]
    padded[cohort, positions, np.arange(num_candidates)[:, None, None]] = 1.0
    return padded[:, :num_bits, :].reshape(num_cohorts * num_bits, num_candidates)


def scatter_sums(positions: Positions, weights: Floats, num_bits: int) -> Floats:
    """X w: for each bit the sum of the `weights` (M,) of the candidates that set it. (m, k)."""
    padded = np.zeros((positions.shape[1], num_bits + 1))
    _scatter(positions, weights, padded)
    return padded[:, :num_bits]


def pair_sums(positions: Positions, weights: Floats, num_bits: int) -> Floats:
    """X diag(w) X': (m*k, m*k), symmetric."""
    num_cohorts, width = positions.shape[1], num_bits + 1
    padded = np.zeros((num_cohorts * width, num_cohorts * width))
    run_in_chunks(_pair_scatter, num_cohorts, positions, weights, width, padded)
    lower = _strip(padded, num_cohorts, num_bits)
    return np.tril(lower) + np.tril(lower, -1).T


def block_pair_sums(positions: Positions, weights: Floats, num_bits: int) -> Floats:
    """The diagonal blocks of X diag(w) X', one for each cohort: (m, k, k)."""
    padded = np.zeros((positions.shape[1], num_bits + 1, num_bits + 1))
    _block_scatter(positions, weights, padded)
    return padded[:, :num_bits, :num_bits]


def quadratic_sums(positions: Positions, matrix: Floats, num_bits: int) -> Floats:
    """x_i' W x_i for each candidate; `matrix` W (m*k, m*k) symmetric. Returns (M,)."""
    num_cohorts, width = positions.shape[1], num_bits + 1
    padded = np.zeros((num_cohorts, width, num_cohorts, width))
    padded[:, :num_bits, :, :num_bits] = matrix.reshape(num_cohorts, num_bits, num_cohorts, -1)
    sums = np.empty(len(positions))
    flat = padded.reshape(num_cohorts * width, num_cohorts * width)
    run_in_chunks(_quadratic, len(positions), positions, flat, width, sums)
    return sums


def _strip(padded: Floats, num_cohorts: int, num_bits: int) -> Floats:
    """Drop the sentinel's rows and columns of a padded (m*(k+1), m*(k+1)) matrix."""
    width = num_bits + 1
    blocks = padded.reshape(num_cohorts, width, num_cohorts, width)[:, :num_bits, :, :num_bits]
    return blocks.reshape(num_cohorts * num_bits, num_cohorts * num_bits)


@compiled
def _gather(low: int, high: int, positions: Any, padded: Any, sums: Any) -> None:
    for i in range(low, high):
        total = 0.0
        for j in range(positions.shape[1]):
            for g in range(positions.shape[2]):
                total += padded[j, positions[i, j, g]]
        sums[i] = total


@compiled
def _scatter(positions: Any, weights: Any, padded: Any) -> None:
    for i in range(positions.shape[0]):
        if weights[i] != 0.0:
            for j in range(positions.shape[1]):
                for g in range(positions.shape[2]):
                    padded[j, positions[i, j, g]] += weights[i]


@compiled
def _block_scatter(positions: Any, weights: Any, padded: Any) -> None:
    for i in range(positions.shape[0]):
        if weights[i] != 0.0:
            for j in range(positions.shape[1]):
                for g in range(positions.shape[2]):
                    for e in range(positions.shape[2]):
                        padded[j, positions[i, j, g], positions[i, j, e]] += weights[i]


@compiled
def _pair_scatter(
    low: int, high: int, positions: Any, weights: Any, width: int, padded: Any
) -> None:
    """Rows of the cohorts [low, high), columns of the cohorts up to the row's own."""
    for j in range(low, high):
        for i in range(positions.shape[0]):
            for g in range(positions.shape[2]):
                row = padded[j * width + positions[i, j, g]]
                for l in range(j + 1):  # noqa: E741
                    for e in range(positions.shape[2]):
                        row[l * width + positions[i, l, e]] += weights[i]


@compiled
def _quadratic(low: int, high: int, positions: Any, matrix: Any, width: int, sums: Any) -> None:
    """Twice the cohort pairs below the diagonal, plus the diagonal blocks."""
    for i in range(low, high):
        total = 0.0
        for j in range(positions.shape[1]):
            for g in range(positions.shape[2]):
                row = matrix[j * width + positions[i, j, g]]
                below, own = 0.0, 0.0
                for l in range(j):  # noqa: E741
                    for e in range(positions.shape[2]):
                        below += row[l * width + positions[i, l, e]]
                for e in range(positions.shape[2]):
                    own += row[j * width + positions[i, j, e]]
                total += 2.0 * below + own
        sums[i] = total
