"""Populations: real text, absent words, shares and drawn bits."""

import numpy as np
import pytest

from rappor_core.params import RapporParams
from simulations.populations import fleet as populations
from simulations.populations.draws import draw_aggregate


def test_the_text_is_real_and_heavy_tailed() -> None:
    words = populations.topic_words()
    (first, count), *_ = words.most_common(1)
    assert first == "the"
    assert len(words) > 1_000
    assert count > 0.03 * words.total()


@pytest.mark.parametrize("words", [list(populations.topic_words()), ["a"], list("0123456789")])
def test_absent_words_are_many_and_truly_absent(words: list[str]) -> None:
    absent = populations.absent_words(words, np.random.default_rng(1))
    assert len(absent) == len(set(absent)) == len(words)
    assert not set(absent) & set(words)


def test_shares_have_the_stated_shape() -> None:
    normal = populations.normal_shares(50, 10, 100)
    numbers = np.arange(101)
    assert normal.sum() == pytest.approx(1)
    assert normal @ numbers == pytest.approx(50)
    assert normal @ (numbers - 50) ** 2 == pytest.approx(100, rel=1e-3)
    exponential = populations.exponential_shares(100, 0.05)
    assert exponential.sum() == pytest.approx(1)
    assert exponential[1] / exponential[0] == pytest.approx(np.exp(-0.05))


def test_drawn_bits_that_nobody_sets_are_noise() -> None:
    """And bits that somebody sets are within six standard deviations of what they should be."""
    number, shape = 40_000, {"num_bits": 64, "num_hashes": 2, "num_cohorts": 1}
    params = RapporParams.rappor(**shape, prob_f=0.5, prob_p=0.25, prob_q=0.75)
    rng = np.random.default_rng(2)
    aggregate, _ = draw_aggregate(["one"], np.array([1.0]), number, params, rng)
    for count in aggregate.bit_counts[0]:
        chances = (params.p_star, params.q_star)
        assert any(abs(count - number * c) < 6 * (number * c * (1 - c)) ** 0.5 for c in chances)
    assert sum(count < number / 2 for count in aggregate.bit_counts[0]) >= 62
