"""Joint tables at the ends of what is asked: a right answer, or one sentence with the remedy."""

import numpy as np
import pytest
from scipy.optimize import nnls

from decoder.options import DecodeOptions
from decoder.pairs.decoding import decode_pairs, fit_pair, nearest_table, pair_counts
from tests.pair_support import coupled_table, drawn_pairs, pair_metric


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 3.0])
def test_nearest_tables_are_nearest_at_any_noise(epsilon: float) -> None:
    """No change of sum 0 that keeps shares above 0 lowers the distance: its gradient is even."""
    metric = pair_metric(10, 10, epsilon)
    drawn = drawn_pairs(metric, coupled_table(10, 10, 0.5), 20_000, np.random.default_rng(1))
    fit = fit_pair(pair_counts(drawn, metric.details, DecodeOptions()))
    estimate = fit.estimate.reshape(10, 10)
    found = nearest_table(estimate, fit.curvature)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    root = np.linalg.cholesky(fit.curvature).T
    heavy = np.full((1, estimate.size), 1e4 * np.abs(root).max())  # the sum is 1
    exact, _ = nnls(np.vstack([root, heavy]), np.append(root @ estimate.ravel(), heavy[0, 0]))
    np.testing.assert_allclose(found.ravel(), exact / exact.sum(), atol=1e-6)
    gradient = (fit.curvature @ (found - estimate).ravel()).reshape(found.shape)
    held = found > 1e-6
    scale = np.abs(gradient - gradient[held].mean()).max()
    assert np.ptp(gradient[held]) < 1e-3 * scale
    assert gradient.min() > gradient[held].mean() - 1e-3 * scale


def test_the_nearest_table_to_one_value_is_whole() -> None:
    assert nearest_table(np.array([[1.2]]), np.array([[3.0]])) == pytest.approx(1)


def test_one_report_of_a_device_that_is_alone() -> None:
    """Its interval is everything, and nothing is said to go together."""
    shares = np.array([[0.6, 0.1], [0.1, 0.2]])
    table = decode_pairs(drawn_pairs(pair_metric(2, 2, 2.0), shares, 1, np.random.default_rng(4)))
    assert (table.cells.high - table.cells.low).min() > 0.5
    assert not table.independence.rejected
