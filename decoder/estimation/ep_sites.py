"""The sites of expectation propagation: Gaussian approximations of each candidate's prior.

Multiplied by the cavity estimate, a site has the true posterior's mean and variance (Minka 2001).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decoder.model.share_prior import (
    Posterior,
    SharePrior,
    fit_weights,
    flat_prior,
    ladder,
    lowest_bump,
)
from decoder.typing import Flags, Floats, Indices

FULL_FIT_PER_ROW = 4  # candidates per row, above which a fit of all would overfit the noise
MAX_WORK = 5e9  # multiplications per round, for about a second; about twenty rounds are usual
DAMPING = 0.6
MIN_PRECISION = -0.5  # of a site, relative to its cavity; negative sites widen the cavity
CUT_OFF = 0.02  # a precision's minimum distance from 0, and its minimum if it must be positive
ACTIVE_LOCAL_FDR = 0.2  # a candidate with a lower local fdr takes part in the fit
EM_STEPS = 20
LADDER_MOVED = 0.10  # the change of the lowest component that rebuilds the prior
_CONTENDER = 1.0  # a candidate with a lower z-score never becomes active
_BIN = 0.01  # bin width of z-scores that are summarized for the prior
_FAR = 1000.0  # z-scores are clipped here
_SUMMARIZE = 30_000  # with more candidates, z-scores are summarized


class Scores(NamedTuple):
    """The cavity estimates (M,) of all shares, and their standard errors."""

    estimates: Floats
    std_errors: Floats

    @property
    def z(self) -> Floats:
        """Estimates in units of their standard errors."""
        return self.estimates / self.std_errors


@dataclass(frozen=True)
class Sites:
    """The mean and variance of each candidate's site, (M,); 0 for candidates outside the fit.

    A negative variance means that the site widens its cavity: the share may be 0 or large."""

    mean: Floats
    variance: Floats
    active: Flags  # The candidates that take part
    shrunken: Floats  # Posterior means of the shares

    def updated(
        self,
        scores: Scores,
        prior: SharePrior,
        limit: int,
        *,
        full: bool,
        frozen: bool,
        least: float = MIN_PRECISION,
        damping: float = DAMPING,
    ) -> Sites:
        """Return the next sites, which match the posteriors under `prior`.

        Args:
            scores: The cavity (leave-one-out) estimates of all candidates.
            prior: The prior of the shares.
            limit: The maximum number of active candidates, unless `full`.
            full: Whether all candidates take part; otherwise only the most probable candidates do.
            frozen: Whether to keep the set of active candidates.
            least: The minimum precision of a site, relative to its cavity's.
            damping: The fraction of the step to take, in (0, 1].
        """
        z = scores.z
        outside = np.where(self.active, -np.inf, z)  # of equal errors, so the largest may enter
        lowest = np.partition(outside, -limit)[-limit] if limit < len(z) else -np.inf
        contenders = np.flatnonzero(full | self.active | (outside >= max(lowest, _CONTENDER)))
        near = Scores(scores.estimates[contenders], scores.std_errors[contenders])
        posterior = prior.posterior(*near)
        if full:
            chosen = np.ones(len(contenders), dtype=bool)
        elif frozen:
            chosen = self.active[contenders]
        else:
            chosen = posterior.local_fdr < ACTIVE_LOCAL_FDR
            if chosen.sum() > limit:
                chosen[np.argsort(posterior.local_fdr, kind="stable")[limit:]] = False
        near = Scores(near.estimates[chosen], near.std_errors[chosen])
        posterior = Posterior(*(column[chosen] for column in posterior))
        return self._matched(contenders[chosen], near, posterior, least, damping)

    def _matched(
        self, members: Indices, near: Scores, posterior: Posterior, least: float, damping: float
    ) -> Sites:
        """Return damped sites of clipped precision 1/t - 1/se^2; t is the posterior variance."""
        cavity = 1 / near.std_errors**2
        precision = 1 / np.maximum(posterior.variance, 1e-300) - cavity
        precision = np.maximum(precision, least * cavity)
        shift = posterior.mean * (cavity + precision) - near.estimates * cavity
        old = self.active[members]
        old_precision = 1 / self.variance[members[old]]
        old_shift = self.mean[members[old]] * old_precision
        precision[old] = damping * precision[old] + (1 - damping) * old_precision
        shift[old] = damping * shift[old] + (1 - damping) * old_shift
        damped, precision = precision, np.maximum(precision, least * cavity)
        precision = np.copysign(np.maximum(np.abs(precision), CUT_OFF * cavity), precision)
        # if the damped precision is clipped, cavity and site keep the posterior's mean
        matched = posterior.mean * (cavity + precision) - near.estimates * cavity
        shift = np.where(precision == damped, shift, matched)
        mean, variance, active, shrunken = np.zeros((4, len(self.mean)))
        mean[members], variance[members] = shift / precision, 1 / precision
        active[members], shrunken[members] = 1, posterior.mean
        return Sites(mean, variance, active.astype(bool), shrunken)


def refit_prior(
    prior: SharePrior | None,
    scores: Scores,
    active: Flags,
    *,
    may_rebuild: bool = False,
    null_z: Floats | None = None,
    steps: int = EM_STEPS,
) -> SharePrior:
    """Re-estimate the prior's weights from all scores; rebuild its components if errors changed.

    Args:
        prior: The previous prior; None to build a new prior.
        scores: The estimates and errors.
        active: Flags of the candidates in the fit.
        may_rebuild: Whether the components may be rebuilt.
        null_z: The normal deviates of the scores under a share of 0, (M,); None for the z-scores.
        steps: The number of EM steps.
    """
    lowest = lowest_bump(scores.std_errors)
    if prior is None or (may_rebuild and abs(lowest / prior.centers[0] - 1) > LADDER_MOVED):
        prior = flat_prior(ladder(scores.estimates, scores.std_errors))
    null_z = scores.z if null_z is None else null_z
    return fit_weights(prior, *_summarize(scores, null_z, active), steps)


def _summarize(
    scores: Scores, null_z: Floats, active: Flags
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return estimates, errors, null deviates and counts; inactive scores are binned."""
    if len(active) <= _SUMMARIZE or active.all():
        return *scores, null_z, np.ones(len(active))
    error = scores.std_errors[~active][0]
    bins = np.rint(np.clip(scores.z[~active], -_FAR, _FAR) / _BIN).astype(np.intp)
    lowest = bins.min()
    every = np.bincount(bins - lowest)
    filled = np.flatnonzero(every)
    counts, sums = every[filled], np.bincount(bins - lowest, null_z[~active])[filled]
    estimates = np.append(scores.estimates[active], (filled + lowest) * _BIN * error)
    errors = np.append(scores.std_errors[active], np.full(len(filled), error))
    deviates = np.append(null_z[active], sums / counts)
    return estimates, errors, deviates, np.append(np.ones(active.sum()), counts)


def work_of_all(candidates: int, shape: tuple[int, int], num_hashes: int) -> float:
    """Estimate the multiplications of an iteration in which all candidates take part.

    It is solved in the space of candidates or, if there are many, in the space of rows. `shape` is
    (m, k)."""
    cohorts, num_bits = shape
    rows, members = float(cohorts * num_bits), float(candidates)
    if members <= rows // 2:
        return members**2 * (2 * rows + 3 * members) + rows * num_bits**2
    return rows**3 + members * (cohorts * num_hashes) ** 2


def all_may_take_part(candidates: int, shape: tuple[int, int], num_hashes: int) -> bool:
    """Return whether a fit of all candidates is affordable and leaves enough degrees of freedom."""
    few = candidates <= FULL_FIT_PER_ROW * shape[0] * shape[1]
    return few and work_of_all(candidates, shape, num_hashes) <= MAX_WORK


def most_active(rows: int) -> int:
    """Return the maximum number of candidates in a partial fit: half of the rows, if affordable."""
    return int(min(rows / 2, (MAX_WORK / (2 * rows)) ** 0.5, (MAX_WORK / 3) ** (1 / 3)))
