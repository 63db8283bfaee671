"""Shares over time: a series for each detected value, and tests for change between two windows.

Values are detected once, in all windows together. In each window, their shares are then fitted by
weighted least squares; all other values count as unlisted. The change between two windows is fitted
to the difference of their bit shares, and its variance is estimated from that difference, so it
does not matter how devices repeat their permanent bits (docs/method.md, "Over time"). Gains and
losses of unlisted values remain in the residual, which provides the null distribution of a score.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit

from decoder.candidates.lists import Candidates, in_bit_order
from decoder.comparison.differences import (
    Differences,
    WindowChange,
    corrected_windows,
    differences,
    independent,
    window_pairs,
)
from decoder.errors import ConvergenceError, DecodeError
from decoder.estimation.estimate import by_bit, by_boolean
from decoder.estimation.least_squares import (
    Balance,
    CandidateSolver,
    centered_columns,
    null_variance,
    refit,
    unexplained,
)
from decoder.model.counts import Observed, observe, repetition
from decoder.model.noise import RandomString
from decoder.model.null_distribution import null_tail
from decoder.numerics.bit_tensor import Positions, one_thread
from decoder.options import DecodeOptions
from decoder.pipeline import decode
from decoder.progress import Progress, silent
from decoder.results.tables import Decoding
from decoder.typing import Flags, Floats, Indices
from rappor_core.aggregate import Aggregate

LOUDER = 3  # maximum number of times that the repetition is raised to explain a noisy difference
WORTH_TESTING = 0.1  # above this p-value by Student's t, the null distribution is not computed
MIN_LEFT = 0.01  # minimum fraction of a value's variance in a cohort not due to sampling the value
NODES, _density = np.polynomial.hermite_e.hermegauss(41)
WEIGHTS = _density / _density.sum()
MIN_DEVIATE = 1e-3  # a smaller deviate of a test would make the error unbounded


def compare_windows(
    before: Aggregate, after: Aggregate, candidates: Candidates, repeats: float | None = None
) -> Differences:
    """Estimate how much the share of each candidate changed, later window minus earlier.

    Args:
        before: The earlier window.
        after: The later window, with the same parameters.
        candidates: The list; differences are in its order.
        repeats: The reports per device in a window; None for the metric's own bound.

    Raises:
        DecodeError: The windows have different parameters.
    """
    if before.params != after.params:
        raise DecodeError(
            f"windows of {before.metric!r} have different parameters and cannot be compared; "
            "decode each, and compare the intervals"
        )
    listed = in_bit_order(candidates, before)
    numbers = {value: number for number, value in enumerate(listed.values)}
    followed = np.array([numbers[value] for value in candidates.values])
    tensor, direct = listed.positions(before.params), listed.direct(before.params)
    first, second = (
        Window(side, tensor, followed, repetition(side, repeats), direct)
        for side in (before, after)
    )
    with one_thread():
        return change(first, second)


@dataclass(frozen=True)
class Window:
    """The counts of one window and the values whose shares are tracked."""

    aggregate: Aggregate
    tensor: Positions
    found: Indices  # Indices of the tracked values in `tensor`
    repeats: float  # The repetition rho of the reports
    direct: bool  # Whether each value has a separate bit

    @property
    def present(self) -> Flags:
        """Flags of the cohorts that have reports, (m,)."""
        return np.array(self.aggregate.reports_per_cohort) > 0

    def observed(self, cohorts: Flags) -> Observed:
        """Return the debiased counts of the flagged cohorts, and the bits of the tracked values."""
        followed = self.tensor if self.direct else self.tensor[self.found]
        return observe(self.aggregate, followed, self.repeats, cohorts)

    def fit(self) -> tuple[Floats, Floats, float]:
        """Return the tracked values' shares and errors, (D,) each, and the degrees of freedom."""
        observed = self.observed(self.present)
        if self.direct:
            shares, errors = _direct(observed)
            return shares[self.found], errors[self.found], np.inf
        columns = centered_columns(observed.positions, observed.noise.random)
        noise = observed.noise_of(_first_shares(observed, columns))
        fitted = refit(noise, observed.centered, columns, observed.noise.random)
        errors = np.sqrt(fitted.balance.excess * np.diag(fitted.covariance))
        freedom = observed.centered.size - len(observed.centered) - columns.shape[1]
        return fitted.shares, errors, float(max(freedom, 1))


