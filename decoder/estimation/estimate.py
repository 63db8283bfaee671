"""The three estimators with one interface: cavity, LASSO with refit, and direct.

For every candidate, each returns an unbiased share, its error, and a score with a known null
distribution. If each value has a separate bit (basic RAPPOR, a boolean), the direct estimate of its
share is the debiased frequency of the bit. Its interval is the score interval (Wilson 1927), which
behaves well for shares near 0 and 1."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, expit, ndtri, ndtri_exp

from decoder.errors import DecodeError
from decoder.estimation.ep_iterations import FitProblem
from decoder.estimation.ep_sites import Scores, refit_prior
from decoder.estimation.lasso import left_out, select
from decoder.estimation.least_squares import (
    Balance,
    centered_columns,
    centered_sums,
    left_out_scores,
    missing_error,
    null_variance,
)
from decoder.estimation.leave_one_out import FEW_COHORTS, WarmStarts, fit_cavity
from decoder.inference.intervals import score_freedom, widened_interval
from decoder.inference.multiple_testing import p_values
from decoder.model.counts import Observed
from decoder.model.noise import BitNoise, CohortNoise
from decoder.model.null_distribution import NORMAL_TAIL, NullTail, null_tail
from decoder.model.share_prior import SharePrior
from decoder.numerics.bit_tensor import scatter_sums
from decoder.progress import Progress, silent
from decoder.typing import Floats, Indices

_PRIOR_STEPS = 80  # EM steps for the prior of final scores
_FEW = 20  # with fewer values, no prior can be learned

Directions: TypeAlias = Callable[[Indices], Floats]  # maps candidates (B,) to (n, B)


@dataclass(frozen=True)
class Estimate:
    """The estimates of M candidates. Every array is (M,) except `fitted`."""

    shares: Floats  # Unbiased
    std_errors: Floats
    z: Floats  # The score of the test that no one has the candidate
    low: Floats  # Lower end of an interval without correction for selection, not clipped to [0, 1]
    high: Floats
    shrunken: Floats  # Posterior means
    local_fdr: Floats
    prior: SharePrior | None
    fitted: Floats  # The bit shares that the fit explains, (m, k)
    unfitted: float  # The fraction of the rows' freedom that the fit left unused, in [0, 1]
    tail: NullTail = NORMAL_TAIL  # The null distribution of the scores
    missing: float = 0.0  # tau, the variance of unlisted strings
    missing_error: float = 0.0
    ratio: float = 1.0  # The noise, relative to the model's noise
    excess: float = 1.0  # kappa, at least 1
    freedom: float = np.inf  # Degrees of freedom of the t distribution of the scores
    iterations: int = 1
    converged: bool = True
    full: bool = True  # Whether all candidates took part in the fit
    penalty: float | None = None  # Of the LASSO; None for other methods
    method: str = "cavity"
    directions: Directions | None = None  # The weight of each bit share in each estimated share

    @cached_property
    def deviates(self) -> Floats:
        """The scores as standard normal deviates under their null distribution, (M,)."""
        return self.tail.deviate(self.z)

    @cached_property
    def p_values(self) -> Floats:
        """P-values (M,) for the hypothesis that no one has the candidate; 1 without convergence."""
        return self._upper_tail(self.deviates)

    @property
    def null_p_values(self) -> Floats:
        """The `p_values`, scaled to be uniform for absent candidates (`cavity` shrinks scores)."""
        scale = min(self.ratio, 1.0) ** 0.5 if self.method == "cavity" else 1.0
        return self._upper_tail(self.deviates / scale)

    @property
    def has_few_cohorts(self) -> bool:
        """Whether `cavity` fitted so few cohorts that p-values near 1 may be too rare."""
        return self.method == "cavity" and len(self.fitted) <= FEW_COHORTS

    def _upper_tail(self, deviates: Floats) -> Floats:
        return p_values(deviates) if self.converged else np.ones(len(deviates))


def by_cavity(
    observed: Observed,
    level: float,
    progress: Progress = silent,
    *,
    full: bool = True,
    warm_starts: WarmStarts | None = None,
    weights: Floats | None = None,
) -> Estimate:
    """Estimate shares by leave-one-out scores over a sparse, positive fit (`fit_cavity`).

    Args:
        observed: The debiased counts, with the candidates' bits and the noise.
        level: The level of the intervals.
        progress: A callback for progress.
        full: Whether all candidates may take part in the fit.
        warm_starts: The fits of similar windows, as starting points.
        weights: The weights (M,) of the decision rule.
    """
    repeated = observed.noise.repetition > 1
    problem = _problem(observed, full=full)
    fit = fit_cavity(problem, progress, warm_starts, weights, repeated=repeated)
    estimate = _estimate(
        observed, level, fit.scores, fit.z, fit.last.fitted, tail=fit.tail, law=fit.law,
        all_shares=fit.last.sites.shrunken, freedom_left=fit.freedom, prior=fit.last.prior,
        iterations=fit.iterations, converged=fit.converged, full=fit.full,
        directions=fitted_directions(observed, fit.last.fitted)
    )  # fmt: skip
    return estimate if fit.converged else replace(estimate, local_fdr=np.ones(len(estimate.z)))


def by_lasso(
    observed: Observed,
    level: float,
    alpha: float,
    progress: Progress = silent,
    weights: Floats | None = None,
) -> Estimate:
    """Estimate shares by the LASSO at a penalty set by the noise, and a least-squares refit."""
    random, problem = observed.noise.random, _problem(observed)
    chosen = select(problem, alpha, progress)
    members, fitted, balance = chosen.members, chosen.fitted, chosen.fitted.balance
    residual = balance.solution.residual
    tail, all_shares = null_tail(residual, random), np.zeros(len(observed.positions))
    all_shares[members] = fitted.shares
    information = np.full(len(all_shares), balance.solution.expected)
    information[members] = balance.solution.information
    sums = centered_sums(observed.positions, residual, random)
    shares, z = sums / information, sums / np.sqrt(null_variance(residual, random))
    shares[members] = fitted.shares  # others: what they would add to the refit
    z[members] = left_out_scores(residual, chosen.columns, fitted.directions, fitted.shares, random)
    first = Scores(shares, np.sqrt(balance.excess / information)), z, tail
    scores, z = left_out(problem, chosen, first, alpha, progress, weights)
    return _estimate(
        observed, level, scores, z, balance, tail=tail, law=tail, all_shares=all_shares,
        freedom_left=max(problem.freedom - len(members), 1.0), quieter=balance.slack,
        penalty=chosen.fit.penalty, method="lasso",
        directions=fitted_directions(observed, balance, (members, fitted.directions))
    )  # fmt: skip


def _problem(observed: Observed, *, full: bool = True) -> FitProblem:
    random = observed.noise.random
    if random.variance == 0:
        raise DecodeError(
            f"{random.num_hashes} hashes into {random.num_bits} bits set every bit: no value can "
            "be distinguished from another; collect with more bits or fewer hashes"
        )
    return FitProblem(observed.centered, observed.positions, random, observed.noise_of, full)


class DirectFit(NamedTuple):
    """The share, standard error, score interval and null z-score of each bit, (k,)."""

    estimates: Floats
    std_errors: Floats
    low: Floats
    high: Floats
    z: Floats


def fit_direct(
    bit_shares: Floats, reports: Floats, noise: BitNoise, repetition: float, level: float
) -> DirectFit:
    """Average each bit's debiased share (m, k) over cohorts, weighted by their reports (m,).

    `repetition` is the reports' rho; `level` is the level of the intervals."""
    total = float(reports.sum())
    estimates = reports @ bit_shares / total
    # N Var(estimate) = v0 + v1 t + v2 t^2 at share t: the mechanism's noise is linear in t,
    # sampling adds rho t (1 - t).
    zero, one = noise.mechanism_variance(np.array([0.0, 1.0]), repetition).tolist()
    constant, linear, square = zero, one - zero + repetition, -repetition
    clipped = np.clip(estimates, 0.0, 1.0)
    variance = (constant + linear * clipped + square * clipped**2) / total
    z = np.asarray(estimates / np.sqrt(constant / total))
    if repetition <= 1:  # use the binomial tail, which is heavier if few ones are expected by noise
        ones, chance = np.rint(total * (noise.p_star + noise.gap * estimates)), noise.p_star
        if noise.gap < 0:
            ones, chance = total - ones, 1 - chance
        with np.errstate(divide="ignore"):
            exact = -ndtri_exp(np.log(betainc(ones, total - ones + 1, chance)))  # P(X >= shown)
        z = np.where(np.isfinite(exact), exact, z)
    # All t with (estimate - t)^2 <= z^2 Var(t): the roots of a quadratic.
    scale = float(ndtri((1 - level) / 2)) ** 2 / total
    constant, linear, square = (scale * part for part in (constant, linear, square))
    a, b, c = 1 - square, -2 * estimates - linear, estimates**2 - constant
    root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0))
    low, high = (np.clip((-b + sign * root) / (2 * a), 0, 1) for sign in (-1, 1))
    return DirectFit(estimates, np.sqrt(variance), low, high, z)


