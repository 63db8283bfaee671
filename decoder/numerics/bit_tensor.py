"""The candidates' index tensor, and the sums over it that every estimator needs.

Instead of the 0/1 matrix X (m*k, M) we store the tensor of its set bits, `positions` (M, m, h), one
byte each up to k = 255: 32 MB instead of 400 MB for a million candidates. If two hashes of a
candidate set the same bit, the second entry is the sentinel k, which addresses a column of zeros.
Every sum has a fixed order, so that its bits do not depend on the number of threads."""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from decoder.typing import Floats

Positions: TypeAlias = NDArray[np.integer[Any]]
Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_CHUNKS_PER_THREAD = 4
_WORTH_A_THREAD = 1 << 18  # with fewer look-ups, starting threads would take longer than the sums
_TILE = 8  # rows of a matrix of any size that fit in the cache together
_PAIRS_A_LOOK_UP = 16  # cached pairs of set bits that cost as much as one look-up


def compiled(kernel: Kernel) -> Kernel:
    """Compile a kernel at its first call; it releases the interpreter's lock."""
    try:
        return cast(Kernel, njit(nogil=True, cache=True)(kernel))
    except RuntimeError:  # read-only installation without a home: compile in each process
        return cast(Kernel, njit(nogil=True)(kernel))


def run_in_chunks(
    kernel: Callable[..., None], total: int, *arguments: Any, work: float = math.inf
) -> None:
    """Call `kernel(low, high, *arguments)`, which writes one range, on ranges of [0, total).

    All cores are used if the number of look-ups (`work`) is worth it."""
    if work < _WORTH_A_THREAD:
        kernel(0, total, *arguments)
        return
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
    """Return the smallest unsigned type for 0..k, so that no index counts from the end."""
    return np.min_scalar_type(num_bits)


def mark_repeated(positions: Positions, num_bits: int) -> Positions:
    """Replace positions (M, m, h) that repeat an earlier hash with the sentinel k, in place."""
    num_hashes = positions.shape[2]
    for later in range(1, num_hashes):
        repeated = positions[:, :, :later] == positions[:, :, later : later + 1]
        positions[:, :, later][repeated.any(axis=2)] = num_bits
    return positions


def gather_sums(positions: Positions, values: Floats) -> Floats:
    """Return X' v: for each candidate the sum of `values` v (m, k) over its set bits, (M,)."""
    num_cohorts, num_bits = values.shape
    padded = np.zeros((num_cohorts, num_bits + 1))
    padded[:, :num_bits] = values
    sums = np.empty(len(positions))
    run_in_chunks(_gather, len(positions), positions, padded, sums, work=positions.size)
    return sums


def dense_columns(positions: Positions, num_bits: int) -> Floats:
    """Return the columns of X for a few candidates as a dense matrix, (m*k, A)."""
    num_candidates, num_cohorts, _ = positions.shape
    padded = np.zeros((num_cohorts, num_bits + 1, num_candidates))
    cohort = np.arange(num_cohorts)[None, :, None]
    padded[cohort, positions, np.arange(num_candidates)[:, None, None]] = 1.0
    return padded[:, :num_bits, :].reshape(num_cohorts * num_bits, num_candidates)


def scatter_sums(positions: Positions, weights: Floats, num_bits: int) -> Floats:
    """Return X w: for each bit the sum of the `weights` (M,) of candidates that set it, (m, k)."""
    padded = np.zeros((positions.shape[1], num_bits + 1))
    _scatter(positions, weights, padded)
    return padded[:, :num_bits]


def pair_sums(positions: Positions, weights: Floats, num_bits: int) -> Floats:
    """Return the product X diag(w) X', (m*k, m*k), symmetric."""
    num_cohorts, num_hashes = positions.shape[1:]
    rows, width = _rows(positions, num_bits)
    padded = np.zeros((num_cohorts * width, num_cohorts * width))
    work = rows.size * rows.shape[1] // (2 * _PAIRS_A_LOOK_UP)
    run_in_chunks(_pair_scatter, num_cohorts, rows, num_hashes, weights, padded, work=work)
    blocks = padded.reshape(num_cohorts, width, num_cohorts, width)[:, :num_bits, :, :num_bits]
    sums = blocks.reshape(num_cohorts * num_bits, num_cohorts * num_bits)
    mirror(sums)
    return sums


