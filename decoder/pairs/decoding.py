"""`decode_pairs`: unbiased cells of a pair metric, their covariance, and a test of independence.

One encoded value has M1 M2 candidates; nothing else is needed (docs/method.md, "Two things
together").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, helmert
from scipy.special import chdtrc

from decoder.candidates.lists import Candidates, listed_positions, metric_candidates
from decoder.errors import DecodeError, ImproperError
from decoder.model.counts import debias, repetition
from decoder.model.noise import BitNoise
from decoder.numerics.bit_tensor import one_thread
from decoder.numerics.simplex import project_simplex
from decoder.options import DecodeOptions
from decoder.pairs.table import MAX_CELLS, Independence, JointTable, joint_table, margins, side_sums
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.pair_kind import Pair


def decode_pairs(aggregate: Aggregate, options: DecodeOptions | None = None) -> JointTable:
    """The joint table of a pair metric, with margins, conditional shares and a test.

    Args:
        aggregate: of a metric of kind `pair`, with its definition.
        options: level and repeats and alpha, the level of the test, count.

    Raises:
        DecodeError: the metric is no pair, has no reports, or has more than 4,000 pairs.
    """
    options = options or DecodeOptions()
    aggregate = aggregate.without(options.without_cohorts)
    pair = _pair(aggregate)
    counts = _counts(aggregate, pair, options)
    with one_thread():
        fit = fit_pair(counts)
        return joint_table(
            aggregate,
            pair,
            fit.estimate.reshape(pair.shape),
            fit.covariance(),
            fit.curvature,
            pair_independence(fit, options.alpha),
            options.level,
        )


def _pair(aggregate: Aggregate) -> Pair:
    details = aggregate.definition.get("details")
    if not isinstance(details, dict) or set(details) != {"of", "values"}:
        raise DecodeError(
            f"metric {aggregate.metric!r} is no pair, or its definition is not in the aggregate"
        )
    pair = Pair.from_dict(details)
    if pair.num_pairs > MAX_CELLS:
        raise DecodeError(
            f"metric {aggregate.metric!r} has {pair.num_pairs:,} pairs, {MAX_CELLS:,} at most: "
            "merge rare values into one"
        )
    return pair


def _counts(aggregate: Aggregate, pair: Pair, options: DecodeOptions) -> PairCounts:
    params, reports = aggregate.params, np.array(aggregate.reports_per_cohort, dtype=np.float64)
    present = reports > 0
    if not present.any():
        raise DecodeError(f"metric {aggregate.metric!r} has no reports in this window")
    noise = BitNoise.of(params.mechanism)
    counts = np.array(aggregate.bit_counts, dtype=np.float64)[present]
    shares = debias(counts, reports[present], noise)
    candidates: Candidates = metric_candidates(aggregate)
    positions = (
        candidates.positions(params)
        if params.scheme.hashed
        else listed_positions(pair.num_pairs, params)
    )
    bits = np.asarray(positions)[:, present, 0]  # one hash
    designs = (bits.T[:, None, :] == np.arange(params.num_bits)[None, :, None]).astype(np.float64)
    repeats = repetition(aggregate, options.repeats)
    return PairCounts(shares, reports[present], designs, pair.shape, noise, repeats)


SUM_WEIGHT = 1e3  # of the equation that all shares add up to 1, in reports
RANK = 1e-9  # of the largest eigenvalue: smaller ones are directions that nothing tells


@dataclass(frozen=True)
class PairCounts:
    """Debiased counts of a pair metric, without empty cohorts.

    shares: debiased shares of set bits, (m, k).  reports: N_j, (m,).
    designs: 0/1 bits of each pair in each cohort, (m, k, M).  shape: (M1, M2).
    repetition: rho = sum r^2 / sum r over devices.
    """

    shares: Floats
    reports: Floats
    designs: Floats
    shape: tuple[int, int]
    noise: BitNoise
    repetition: float = 1.0


@dataclass(frozen=True)
class PairFit:
    """The unbiased shares P (M,) of the pairs, the fit's information matrix H, and the counts
    behind them."""

    estimate: Floats
    information: Floats
    counts: PairCounts

    @property
    def curvature(self) -> Floats:
        """The information H without the equation that the shares sum to 1."""
        return self.information - SUM_WEIGHT * float(self.counts.reports.sum())

    def covariance(self, shares: Floats | None = None) -> Floats:
        """Covariance of P if devices hold `shares` (M,), by default the estimate projected on
        the simplex."""
        held = project_simplex(self.estimate) if shares is None else shares
        inner = np.zeros_like(self.information)
        counts = self.counts
        for design, number in zip(counts.designs, counts.reports, strict=True):
            weighted = design * _weights(counts, design)[:, None]
            mean = design @ held
            bits = (design * held) @ design.T - np.outer(mean, mean)
            noise = counts.noise.mechanism_variance(np.clip(mean, 0, 1), counts.repetition)
            spread = counts.repetition * bits + np.diag(noise)
            inner += number * weighted.T @ spread @ weighted
        factor = _factor(self.information)
        half = cho_solve(factor, inner)
        return np.asarray(cho_solve(factor, half.T))


def fit_pair(counts: PairCounts) -> PairFit:
    """Fit the shares of the pairs to the bit shares by weighted least squares; the shares add up
    to 1.

    Raises ImproperError where two pairs have the same bits in every cohort.
    """
    cells = counts.designs.shape[2]
    weight = SUM_WEIGHT * float(counts.reports.sum())
    information, target = np.full((cells, cells), weight), np.full(cells, weight)
    for design, number, share in zip(counts.designs, counts.reports, counts.shares, strict=True):
        weighted = number * design * _weights(counts, design)[:, None]
        information += weighted.T @ design
        target += weighted.T @ share
    estimate = cho_solve(_factor(information), target)
    return PairFit(np.asarray(estimate), information, counts)


def pair_independence(fit: PairFit, level: float) -> Independence:
    """Wald test that the table is the product of its margins, with the covariance under the null.

    The departures d = p - r c' (r, c: the margins), less the covariance of the estimated margins,
    have mean 0 under independence; T = d' Cov(d)^-1 d over their (M1 - 1)(M2 - 1) dimensions.
    """
    shape = fit.counts.shape
    table = fit.estimate.reshape(shape)
    rows, columns = margins(table)
    null = fit.covariance(np.outer(rows, columns).ravel())
    first, second = side_sums(shape, 0), side_sums(shape, 1)
    estimated = np.outer(table.sum(axis=1), table.sum(axis=0))
    departure = table - estimated + first @ null @ second.T
    basis = np.kron(helmert(shape[0]).T, helmert(shape[1]).T)
    change = np.eye(table.size)
    change -= np.kron(np.eye(shape[0]), columns[:, None]) @ first
    change -= np.kron(rows[:, None], np.eye(shape[1])) @ second
    linear = basis.T @ change
    return chi_squared(basis.T @ departure.ravel(), linear @ null @ linear.T, level)


def chi_squared(departure: Floats, covariance: Floats, level: float) -> Independence:
    """Wald statistic T = d' V^+ d with its p-value; the degrees of freedom are the rank of V.

    Raises ImproperError where there is nothing to test.
    """
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    told = values > RANK * max(float(values[-1]), 0.0)
    if not told.any():
        raise ImproperError("nothing tells the values of the two sides apart")
    scores = vectors[:, told].T @ departure
    statistic = float((scores**2 / values[told]).sum())
    freedom = int(told.sum())
    return Independence(statistic, freedom, float(chdtrc(freedom, statistic)), level)


def _weights(counts: PairCounts, design: Floats) -> Floats:
    """Inverse variance of each debiased bit at the mean share of the pairs, (k,)."""
    mean = np.full(len(design), float(design.mean()))
    noise = counts.noise.mechanism_variance(mean, counts.repetition)
    return np.asarray(1 / (noise + counts.repetition * mean * (1 - mean)))


def _factor(information: Floats) -> tuple[Floats, bool]:
    try:
        factor: tuple[Floats, bool] = cho_factor(information)
    except np.linalg.LinAlgError as error:
        raise ImproperError(
            f"{len(information):,} pairs cannot be told apart by the bits of these cohorts: use "
            "more bits or cohorts, or merge rare values"
        ) from error
    if float(np.diag(factor[0]).min()) < RANK * float(np.diag(factor[0]).max()):
        raise ImproperError(
            f"some of {len(information):,} pairs have the same bits in every cohort: use more "
            "cohorts, or merge rare values"
        )
    return factor