def _own_directions(
    noise: CohortNoise, bits: NDArray[np.integer[Any]], signs: Floats
) -> Directions:
    """Return directions that average bits (m, M), complemented where `signs` are -1."""
    weights, num_bits = noise.reports / noise.reports.sum(), noise.random.num_bits

    def directions(candidates: Indices) -> Floats:
        spread = np.zeros((len(weights), num_bits, len(candidates)))
        cohorts, numbers = np.arange(len(weights))[:, None], np.arange(len(candidates))
        spread[cohorts, bits[:, candidates], numbers] = weights[:, None] * signs[candidates]
        return spread.reshape(-1, len(candidates))

    return directions


def by_bit(observed: Observed, level: float) -> Estimate:
    """Estimate shares if each value has a separate bit, positions[:, j, 0] (`direct`)."""
    bits = observed.positions[:, :, 0].T
    bit_shares = np.take_along_axis(observed.bit_shares, bits, axis=1)
    noise = observed.noise
    fit = fit_direct(bit_shares, noise.reports, noise.bits, noise.repetition, level)
    shares = np.clip(fit.estimates, 0, 1)
    num_bits = noise.random.num_bits
    listed = scatter_sums(observed.positions, np.ones(len(shares)), num_bits) > 0
    fitted = np.where(
        listed, scatter_sums(observed.positions, shares, num_bits), observed.bit_shares
    )
    return _direct_estimate(fit, fitted, _own_directions(noise, bits, np.ones(len(shares))))