def change(before: Window, after: Window) -> Differences:
    """Fit the changes of the tracked shares (D,) to the cohorts with reports in both windows.

    With a prior N(0, 1), values that the cohorts cannot distinguish get wide errors."""
    common = before.present & after.present
    first, second = before.observed(common), after.observed(common)
    if before.direct:
        shares, errors = independent(_direct(first), _direct(second))
        return differences(shares[before.found], errors[before.found])
    fitted = _fit(first, second)
    for _ in range(LOUDER):  # noisier than each window implies, so reports repeat more often
        if fitted.balance.ratio <= 1:
            break
        repeats = first.noise.repetition_of(fitted.balance.ratio)
        first, second = first.repeated(repeats), second.repeated(repeats)
        fitted = _fit(first, second)
    cohorts, num_bits = first.bit_shares.shape
    freedom = float(max(cohorts * (num_bits - 1) - len(first.positions), 1))
    without = 1 - np.diag(fitted.covariance)  # removes each value's prior from its posterior
    shares = fitted.means / without
    errors = np.sqrt(fitted.balance.ratio * np.diag(fitted.covariance) / without)
    p = 2 * stdtr(freedom, -np.abs(shares / errors))
    for i in np.flatnonzero(p < WORTH_TESTING):  # at least the p-values of the null distribution
        exact = 2 * _tail_without(fitted, int(i), first.noise.random)
        if exact > p[i]:
            deviate = -float(stdtrit(freedom, min(exact, 1.0) / 2))
            errors[i] = abs(shares[i]) / max(deviate, MIN_DEVIATE)
    return differences(shares, errors, freedom=freedom)


def _direct(observed: Observed) -> tuple[Floats, Floats]:
    estimate = (by_boolean if observed.bit_shares.shape[1] == 1 else by_bit)(observed, 0.95)
    return estimate.shares, estimate.std_errors


def _first_shares(observed: Observed, columns: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(columns, observed.centered.ravel(), rcond=None)[0])


class _Fitted(NamedTuple):
    """The fitted differences between two windows; S is the noise of the cohorts."""

    means: Floats  # Posterior means e, (D,)
    covariance: Floats  # Posterior covariance H, (D, D)
    directions: Floats  # V_-i^-1 z_i, (n, D); V_-i excludes value i's prior
    columns: Floats  # z_i, (n, D)
    balance: Balance
    weighed: Floats  # S^-1 z_i, (n, D)
    own: Floats  # The part of S that comes from sampling each value, (m, D)


def _fit(first: Observed, second: Observed) -> _Fitted:
    target, random = second.bit_shares - first.bit_shares, first.noise.random
    columns = centered_columns(first.positions, random)
    values, freedom = columns.shape[1], target.size - len(target)
    if values >= freedom:
        raise ConvergenceError(
            f"the changes of {values:,} values are to be told apart by {freedom:,} numbers (the "
            "bits of each cohort but one), which leaves nothing to read the noise from; compare "
            "fewer values, or collect from more cohorts"
        )
    noise, sampling = np.zeros(1), np.zeros(1)
    for window in (first, second):
        shares = _first_shares(window, columns)
        noise = noise + window.noise_of(shares)
        shares = np.maximum(shares, 0.0)
        shares = shares / max(float(shares.sum()), 1.0)
        sampled = window.noise.repetition * shares * (1 - shares)
        sampling = sampling + sampled / window.noise.reports[:, None]
    solver = CandidateSolver(noise, target, columns, np.ones(values), random)
    balance = unexplained(solver(0.0), 0.0, random)
    _, F, _, H = solver.factors(0.0)
    means = H @ (F.T @ target.ravel())
    return _Fitted(means, H, (F @ H) / np.diag(H), columns, balance, F, sampling)