def block_pair_sums(positions: Positions, weights: Floats, num_bits: int) -> Floats:
    """Return the diagonal blocks of X diag(w) X', one for each cohort: (m, k, k)."""
    padded = np.zeros((positions.shape[1], num_bits + 1, num_bits + 1))
    _block_scatter(positions, weights, padded)
    return padded[:, :num_bits, :num_bits]


def quadratic_sums(positions: Positions, matrix: Floats, num_bits: int) -> Floats:
    """Return x_i' W x_i for each candidate, (M,); `matrix` W (m*k, m*k) is symmetric."""
    num_cohorts = positions.shape[1]
    rows, width = _rows(positions, num_bits)
    if width > num_bits:
        padded = np.zeros((num_cohorts, width, num_cohorts, width))
        padded[:, :num_bits, :, :num_bits] = matrix.reshape(num_cohorts, num_bits, num_cohorts, -1)
        matrix = padded.reshape(num_cohorts * width, num_cohorts * width)
    sums = np.empty(len(positions))
    work = rows.size * rows.shape[1] // (2 * _PAIRS_A_LOOK_UP)
    run_in_chunks(_quadratic, len(positions), rows, matrix, sums, work=work)
    return sums


def _rows(positions: Positions, num_bits: int) -> tuple[Positions, int]:
    """Return each set bit's row in a matrix of all bits, (M, m*h), and the rows per cohort.

    With one hash no bit repeats, so there is no row for the sentinel."""
    num_cohorts, num_hashes = positions.shape[1:]
    width = num_bits + (num_hashes > 1)
    first = np.arange(num_cohorts, dtype=np.uint32) * np.uint32(width)
    return (positions + first[:, None]).reshape(len(positions), num_cohorts * num_hashes), width


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
def _pair_scatter(low: int, high: int, rows: Any, hashes: int, weights: Any, padded: Any) -> None:
    for j in range(low, high):
        for i in range(rows.shape[0]):
            bits, weight = rows[i], weights[i]
            for g in range(j * hashes, (j + 1) * hashes):
                row = padded[bits[g]]
                for l in range((j + 1) * hashes):  # noqa: E741
                    row[bits[l]] += weight


@compiled
def mirror(matrix: Any) -> None:
    """Mirror the lower triangle of a square matrix to the upper triangle, in cached tiles."""
    for top in range(0, matrix.shape[0], _TILE):
        for left in range(0, top + 1, _TILE):
            for a in range(top, min(top + _TILE, matrix.shape[0])):
                for b in range(left, min(left + _TILE, a)):
                    matrix[b, a] = matrix[a, b]


@compiled
def _quadratic(low: int, high: int, rows: Any, matrix: Any, sums: Any) -> None:
    """Sum twice the pairs below the diagonal, plus the diagonal, in four independent sums."""
    for i in range(low, high):
        bits, total = rows[i], 0.0
        for j in range(rows.shape[1]):
            row, l = matrix[bits[j]], 0  # noqa: E741
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            while l + 4 <= j:
                a += row[bits[l]]
                b += row[bits[l + 1]]
                c += row[bits[l + 2]]
                d += row[bits[l + 3]]
                l += 4  # noqa: E741
            while l < j:
                a += row[bits[l]]
                l += 1  # noqa: E741
            total += 2.0 * (a + b + (c + d)) + row[bits[j]]
        sums[i] = total


def one_thread() -> Any:
    """Return a context in which BLAS and OpenMP use one thread; it may be nested."""
    return _libraries().limit(limits=1)


@cache
def _libraries() -> ThreadpoolController:
    """Return the loaded libraries; cached, because the search takes longer than a small fit."""
    return ThreadpoolController()
