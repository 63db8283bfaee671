"""The vectorized hash gives the scalar one's positions, bit for bit."""

import pytest

from decoder.candidates.lists import bit_positions
from rappor_core.hashing import bloom_positions
from tests.decoder.params_support import rappor

VALUES = [b"a", b"", "Müller".encode(), b"https://example.org/" + b"x" * 200, b"\x00\xff"]


@pytest.mark.parametrize("family", ["mmh3", "md5"])
@pytest.mark.parametrize(
    ("num_bits", "num_hashes", "num_cohorts"), [(128, 2, 16), (7, 3, 5), (256, 1, 1)]
)
def test_positions_agree_with_the_core(family, num_bits, num_hashes, num_cohorts):
    params = rappor(num_bits, num_hashes, num_cohorts, 0.5, 0.5, 0.75, hash=family)
    tensor = bit_positions(VALUES, params)
    assert tensor.shape == (len(VALUES), num_cohorts, num_hashes)
    for i, value in enumerate(VALUES):
        for cohort in range(num_cohorts):
            seen = {int(bit) for bit in tensor[i, cohort]} - {num_bits}
            assert seen == set(bloom_positions(value, cohort, params))
            assert (tensor[i, cohort] < num_bits).sum() == len(seen)
