"""Bloom positions of a whole list of candidates, in all cohorts at once.

The same numbers as `rappor_core.hashing.bloom_positions`, which says how they are made; here for a
million values: one 128-bit hash a value, then arithmetic over (candidate, cohort).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5
from typing import Any

import mmh3
import numpy as np

from decoder.numerics.bit_tensor import (
    Positions,
    compiled,
    mark_repeated,
    position_type,
    run_in_chunks,
)
from decoder.progress import Progress, silent
from rappor_core.hashing import MIX_1, MIX_2
from rappor_core.params import RapporParams

_SHIFT_30, _SHIFT_27, _SHIFT_31, _SHIFT_32 = (np.uint64(shift) for shift in (30, 27, 31, 32))
_LOW_HALF = np.uint64(0xFFFFFFFF)
_MIX_1, _MIX_2 = np.uint64(MIX_1), np.uint64(MIX_2)
_ONE = np.uint64(1)
_BLOCK = 1 << 16  # values hashed between two words on progress
STAGE = "hashing candidates"


def bit_positions(
    values: Sequence[bytes], params: RapporParams, progress: Progress = silent
) -> Positions:
    """Compute the index tensor (M, m, h) of normalized values; repeats within a cohort become k."""
    shape = (len(values), params.num_cohorts, params.num_hashes)
    positions = np.empty(shape, dtype=position_type(params.num_bits))
    fill = _fill_mmh3 if params.hash == "mmh3" else _fill_md5
    for start in range(0, len(values), _BLOCK):
        block = slice(start, start + _BLOCK)
        fill(values[block], params, positions[block])
        mark_repeated(positions[block], params.num_bits)
        progress(STAGE, min(start + _BLOCK, len(values)), len(values))
    return positions


def _fill_mmh3(values: Sequence[bytes], params: RapporParams, positions: Any) -> None:
    digests = b"".join(map(mmh3.mmh3_x64_128_digest, values))
    halves = np.frombuffer(digests, dtype="<u8").reshape(len(values), 2)
    run_in_chunks(_derive, len(values), halves, params.num_bits, positions)


def _fill_md5(values: Sequence[bytes], params: RapporParams, positions: Any) -> None:
    """`rappor_core.hashing.md5_positions`, cohort by cohort, a digest a value."""
    for cohort in range(params.num_cohorts):
        word = cohort.to_bytes(4, "big")
        digests = b"".join([md5(word + value, usedforsecurity=False).digest() for value in values])
        first = np.frombuffer(digests, dtype=np.uint8).reshape(len(values), -1)
        positions[:, cohort] = first[:, : params.num_hashes].astype(np.int16) % params.num_bits


@compiled
def _derive(low: int, high: int, halves: Any, num_bits: int, positions: Any) -> None:
    """`rappor_core.hashing.mmh3_positions` for candidates [low, high) and every cohort."""
    num_cohorts, num_hashes = positions.shape[1], positions.shape[2]
    words = (num_hashes + 1) // 2
    size = np.uint64(num_bits)
    for i in range(low, high):
        start, step = halves[i, 0], halves[i, 1] | _ONE
        for j in range(num_cohorts):
            for w in range(words):
                word = start + np.uint64(j * words + w + 1) * step
                word = (word ^ (word >> _SHIFT_30)) * _MIX_1
                word = (word ^ (word >> _SHIFT_27)) * _MIX_2
                word = word ^ (word >> _SHIFT_31)
                positions[i, j, 2 * w] = ((word >> _SHIFT_32) * size) >> _SHIFT_32
                if 2 * w + 1 < num_hashes:
                    positions[i, j, 2 * w + 1] = ((word & _LOW_HALF) * size) >> _SHIFT_32
