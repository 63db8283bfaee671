"""The decoder of pairs against other ways to the same numbers."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from scipy.linalg import eigh, helmert
from scipy.optimize import minimize_scalar, nnls

from decoder import DecodeOptions
from decoder.errors import DecodeError, ImproperError
from decoder.inference.intervals import fieller
from decoder.kinds.pair import KIND, joint_result, joint_view
from decoder.kinds.result import Question
from decoder.kinds.run import write_result
from decoder.model.noise import BitNoise
from decoder.pairs import decoding as joint
from decoder.pairs.arms import compare_arms
from decoder.progress import silent
from decoder.tables.paging import TableQuery
from decoder.typing import Floats
from metric_design.pair_kind import PAIR
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from simulations.populations.draws import draw_aggregate
from tests.pair_support import coupled_table, drawn_pairs, pair_metric

SHARES = np.array([[0.30, 0.10], [0.05, 0.25], [0.10, 0.20]])


def metric(epsilon: float = 3.0, *, hashed: bool = False) -> Metric:
    return pair_metric(3, 2, epsilon, hashed=hashed)


def drawn(one: Metric, shares: Floats, reports: int, seed: int) -> Aggregate:
    return drawn_pairs(one, shares, reports, np.random.default_rng(seed))


@pytest.mark.parametrize("hashed", [False, True])
def test_cells_are_those_of_a_plain_least_squares(hashed: bool) -> None:
    """The sum of shares is 1, and without it the estimate is numpy's weighted least squares."""
    one = metric(hashed=hashed)
    table = joint.decode_pairs(drawn(one, SHARES, 20_000, 1))
    assert table.estimate.sum() == pytest.approx(1, abs=1e-3)
    counts = joint.pair_counts(drawn(one, SHARES, 20_000, 1), one.details, DecodeOptions())
    design = counts.designs.reshape(-1, 6)
    scale = np.sqrt(np.repeat(counts.reports, one.params.num_bits))  # one weight: every mean is 1/6
    rows = np.vstack([design * scale[:, None], np.full((1, 6), 1e6)])
    target = np.append(counts.shares.ravel() * scale, 1e6)
    expected = np.linalg.lstsq(rows, target, rcond=None)[0]
    bits = design.sum(axis=1)
    if not hashed:
        assert (bits == 1).all()
        assert table.estimate.ravel() == pytest.approx(expected, abs=1e-4)
    assert np.abs(table.estimate.ravel() - expected).max() < 3 * table.cells.std_error.max()


def test_the_covariance_holds_for_devices_that_report_again() -> None:
    """600 draws of 400 devices of six reports: each variance within 6 sd of a chi-squared."""
    one, rng, estimates, stated = metric(), np.random.default_rng(7), [], {6.0: [], 1.0: []}
    for _ in range(600):
        found, _ = draw_aggregate(
            one.details.texts(), SHARES.ravel(), 400, one.params, rng, reports_each=6
        )
        found = replace(found, definition=one.to_dict())
        for repeats, variances in stated.items():
            fit = joint.fit_pair(
                joint.pair_counts(found, one.details, DecodeOptions(repeats=repeats))
            )
            if len(variances) < 30:
                variances.append(np.diag(fit.covariance()))
        estimates.append(fit.estimate)
    observed = np.array(estimates).var(axis=0, ddof=1)
    assert np.abs(observed / np.mean(stated[6.0], axis=0) - 1).max() < 6 * np.sqrt(2 / 600)
    assert (observed > 1.5 * np.mean(stated[1.0], axis=0)).all()


def test_margins_use_the_covariance_of_cells() -> None:
    table = joint.decode_pairs(drawn(metric(), SHARES, 100_000, 6))
    rows, given = table.margin(0), table.conditional(0)
    assert rows.estimate == pytest.approx(table.estimate.sum(axis=1))
    apart = np.sqrt((table.cells.std_error**2).sum(axis=1))
    assert not np.allclose(rows.std_error, apart, rtol=0.01)
    truth = SHARES / SHARES.sum(axis=1, keepdims=True)
    assert ((given.low <= truth) & (truth <= given.high)).mean() > 0.6
    assert given.estimate.sum(axis=1) == pytest.approx(np.ones(3))


def test_conditional_shares_of_unheld_values_are_open() -> None:
    held = np.array([[0.6, 0.4], [0.0, 0.0], [0.0, 0.0]])
    table = joint.decode_pairs(drawn(metric(epsilon=0.7), held, 3_000, 7))
    given = table.conditional(0)
    weak = np.flatnonzero(table.margin(0).low == 0)
    assert len(weak) > 0
    assert (given.low[weak] == 0).all()
    assert (given.high[weak] == 1).all()


