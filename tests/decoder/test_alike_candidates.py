"""Lists whose bits are far too alike for random hashing are noticed; honest lists are not."""

import numpy as np
import pytest

from decoder import Candidates, decode
from decoder.inference.diagnostics import MAX_COMPARED, alike_candidates
from decoder.model.counts import same_positions
from decoder.model.noise import RandomString
from simulations.populations.draws import draw_aggregate
from tests.decoder.params_support import rappor

SHAPES = [(8, 2, 1), (16, 2, 16), (256, 2, 1), (32, 2, 8), (32, 1, 4), (2, 1, 8), (8, 2, 128)]


def distinct(positions: np.ndarray, num_bits: int) -> np.ndarray:
    group = same_positions(positions, num_bits)
    return positions[group == np.arange(len(group))]


@pytest.mark.parametrize("shape", SHAPES)
def test_lists_that_are_hashed_are_not_alike(shape: tuple[int, int, int]) -> None:
    """Four short lists of each shape and a long one; the limit is six standard errors above 1.2."""
    k, h, m = shape
    rng = np.random.default_rng(k)
    for size in (2, 10, 100, MAX_COMPARED + 50):
        for _ in range(4 if size <= 100 else 1):
            positions = distinct(rng.integers(0, k, (size, m, h)), k)
            assert alike_candidates(positions, RandomString(k, h)) is None


@pytest.mark.parametrize("how", ["families", "few bits", "every cohort"])
def test_a_map_that_is_not_hashed_is_noticed(how: str) -> None:
    """Ways in which .11 to .41 of what fdr found was wrong (docs/evaluation/lists.md)."""
    rng, k, m = np.random.default_rng(2), 32, 16
    positions = rng.integers(0, k, (240, m, 2))
    taken = rng.random(positions.shape) < 0.6
    if how == "families":
        positions = np.where(taken, rng.integers(0, k, (40, m, 2)).repeat(6, axis=0), positions)
    elif how == "few bits":
        positions = np.where(taken, positions % 3, positions)
    else:
        positions = np.where(taken[:, :, :1], positions[:, :1], positions)
    found = alike_candidates(positions, RandomString(k, 2))
    assert found is not None
    assert found.ratio > 2
    assert found.first < found.second
    pair = [{(c, b) for c in range(m) for b in positions[i, c]} for i in found[1:3]]
    assert len(pair[0] & pair[1]) == found.shared > 2 * found.expected


def test_positions_beyond_the_bits_are_no_bits() -> None:
    positions = np.full((20, 4, 2), 8)
    positions[:, :, 0] = np.random.default_rng(3).integers(0, 8, (20, 4))
    found = alike_candidates(positions, RandomString(8, 1))
    assert found is None


def test_a_decoding_with_a_foreign_map_says_so() -> None:
    params = rappor(32, 2, 16, 0.0, 0.225, 0.775)
    values = [f"value-{i}" for i in range(60)]
    rng = np.random.default_rng(4)
    aggregate, _ = draw_aggregate(values, np.r_[0.6, np.full(59, 0.4 / 59)], 50_000, params, rng)
    hashed = Candidates.from_strings(values)
    assert not any("random hashing" in one for one in decode(aggregate, hashed).warnings)
    tensor = rng.integers(0, 5, (60, 16, 2)).astype(np.int16)
    foreign = Candidates(hashed.values, tensor=tensor)
    (said,) = (one for one in decode(aggregate, foreign).warnings if "random hashing" in one)
    assert "value-" in said
    assert "of two strings 1.94 are expected" in said
