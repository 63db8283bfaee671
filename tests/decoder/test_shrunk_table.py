"""The table that is drawn towards the product of its margins: plain formulas, and attacks."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from decoder.association.associations import decode_association
from decoder.association.pairs import decode_pairs
from decoder.association.table import Independence, margins, shrunk_table
from decoder.errors import ImproperError
from decoder.numerics.simplex import contrasts
from decoder.output.joint_files import joint_content
from decoder.output.joint_html import heat_map, render_joint
from decoder.output.joint_view import joint_view
from decoder.output.tables import TableQuery
from decoder.typing import Floats
from simulations.populations.pairs import coupled_table, drawn_pairs, pair_metric
from tests.linked_draws import drawn_reports, one_hot_side

SHARES = np.array([[0.30, 0.10], [0.05, 0.25], [0.10, 0.20]])


def posterior_mean(estimate: Floats, covariance: Floats) -> tuple[Floats, float]:
    """The same with dense matrices and a search for tau, before the projection; and tau."""
    product = np.outer(*margins(estimate))
    free = np.kron(*(contrasts(size) for size in estimate.shape))
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


def test_shrunk_tables_are_nearer_than_one_factor() -> None:
    """Over 300 tables with a known tau: within 3 % of the posterior mean that knows tau."""
    rng = np.random.default_rng(3)
    product, tau, noise = np.full((8, 8), 1 / 64), 0.004, np.full((8, 8), 5e-5)
    known = tau / 64 / (tau / 64 + 5e-5)
    errors = []
    for _ in range(300):
        departure = rng.normal(0, (tau / 64) ** 0.5, (8, 8))
        departure -= departure.mean(axis=0) + departure.mean(axis=1)[:, None] - departure.mean()
        seen = product + departure + rng.normal(0, noise**0.5)
        seen += (1 - seen.sum()) / 64
        flat = np.outer(*margins(seen))
        tables = (
            shrunk_table(seen, np.diag(noise.ravel())),
            flat + known * (seen - flat),
            seen,
            flat,
        )
        errors.append([((table - product - departure) ** 2).sum() for table in tables])
    ours, oracle, raw, independent = np.mean(errors, axis=0)
    assert ours < 1.03 * oracle
    assert ours < 0.9 * min(raw, independent)


def test_one_row_tables_are_margins_without_a_test() -> None:
    line = np.array([[0.5, 0.3, 0.2]])
    for table in (line, line.T):
        assert shrunk_table(table, 1e-4 * np.eye(3)) == pytest.approx(table)
    sides = one_hot_side("a", 1, 0.0, 0.25, 0.75), one_hot_side("b", 3, 0.0, 0.25, 0.75)
    reports = drawn_reports(line, 1_000, *sides, np.random.default_rng(1))
    with pytest.raises(ImproperError, match="one value alone"):
        decode_association(reports, *sides)


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


def test_independence_is_kept_and_couplings_too() -> None:
    """20 tables each, 8 x 8, of 20,000 linked reports with one-time noise.

    Where the sides are independent, a third of the tables or more are the product exactly, and the
    mean distance to it is a fifth of that of the estimate or less; where they are one, nine tenths
    of what it departs by stay.
    """
    rng = np.random.default_rng(5)
    sides = one_hot_side("a", 8, 0.0, 0.25, 0.75), one_hot_side("b", 8, 0.0, 0.25, 0.75)
    moved, kept = [], []
    for _ in range(20):
        for coupled, parts in ((0.0, moved), (1.0, kept)):
            reports = drawn_reports(coupled_table(8, 8, coupled), 20_000, *sides, rng)
            table = decode_association(reports, *sides, likelihood=False)
            product = np.outer(*margins(table.estimate))
            whole = (table.estimate if coupled == 0 else coupled_table(8, 8, 1.0)) - product
            parts.append(np.abs(table.shrunk - product).sum() / np.abs(whole).sum())
    assert np.mean(np.array(moved) < 1e-9) >= 1 / 3
    assert np.mean(moved) < 0.2
    assert np.mean(kept) > 0.9


def test_pictures_show_shrunk_tables_unless_independence_is_rejected() -> None:
    """It showed the one without negative shares, which the warning beside it calls noise."""
    metric, rng = pair_metric(4, 4, 0.3), np.random.default_rng(6)
    table = decode_pairs(drawn_pairs(metric, coupled_table(4, 4, 0.0), 5_000, rng))
    assert not table.independence.rejected
    assert "use the shrunk table" in table.warnings[0]
    page, drawn = render_joint(table), [cell.text for cell in heat_map(table).cells]
    assert drawn == [f"{100 * share:.0f}" for share in of_rows(table.shrunk)]
    assert "the shrunk table, as independence is not rejected" in page
    told = replace(table, independence=Independence(99.0, 9, 1e-9, 0.05))
    drawn = [cell.text for cell in heat_map(told).cells]
    assert drawn == [f"{100 * share:.0f}" for share in of_rows(told.fitted)]
    assert "from the table without negative shares" in render_joint(told)
    for one, shown in ((table, table.shrunk), (told, told.fitted)):
        heat = joint_view(json.loads(json.dumps(joint_content(one))), TableQuery())["heat"]
        texts = [square.text for _, squares in heat.rows for square in squares]
        assert texts == [f"{100 * share:.0f}" for share in of_rows(shown)]


def of_rows(table: Floats) -> list[float]:
    whole = np.maximum(table.sum(axis=1, keepdims=True), 1e-12)
    return [float(share) for share in (table / whole).ravel()]