def test_fieller_intervals_hold_the_ratio() -> None:
    """4,000 pairs of normals, whole at 4 sd: coverage .95 within 4 sd (.014)."""
    rng = np.random.default_rng(8)
    covariance = np.array([[1.0, 0.6], [0.6, 2.0]])
    noise = rng.multivariate_normal([0, 0], covariance, 4_000)
    part, whole = 2.0 + noise[:, 0], 5.6 + noise[:, 1]
    ones = np.ones(4_000)
    shares = fieller((part, ones), (whole, 2 * ones), 0.6 * ones, 1.959964)
    covered = (shares.low <= 2 / 5.6) & (shares.high >= 2 / 5.6)
    assert abs(covered.mean() - 0.95) < 0.014


def test_pairs_that_share_every_bit_are_refused() -> None:
    design = np.zeros((2, 4, 3))
    design[:, 0, 0] = design[:, 1, 1] = design[:, 1, 2] = 1
    noise = BitNoise(1.0, 0.0, 0.75, 0.25)
    counts = joint.PairCounts(np.zeros((2, 4)), np.full(2, 100.0), design, (3, 1), noise)
    with pytest.raises(ImproperError, match=r"same bits in every cohort|cannot be distinguished"):
        joint.fit_pair(counts)


def test_what_is_no_pair_is_refused() -> None:
    aggregate = drawn(metric(), SHARES, 1_000, 9)
    with pytest.raises(DecodeError, match="is not a pair"):
        joint.decode_pairs(replace(aggregate, definition={}))
    empty = replace(aggregate, reports_per_cohort=(0,), bit_counts=((0,) * 6,))
    with pytest.raises(DecodeError, match="no reports"):
        joint.decode_pairs(empty)


def test_the_degrees_of_freedom_are_the_rank() -> None:
    test = joint.chi_squared(np.array([1.0, 1.0]), np.ones((2, 2)), 0.05)
    assert test.freedom == 1
    assert test.statistic == pytest.approx(1.0)


def test_files_hold_every_cell_and_text_is_escaped(tmp_path: Path) -> None:
    one = metric()
    counts = drawn(one, SHARES, 50_000, 10)
    table = replace(joint.decode_pairs(counts), rows=("<script>", "=1+1", "a2"))
    result = joint_result(table, DecodeOptions())
    names = {path.name for path in write_result(result, KIND, "decode", tmp_path, silent)}
    assert names >= {"joint.csv", "margins.csv", "results.json", "report.html", "covariance.npy"}
    assert (np.load(tmp_path / "covariance.npy") == table.covariance).all()
    with (tmp_path / "joint.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert rows[2]["first"] == "'=1+1"
    assert float(rows[3]["estimate"]) == table.estimate[1, 1]
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["independence"]["refuted"]
    assert len(content["margins"]) == 5
    page = (tmp_path / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    write_result(result, KIND, "decode", tmp_path / "again", silent)
    assert (tmp_path / "again" / "report.html").read_text() == page


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 3.0])
def test_nearest_tables_are_nearest_at_any_noise(epsilon: float) -> None:
    """No change of sum 0 that keeps shares above 0 lowers the distance: its gradient is even."""
    metric = pair_metric(10, 10, epsilon)
    drawn = drawn_pairs(metric, coupled_table(10, 10, 0.5), 20_000, np.random.default_rng(1))
    fit = joint.fit_pair(joint.pair_counts(drawn, metric.details, DecodeOptions()))
    estimate = fit.estimate.reshape(10, 10)
    found = joint.nearest_table(estimate, fit.curvature)
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
    assert joint.nearest_table(np.array([[1.2]]), np.array([[3.0]])) == pytest.approx(1)


def test_one_report_of_a_device_that_is_alone() -> None:
    shares = np.array([[0.6, 0.1], [0.1, 0.2]])
    table = joint.decode_pairs(
        drawn_pairs(pair_metric(2, 2, 2.0), shares, 1, np.random.default_rng(4))
    )
    assert (table.cells.high - table.cells.low).min() > 0.5
    assert not table.independence.rejected


def posterior_mean(estimate: Floats, covariance: Floats) -> tuple[Floats, float]:
    """The same with dense matrices and a search for tau, before the projection; and tau."""
    product = np.outer(*joint.margins(estimate))
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
def test_shrunk_tables_are_posterior_means(shape: tuple[int, int]) -> None:
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
    departure = np.abs(expected - np.outer(*joint.margins(seen))).max()
    assert joint.shrunk_table(seen, covariance) == pytest.approx(expected, abs=0.006 * departure)


@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-6, 1e-3, 1e3])
def test_zero_margins_and_any_noise_give_tables(noise: float) -> None:
    rng = np.random.default_rng(4)
    estimate = np.zeros((5, 4))
    estimate[:2, :2] = [[0.4, 0.1], [0.2, 0.3]]
    estimate += noise**0.5 * rng.normal(size=estimate.shape)
    found = joint.shrunk_table(estimate, noise * np.eye(20))
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    if noise < 1e-9:
        assert found == pytest.approx(estimate, abs=1e-4)