def _tail_without(fitted: _Fitted, i: int, random: RandomString) -> float:
    """Return the p-value of value i's score in the direction of its estimate, given no change.

    The residual is V^-1 y, where V excludes value i's prior and sampling. V has the update U C
    U'; the blocks of U are z_i of each cohort. Sampling adds a variance to the score."""
    balance, H = fitted.balance.solution.residual, fitted.covariance
    (m, k), sign = balance.shape, np.sign(fitted.means[i])
    z, blocks = fitted.columns[:, i].reshape(m, k), fitted.weighed.reshape(m, k, -1)
    u = sign * (balance + fitted.means[i] * fitted.directions[:, i].reshape(m, k))
    sums = np.einsum("jk,jkd->dj", z, blocks)  # Z' S^-1 U, (D, m)
    others = H @ sums - np.outer(H[i], H[i] @ sums) / H[i, i]
    spread = np.diag(sums[i]) - sums.T @ others  # U' V^-1 U, (m, m)
    scale = np.sqrt(fitted.own[:, i])
    part, axes = np.linalg.eigh(scale[:, None] * spread * scale)
    part = np.clip(part, 0.0, 1 - MIN_LEFT)
    along = axes.T @ (scale * (z * u).sum(axis=1))
    back = scale * (axes @ (along / (1 - part)))
    u = u + back[:, None] * blocks[:, :, i] - blocks @ (others @ back)
    variance = null_variance(u, random)
    score = (z * u).sum() / np.sqrt(variance)
    to_score = axes.T @ (scale * spread.sum(axis=1)) / (1 - part)
    sampled = np.sqrt((to_score**2).sum() / variance)
    return float(ndtr(-null_tail(u, random).deviate(score - sampled * NODES)) @ WEIGHTS)


@dataclass(frozen=True)
class Series:
    """Unbiased shares of D values in W windows with intervals, (W, D), and their changes.

    Changes are between neighboring windows, and from the first to the last."""

    whole: Decoding  # The decoding of all windows together, in which the values were detected
    values: tuple[str, ...]
    windows: tuple[Aggregate, ...]
    shares: Floats
    std_errors: Floats
    low: Floats
    high: Floats
    changes: tuple[WindowChange, ...]


def decode_over_time(
    aggregates: Sequence[Aggregate],
    candidates: Candidates,
    options: DecodeOptions | None = None,
    progress: Progress = silent,
) -> Series:
    """Decode several windows of one metric, and test which values changed.

    Args:
        aggregates: Two or more windows, oldest first.
        candidates: The list of values.
        options: The options of each decoding; None for the defaults.
        progress: A callback, called with (stage, done, total).

    Raises:
        DecodeError: There are fewer than two windows, or their parameters differ.
    """
    pairs = window_pairs(len(aggregates))
    options = options or DecodeOptions()
    aggregates = [aggregate.without(options.without_cohorts) for aggregate in aggregates]
    candidates = in_bit_order(candidates, aggregates[0])
    tensor = candidates.positions(aggregates[0].params, progress)
    candidates = replace(candidates, tensor=tensor)
    whole = decode(reduce(Aggregate.merge, aggregates), candidates, options, progress)
    rows, direct = whole.candidates.found, candidates.direct(whole.params)
    if whole.diagnostics.method != "direct":  # shared bits: half the number that can be fitted
        rows = rows[: whole.params.num_cohorts * (whole.params.num_bits - 1) // 2]
    windows = [Window(a, tensor, rows, repetition(a, options.repeats), direct) for a in aggregates]
    with one_thread():
        fits = []
        for done, window in enumerate(windows, start=1):
            fits.append(window.fit())
            progress("windows", done, len(windows))
        names = tuple(row.value for row in whole.detected)[: len(rows)]
        changes = [WindowChange(i, j, names, change(windows[i], windows[j]))
                   for i, j in pairs]  # fmt: skip
    shares, errors, freedoms = (np.array(part) for part in zip(*fits, strict=True))
    quantiles = -np.asarray(stdtrit(freedoms, (1 - options.level) / 2))
    margin = quantiles[:, None] * errors
    return Series(
        whole=whole,
        values=names,
        windows=tuple(aggregates),
        shares=shares,
        std_errors=errors,
        low=np.clip(shares - margin, 0, 1),
        high=np.clip(shares + margin, 0, 1),
        changes=corrected_windows(changes, options.alpha),
    )