def by_boolean(observed: Observed, level: float) -> Estimate:
    """Estimate the shares of true and of false from one bit and its complement."""
    noise, bit = observed.noise, observed.bit_shares
    true = fit_direct(bit, noise.reports, noise.bits, noise.repetition, level)
    false = fit_direct(1 - bit, noise.reports, noise.bits.mirrored(), noise.repetition, level)
    both = DirectFit(*(np.concatenate(pair) for pair in zip(true, false, strict=True)))
    fitted = np.full(bit.shape, np.clip(true.estimates[0], 0, 1))
    bits, signs = np.zeros((len(bit), 2), dtype=np.intp), np.array([1.0, -1.0])
    return _direct_estimate(both, fitted, _own_directions(noise, bits, signs))


def _direct_estimate(fit: DirectFit, fitted: Floats, directions: Directions) -> Estimate:
    """Build the estimate from direct fits; if there are few values, no prior is learned."""
    scores = Scores(fit.estimates, fit.std_errors)
    shrunken, prior = np.clip(fit.estimates, 0, 1), None
    local_fdr = np.asarray(expit(-(np.maximum(fit.z, 0.0) ** 2) / 2))  # its bound at even odds
    if len(fit.z) >= _FEW:
        nobody = np.zeros(len(fit.z), dtype=bool)
        prior = refit_prior(None, scores, nobody, null_z=fit.z, steps=_PRIOR_STEPS)
        shrunken, _, local_fdr = prior.posterior(*scores, fit.z)
    columns = *scores, fit.z, fit.low, fit.high, shrunken, local_fdr
    unfitted = 1 - 1 / len(fitted)
    return Estimate(*columns, prior, fitted, unfitted, method="direct", directions=directions)


def _estimate(
    observed: Observed,
    level: float,
    scores: Scores,
    z: Floats,
    balance: Balance,
    *,
    tail: NullTail,
    law: NullTail,
    all_shares: Floats,
    freedom_left: float,
    prior: SharePrior | None = None,
    quieter: float = 1.0,
    **more: Any,
) -> Estimate:
    """Compute intervals, prior and posteriors for the scores.

    `all_shares` (M,) are the fit's shares, 0 outside the fit. `quieter` reduces the errors for the
    prior, because a selection removes noise from the residual: with the full errors, all scores
    would look like shares. `more` are additional fields of the estimate."""
    null_z, random = tail.deviate(z), observed.noise.random
    near = Scores(scores.estimates, scores.std_errors * quieter)
    prior = refit_prior(prior, near, all_shares != 0, null_z=null_z, steps=_PRIOR_STEPS)
    shrunken, _, local_fdr = prior.posterior(*near, null_z)
    cohorts, num_bits = observed.bit_shares.shape
    unfitted = float(freedom_left / (cohorts * (num_bits - 1)))
    freedom = score_freedom(freedom_left, unfitted)
    listed = scatter_sums(observed.positions, all_shares, num_bits)
    return Estimate(
        *scores,
        z,
        *widened_interval(*scores, null_z, law, freedom, level),
        shrunken,
        local_fdr,
        prior,
        fitted=listed + random.mean * (1 - float(all_shares.sum())),  # the remainder is random
        unfitted=unfitted,
        tail=tail,
        missing=balance.missing,
        missing_error=missing_error(balance, freedom_left),
        ratio=balance.ratio,
        excess=balance.excess,
        freedom=freedom,
        **more,
    )


def fitted_directions(
    observed: Observed, balance: Balance, selected: tuple[Indices, Floats] | None = None
) -> Directions:
    """Return the directions V^-1 z_i / (z_i'V^-1 z_i) that project the data to estimates."""

    def directions(candidates: Indices) -> Floats:
        columns = centered_columns(observed.positions[candidates], observed.noise.random)
        weighed = np.asarray(balance.solution.weigh(columns))
        if selected is not None:
            places = np.flatnonzero(np.isin(candidates, selected[0]))
            weighed[:, places] = selected[1][:, np.searchsorted(selected[0], candidates[places])]
        information = (columns * weighed).sum(axis=0)
        return np.asarray(weighed / np.where(information == 0, np.inf, information))

    return directions