def test_pictures_show_shrunk_tables_unless_independence_is_rejected() -> None:
    metric, rng = pair_metric(4, 4, 0.3), np.random.default_rng(6)
    table = joint.decode_pairs(drawn_pairs(metric, coupled_table(4, 4, 0.0), 5_000, rng))
    assert not table.independence.rejected
    assert "use the shrunk table" in table.warnings[0]
    reply = replace(table, independence=joint.Independence(99.0, 9, 1e-9, 0.05))
    for one, shown in ((table, table.shrunk), (reply, reply.fitted)):
        heat = joint_view(
            json.loads(json.dumps(joint_result(one, DecodeOptions()).content)), TableQuery()
        )["heat"]
        texts = [square["text"] for _, squares in heat["rows"] for square in squares]
        assert texts == [f"{100 * share:.0f}" for share in of_rows(shown)]


def of_rows(table: Floats) -> list[float]:
    whole = np.maximum(table.sum(axis=1, keepdims=True), 1e-12)
    return [float(share) for share in (table / whole).ravel()]


# 60 % of the first arm have the first answer, 52 % of the second.
ARMS = np.array([[0.30, 0.15, 0.05], [0.26, 0.15, 0.09]])


@pytest.mark.parametrize("side", [0, 1])
def test_differences_between_arms_have_their_stated_error(side: int) -> None:
    """300 draws: the variance of scores is within 5 sd of 1; errors 1.4 times as large fail."""
    shares = ARMS if side == 0 else ARMS.T
    one, rng = pair_metric(*shares.shape, 1.0), np.random.default_rng(12)
    within = ARMS / ARMS.sum(axis=1, keepdims=True)
    scores = []
    for _ in range(300):
        table = joint.decode_pairs(drawn_pairs(one, shares, 6_000, rng))
        compared = compare_arms(table, one.details.of[side], 0.05)
        rows = compared.rows
        scores.append((rows.difference - (within[1] - within[0])) / rows.std_error)
    spread = np.mean(np.square(scores), axis=0)
    assert np.abs(spread - 1).max() < 5 * np.sqrt(2 / 300)
    assert (2 * spread - 1).min() > 5 * np.sqrt(2 / 300)
    assert set(compared.arms) == {one.details.labels(side)[1]}


def test_the_planned_error_of_arms_includes_hashes_that_collide() -> None:
    """Within 4 % of the mean of 5 draws; 8 % too small without the collisions."""
    one, rng = pair_metric(2, 20, 1.0, hashed=True, num_bits=16), np.random.default_rng(15)
    shares = np.full((2, 20), 0.25 / 19)
    shares[:, 0] = 0.25  # half of each arm, as planned
    tables = [joint.decode_pairs(drawn_pairs(one, shares, 200_000, rng)) for _ in range(5)]
    errors = [compare_arms(table, "first", 0.05).rows.std_error[0] for table in tables]
    scores = NormalDist().inv_cdf(1 - 0.05 / 40) + NormalDist().inv_cdf(0.8)
    assert PAIR.precision(one, 200_000) == pytest.approx(scores * np.mean(errors), rel=0.04)


def test_arms_are_printed_and_written(tmp_path: Path) -> None:
    one = pair_metric(2, 3, 1.0)
    counts = [drawn(one, ARMS, 60_000, 13)]
    result = KIND.decode(counts, Question(by="first"))
    write_result(result, KIND, "decode", tmp_path, silent)
    content = json.loads((tmp_path / "results.json").read_text())["arms"]
    assert content["control"] == "a0"
    assert content["rows"][0]["value"] == "b0"  # the most significant first
    assert content["rows"][0]["low"] < -0.08 < content["rows"][0]["high"] < 0
    assert "compared with a0" in (tmp_path / "report.html").read_text()
    with pytest.raises(DecodeError, match="'third' is not a side of metric 'pairs': 'first' and"):
        KIND.decode(counts, Question(by="third"))
    with pytest.raises(DecodeError, match="too few reports to compare"):
        KIND.decode([drawn(one, ARMS, 300, 13)], Question(by="first"))


@pytest.mark.statistical
def test_a_planned_difference_between_arms_is_detected_8_times_in_10() -> None:
    """200 draws: .8 of the planned devices' draws or more (-2 sd, .057); half of them fail that."""
    one, rng = pair_metric(2, 3, 1.0), np.random.default_rng(14)
    devices = 20_000
    half = PAIR.precision(one, devices) / 2
    shares = np.array([[0.5 - half, 0.3, 0.2 + half], [0.5 + half, 0.3, 0.2 - half]]) / 2
    detected = {devices: 0, devices // 2: 0}
    for count in detected:
        for _ in range(200):
            table = joint.decode_pairs(drawn_pairs(one, shares, count, rng))
            compared = compare_arms(table, "first", 0.05)
            detected[count] += int(compared.rows.detected[compared.values.index("b0")])
    assert detected[devices] / 200 > 0.743 > detected[devices // 2] / 200
