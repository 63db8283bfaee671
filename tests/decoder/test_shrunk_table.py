"""The table that is drawn towards the product of its margins: plain formulas, and attacks."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh, helmert
from scipy.optimize import minimize_scalar

from decoder.kinds.pair import joint_result, joint_view
from decoder.options import DecodeOptions
from decoder.pairs.decoding import Independence, decode_pairs, margins, shrunk_table
from decoder.tables.paging import TableQuery
from decoder.typing import Floats
from tests.pair_support import coupled_table, drawn_pairs, pair_metric

SHARES = np.array([[0.30, 0.10], [0.05, 0.25], [0.10, 0.20]])


def posterior_mean(estimate: Floats, covariance: Floats) -> tuple[Floats, float]:
    """The same with dense matrices and a search for tau, before the projection; and tau."""
    product = np.outer(*margins(estimate))
    free = np.kron(*(helmert(size).T for size in estimate.shape))
    prior = (free.T * product.ravel()) @ free
    noise, axes = eigh(free.T @ covariance @ free, prior)
    seen = axes.T @ free.T @ (estimate - product).ravel()

    def unlikeliness(log_tau: float) -> float:
        spread = noise + np.exp(log_tau)
        return float((np.log(spread) + seen**2 / spread).sum())

    tau = np.exp(minimize_scalar(unlikeliness, bounds=(-12, 6), method="bounded").x)
    departure = free @ (prior @ (axes @ (tau / (noise + tau) * seen)))
    return product + departure.reshape(estimate.shape), tau


@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (6, 4)])
def test_shrunk_tables_are_posterior_means(
    shape: tuple[int, int],
) -> None:
    """Its tau is of a grid: departures are kept to within .6 % of themselves."""
    rng = np.random.default_rng(sum(shape))
    truth = rng.dirichlet(np.full(shape[0] * shape[1], 4.0)).reshape(shape)
    mixed = rng.normal(size=(truth.size, truth.size))
    covariance = 2e-4 / truth.size * mixed @ mixed.T / truth.size
    seen = truth + rng.multivariate_normal(np.zeros(truth.size), covariance).reshape(shape)
    seen /= seen.sum()
    expected, tau = posterior_mean(seen, covariance)
    assert 1e-4 < tau < 10
    assert expected.min() > 0
    departure = np.abs(expected - np.outer(*margins(seen))).max()
    assert shrunk_table(seen, covariance) == pytest.approx(expected, abs=0.006 * departure)


def test_shrunk_tables_lie_between_product_and_estimate() -> None:
    product = np.outer(SHARES.sum(axis=1), SHARES.sum(axis=0))
    exact, nothing = (variance * np.eye(SHARES.size) for variance in (1e-12, 10.0))
    assert shrunk_table(SHARES, exact) == pytest.approx(SHARES, abs=1e-6)
    assert shrunk_table(SHARES, nothing) == pytest.approx(product)
    assert shrunk_table(product, exact) == pytest.approx(product)
    between = shrunk_table(SHARES, 0.25 * np.mean((SHARES - product) ** 2) * np.eye(SHARES.size))
    moved, whole = np.abs(between - product).sum(), np.abs(SHARES - product).sum()
    assert 0 < moved < whole


def test_one_row_tables_are_margins() -> None:
    line = np.array([[0.5, 0.3, 0.2]])
    for table in (line, line.T):
        assert shrunk_table(table, 1e-4 * np.eye(3)) == pytest.approx(table)


@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-6, 1e-3, 1e3])
def test_zero_margins_and_any_noise_give_tables(noise: float) -> None:
    """Noise from none to a thousand times all shares; rows and columns that nobody holds."""
    rng = np.random.default_rng(4)
    estimate = np.zeros((5, 4))
    estimate[:2, :2] = [[0.4, 0.1], [0.2, 0.3]]
    estimate += noise**0.5 * rng.normal(size=estimate.shape)
    found = shrunk_table(estimate, noise * np.eye(20))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    if noise < 1e-9:
        assert found == pytest.approx(estimate, abs=1e-4)


def test_pictures_show_shrunk_tables_unless_independence_is_rejected() -> None:
    """It showed the one without negative shares, which the warning alongside it calls noise."""
    metric, rng = pair_metric(4, 4, 0.3), np.random.default_rng(6)
    table = decode_pairs(drawn_pairs(metric, coupled_table(4, 4, 0.0), 5_000, rng))
    assert not table.independence.rejected
    assert "use the shrunk table" in table.warnings[0]
    told = replace(table, independence=Independence(99.0, 9, 1e-9, 0.05))
    for one, shown in ((table, table.shrunk), (told, told.fitted)):
        heat = joint_view(
            json.loads(json.dumps(joint_result(one, DecodeOptions()).content)), TableQuery()
        )["heat"]
        texts = [square["text"] for _, squares in heat["rows"] for square in squares]
        assert texts == [f"{100 * share:.0f}" for share in of_rows(shown)]


def of_rows(table: Floats) -> list[float]:
    whole = np.maximum(table.sum(axis=1, keepdims=True), 1e-12)
    return [float(share) for share in (table / whole).ravel()]
