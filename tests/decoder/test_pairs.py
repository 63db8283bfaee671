"""The decoder of pairs against other ways to the same numbers."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import helmert

from decoder import DecodeOptions, decode
from decoder.candidates.lists import metric_candidates
from decoder.errors import DecodeError, ImproperError
from decoder.inference.intervals import fieller
from decoder.kinds.pair import KIND, joint_result
from decoder.kinds.run import write_result
from decoder.model.noise import BitNoise
from decoder.pairs.decoding import (
    PairCounts,
    chi_squared,
    decode_pairs,
    fit_pair,
    pair_counts,
    side_sums,
)
from decoder.progress import silent
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.metric import Metric
from simulations.populations.draws import draw_aggregate
from tests.pair_support import drawn_pairs, pair_metric

SHARES = np.array([[0.30, 0.10], [0.05, 0.25], [0.10, 0.20]])


def metric(epsilon: float = 3.0, *, hashed: bool = False) -> Metric:
    return pair_metric(3, 2, epsilon, hashed=hashed)


def drawn(one: Metric, shares: Floats, reports: int, seed: int) -> Aggregate:
    return drawn_pairs(one, shares, reports, np.random.default_rng(seed))


@pytest.mark.parametrize("hashed", [False, True])
def test_cells_are_those_of_a_plain_least_squares(hashed: bool) -> None:
    """The sum of shares is 1, and without it the estimate is numpy's weighted least squares."""
    one = metric(hashed=hashed)
    table = decode_pairs(drawn(one, SHARES, 20_000, 1))
    assert table.estimate.sum() == pytest.approx(1, abs=1e-3)
    counts = pair_counts(drawn(one, SHARES, 20_000, 1), one.details, DecodeOptions())
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


def test_unhashed_decodings_agree_with_categories() -> None:
    """Each cell has its own bit there; here the sum is used too, which moves it by little."""
    aggregate = drawn(metric(), SHARES, 50_000, 2)
    table = decode_pairs(aggregate)
    direct = decode(aggregate, metric_candidates(aggregate)).candidates
    errors = np.asarray(direct.std_error)
    assert np.abs(table.estimate.ravel() - direct.estimate).max() < 2 * errors.max()
    assert (table.cells.std_error.ravel() < 1.02 * errors).all()


def test_the_covariance_holds_for_devices_that_report_again() -> None:
    """600 draws of 400 devices of six reports: each variance within 6 sd of a chi-squared.

    Of devices that are taken for six each it is a fraction, so this test can fail.
    """
    one, rng, estimates, stated = metric(), np.random.default_rng(7), [], {6.0: [], 1.0: []}
    for _ in range(600):
        found, _ = draw_aggregate(
            one.details.texts(), SHARES.ravel(), 400, one.params, rng, reports_each=6
        )
        found = replace(found, definition=one.to_dict())
        for repeats, variances in stated.items():
            fit = fit_pair(pair_counts(found, one.details, DecodeOptions(repeats=repeats)))
            if len(variances) < 30:
                variances.append(np.diag(fit.covariance()))
        estimates.append(fit.estimate)
    observed = np.array(estimates).var(axis=0, ddof=1)
    assert np.abs(observed / np.mean(stated[6.0], axis=0) - 1).max() < 6 * np.sqrt(2 / 600)
    assert (observed > 1.5 * np.mean(stated[1.0], axis=0)).all()


def test_an_empty_cohort_is_left_out() -> None:
    aggregate = drawn(metric(hashed=True), SHARES, 50_000, 5)
    table = decode_pairs(aggregate, DecodeOptions(without_cohorts=(0, 3)))
    assert np.abs(table.estimate - SHARES).max() < 5 * table.cells.std_error.max()


def test_margins_use_the_covariance_of_cells() -> None:
    table = decode_pairs(drawn(metric(), SHARES, 100_000, 6))
    rows, given = table.margin(0), table.conditional(0)
    assert given is not None
    assert rows.estimate == pytest.approx(table.estimate.sum(axis=1))
    apart = np.sqrt((table.cells.std_error**2).sum(axis=1))
    assert not np.allclose(rows.std_error, apart, rtol=0.01)
    truth = SHARES / SHARES.sum(axis=1, keepdims=True)
    assert ((given.low <= truth) & (truth <= given.high)).mean() > 0.6
    assert given.estimate.sum(axis=1) == pytest.approx(np.ones(3))


def test_conditional_shares_of_unheld_values_are_open() -> None:
    held = np.array([[0.6, 0.4], [0.0, 0.0], [0.0, 0.0]])
    table = decode_pairs(drawn(metric(epsilon=0.7), held, 3_000, 7))
    given = table.conditional(0)
    assert given is not None
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
    counts = PairCounts(np.zeros((2, 4)), np.full(2, 100.0), design, (3, 1), noise)
    with pytest.raises(ImproperError, match=r"same bits in every cohort|cannot be distinguished"):
        fit_pair(counts)


def test_what_is_no_pair_is_refused() -> None:
    aggregate = drawn(metric(), SHARES, 1_000, 9)
    with pytest.raises(DecodeError, match="is no pair"):
        decode_pairs(replace(aggregate, definition={}))
    empty = replace(aggregate, reports_per_cohort=(0,), bit_counts=((0,) * 6,))
    with pytest.raises(DecodeError, match="no reports"):
        decode_pairs(empty)


def test_contrasts_are_orthonormal_and_sum_to_zero() -> None:
    basis = helmert(5).T
    assert basis.T @ basis == pytest.approx(np.eye(4))
    assert basis.sum(axis=0) == pytest.approx(np.zeros(4))
    assert side_sums((2, 3), 1).sum() == 6


def test_the_degrees_of_freedom_are_the_rank() -> None:
    test = chi_squared(np.array([1.0, 1.0]), np.ones((2, 2)), 0.05)
    assert test.freedom == 1
    assert test.statistic == pytest.approx(1.0)


def test_files_hold_every_cell_and_text_is_escaped(tmp_path: Path) -> None:
    one = metric()
    counts = drawn(one, SHARES, 50_000, 10)
    table = replace(decode_pairs(counts), rows=("<script>", "=1+1", "a2"))
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
