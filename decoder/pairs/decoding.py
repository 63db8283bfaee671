"""`decode_pairs`, which estimates the joint table of a pair metric and tests independence.

See docs/method.md, "Two things together"."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, helmert
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.special import chdtrc, ndtri

from decoder.candidates.lists import metric_candidates
from decoder.decoded_window import DecodedWindow, window_fields
from decoder.errors import ConvergenceError, DecodeError, ImproperError
from decoder.inference.intervals import ShareTable, fieller
from decoder.model.counts import debias, repetition
from decoder.model.noise import BitNoise
from decoder.numerics.bit_tensor import dense_columns, one_thread
from decoder.numerics.optimization import project_simplex
from decoder.options import DecodeOptions
from decoder.typing import Floats
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.pair_kind import Pair

MAX_CELLS = 4_000  # the covariance has the square of this number of entries
SUM_WEIGHT = 1e3  # the weight of the equation that shares sum to 1, relative to the reports
RANK = 1e-9  # smaller eigenvalues, relative to the largest, are unknown directions
MIN_NOISE = 1e-300
MIN_MARGIN = 1e-3  # the minimum width of a prior, relative to an even margin
TAUS = np.concatenate([[0.0], np.geomspace(1e-12, 1e4, 801)])  # 5 % apart


class Independence(NamedTuple):
    """A chi-squared test of whether the two sides are independent, decided at a level."""

    statistic: float
    freedom: int  # The degrees of freedom of `statistic`
    p_value: float
    level: float

    @property
    def rejected(self) -> bool:
        """Whether the test rejects independence at its level."""
        return self.p_value <= self.level


@dataclass(frozen=True)
class JointTable(DecodedWindow):
    """Unbiased shares of reports with each pair of values, (M1, M2)."""

    of: tuple[str, str]  # The names of the two sides
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    estimate: Floats
    covariance: Floats  # The covariance of the cells, row by row
    fitted: Floats  # The nearest table without negative shares, which sums to 1
    shrunk: Floats  # Shrunk toward the product of the margins if evidence is weak
    independence: Independence
    level: float
    warnings: tuple[str, ...] = ()

    @property
    def cells(self) -> ShareTable:
        """The shares of all cells, with intervals."""
        variances = np.maximum(np.diag(self.covariance), 0.0).reshape(self.estimate.shape)
        return self._shares(self.estimate, np.sqrt(variances))

    def margin(self, side: int) -> ShareTable:
        """Return the shares of one side's values (0: rows, 1: columns)."""
        sums = side_sums(self.estimate.shape, side)
        errors = np.sqrt(np.maximum(np.einsum("ia,ab,ib->i", sums, self.covariance, sums), 0.0))
        return self._shares(sums @ self.estimate.ravel(), errors)

    def conditional(self, given: int) -> ShareTable:
        """Return the share of each cell among the reports with the value of side `given`.

        The intervals are Fieller's; they range from 0 to 1 if the share of the given value is not
        detected."""
        sums = side_sums(self.estimate.shape, given)
        across = sums @ self.covariance
        place = np.indices(self.estimate.shape)[given].ravel()
        ratio = fieller(
            (self.estimate.ravel(), np.maximum(np.diag(self.covariance), 0.0)),
            ((sums @ self.estimate.ravel())[place], np.einsum("ia,ia->i", across, sums)[place]),
            across[place, np.arange(self.estimate.size)],
            float(ndtri(0.5 + self.level / 2)),
        )
        parts = (ratio.estimate, ratio.std_error, *np.clip([ratio.low, ratio.high], 0.0, 1.0))
        return ShareTable(*(part.reshape(self.estimate.shape) for part in parts))

    def _shares(self, estimate: Floats, errors: Floats) -> ShareTable:
        reach = float(ndtri(0.5 + self.level / 2)) * errors
        return ShareTable(estimate, errors, *np.clip([estimate - reach, estimate + reach], 0, 1))


def decode_pairs(aggregate: Aggregate, options: DecodeOptions | None = None) -> JointTable:
    """Estimate the joint table of a pair metric.

    Args:
        aggregate: The aggregate of a metric of kind `pair`, with its definition.
        options: The options; `level`, `repeats` and `alpha` (the level of the test) are used.

    Raises:
        DecodeError: The metric is of a different kind, has no reports, or more than 4,000 pairs.
    """
    options = options or DecodeOptions()
    aggregate = aggregate.without(options.without_cohorts)
    details = aggregate.definition.get("details")
    if not isinstance(details, dict) or set(details) != {"of", "values"}:
        raise DecodeError(
            f"metric {aggregate.metric!r} is not a pair, or its definition is not in the aggregate"
        )
    pair = Pair.from_dict(details)
    if pair.num_pairs > MAX_CELLS:
        raise DecodeError(
            f"metric {aggregate.metric!r} has {pair.num_pairs:,} pairs, {MAX_CELLS:,} at most: "
            "merge rare values into one"
        )
    counts = pair_counts(aggregate, pair, options)
    with one_thread():
        fit = fit_pair(counts)
        estimate, covariance = fit.estimate.reshape(pair.shape), fit.covariance()
        table = JointTable(
            **window_fields(aggregate),
            of=pair.of,
            rows=pair.labels(0),
            columns=pair.labels(1),
            estimate=estimate,
            covariance=covariance,
            fitted=nearest_table(estimate, fit.curvature),
            shrunk=shrunk_table(estimate, covariance),
            independence=pair_independence(fit, options.alpha),
            level=options.level,
        )
    warnings, num_detected = [], int((table.cells.low > 0).sum())
    if not table.independence.rejected:
        warnings.append(
            f"independence is not rejected (p = {table.independence.p_value:.3g}): differences "
            "between rows may be noise; use the shrunk table (no interval is of it), a longer "
            "window, shorter lists or a larger epsilon"
        )
    if num_detected * 4 < estimate.size:
        warnings.append(f"{num_detected} of {estimate.size:,} cells are detected")
    return replace(table, warnings=tuple(warnings))


@dataclass(frozen=True)
class PairCounts:
    """Debiased shares (m, k) in cohorts with reports, and each pair's 0/1 bits, (m, k, M)."""

    shares: Floats
    reports: Floats
    designs: Floats
    shape: tuple[int, int]
    noise: BitNoise
    repetition: float = 1.0

    def bit_weights(self, design: Floats) -> Floats:
        """Return the inverse variance (k,) of each debiased bit at the mean share of the pairs."""
        mean = np.full(len(design), float(design.mean()))
        noise = self.noise.mechanism_variance(mean, self.repetition)
        return np.asarray(1 / (noise + self.repetition * mean * (1 - mean)))


def pair_counts(aggregate: Aggregate, pair: Pair, options: DecodeOptions) -> PairCounts:
    """Return the debiased counts in a window. Raises DecodeError if it has no reports."""
    params, reports = aggregate.params, np.array(aggregate.reports_per_cohort, dtype=np.float64)
    present = reports > 0
    if not present.any():
        raise DecodeError(f"metric {aggregate.metric!r} has no reports in this window")
    noise = BitNoise.of(params.mechanism)
    shares = debias(np.array(aggregate.bit_counts, float)[present], reports[present], noise)
    positions = metric_candidates(aggregate).positions(params)[:, present]
    designs = dense_columns(positions, params.num_bits).reshape(*shares.shape, -1)
    repeats = repetition(aggregate, options.repeats)
    return PairCounts(shares, reports[present], designs, pair.shape, noise, repeats)


@dataclass(frozen=True)
class PairFit:
    """The unbiased shares P (M,) of the pairs, the information matrix H, and the counts."""

    estimate: Floats
    information: Floats
    counts: PairCounts

    @property
    def curvature(self) -> Floats:
        """The information H without the constraint that the shares sum to 1."""
        return self.information - SUM_WEIGHT * float(self.counts.reports.sum())

    def covariance(self, shares: Floats | None = None) -> Floats:
        """Return the covariance of P at `shares` (M,), or at the estimate on the simplex."""
        table = project_simplex(self.estimate) if shares is None else shares
        inner = np.zeros_like(self.information)
        counts = self.counts
        for design, number in zip(counts.designs, counts.reports, strict=True):
            weighted = design * counts.bit_weights(design)[:, None]
            mean = design @ table
            bits = (design * table) @ design.T - np.outer(mean, mean)
            noise = counts.noise.mechanism_variance(np.clip(mean, 0, 1), counts.repetition)
            spread = counts.repetition * bits + np.diag(noise)
            inner += number * weighted.T @ spread @ weighted
        factor = _factor(self.information)
        half = cho_solve(factor, inner)
        return np.asarray(cho_solve(factor, half.T))


def fit_pair(counts: PairCounts) -> PairFit:
    """Fit the pairs' shares, which sum to 1, to the bit shares by weighted least squares.

    Raises ImproperError if two pairs have the same bits in every cohort."""
    cells = counts.designs.shape[2]
    weight = SUM_WEIGHT * float(counts.reports.sum())
    information, target = np.full((cells, cells), weight), np.full(cells, weight)
    for design, number, share in zip(counts.designs, counts.reports, counts.shares, strict=True):
        weighted = number * design * counts.bit_weights(design)[:, None]
        information += weighted.T @ design
        target += weighted.T @ share
    return PairFit(np.asarray(cho_solve(_factor(information), target)), information, counts)


def _factor(information: Floats) -> tuple[Floats, bool]:
    try:
        factor: tuple[Floats, bool] = cho_factor(information)
    except np.linalg.LinAlgError as error:
        raise ImproperError(
            f"{len(information):,} pairs cannot be distinguished by the bits of these cohorts: use "
            "more bits or cohorts, or merge rare values"
        ) from error
    if float(np.diag(factor[0]).min()) < RANK * float(np.diag(factor[0]).max()):
        raise ImproperError(
            f"some of {len(information):,} pairs have the same bits in every cohort: use more "
            "cohorts, or merge rare values"
        )
    return factor


def pair_independence(fit: PairFit, level: float) -> Independence:
    """Test that the table is the product of its margins (Wald, with the null's covariance).

    The departures d = p - r c', minus the covariance of the estimated margins, have mean 0 under
    independence; T = d' Cov(d)^-1 d over their (M1 - 1)(M2 - 1) dimensions."""
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
    """Return the Wald statistic T = d' V^+ d with its p-value, with rank V degrees of freedom.

    Raises ImproperError if there is nothing to test."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    is_identified = values > RANK * max(float(values[-1]), 0.0)
    if not is_identified.any():
        raise ImproperError("the values of the two sides cannot be told apart")
    scores = vectors[:, is_identified].T @ departure
    statistic = float((scores**2 / values[is_identified]).sum())
    freedom = int(is_identified.sum())
    return Independence(statistic, freedom, float(chdtrc(freedom, statistic)), level)


def side_sums(shape: tuple[int, ...], side: int) -> Floats:
    """Return the matrix (values of the side, cells) that sums cells to the margin of a side."""
    place = np.indices(shape)[side].ravel()
    return np.asarray((place[None, :] == np.arange(shape[side])[:, None]).astype(np.float64))


def margins(table: Floats) -> tuple[Floats, Floats]:
    """Return the margins of both sides of a table (M1, M2), projected onto the simplex."""
    return project_simplex(table.sum(axis=1)), project_simplex(table.sum(axis=0))


def nearest_table(estimate: Floats, information: Floats, steps: int = 300) -> Floats:
    """Return the table q nearest to an estimate p with q >= 0 and sum 1: argmin (q-p)' H (q-p).

    FISTA with restarts (Beck, Teboulle 2009; O'Donoghue, Candes 2015) runs until no share moves by
    more than 1e-9 of the sum; SciPy's nnls takes a minute for 4,000 cells.

    Args:
        estimate: The estimate p, (M1, M2).
        information: The symmetric matrix H, without a weight on the sum.
        steps: The maximum number of steps.

    Raises:
        ConvergenceError: The steps are not sufficient.
    """
    target, size = estimate.ravel(), estimate.size

    def centred(change: Floats) -> Floats:
        moved = information @ (change - change.mean())
        return np.asarray(moved - moved.mean())

    # Tables differ only by changes with sum 0, so the step length follows their curvature. With the
    # curvature of the sum, the search would stop far from the nearest table if noise is strong.
    largest = float(information[0, 0])  # a single cell cannot change
    if size > 1:
        start = np.arange(size) - (size - 1) / 2 + 0.1 * (-1.0) ** np.arange(size)
        operator = LinearOperator((size, size), matvec=centred, dtype=np.float64)
        largest = float(eigsh(operator, 1, v0=start, return_eigenvectors=False, tol=1e-3)[0])
    bound = 1.01 * largest
    nearest = ahead = project_simplex(target)
    momentum = 1.0
    for _ in range(steps):
        moved = project_simplex(ahead - information @ (ahead - target) / bound)
        if float((ahead - moved) @ (moved - nearest)) > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / following * (moved - nearest)
        change = float(np.abs(moved - nearest).max())
        nearest, momentum = moved, following
        if change < 1e-9 / size:
            return np.asarray(nearest.reshape(estimate.shape))
    raise ConvergenceError(f"the nearest table was not reached in {steps} steps")


def shrunk_table(estimate: Floats, covariance: Floats) -> Floats:
    """Return the empirical Bayes table: posterior means, shrunk toward the product of the margins.

    The departures of cells from the product are modeled as normal around 0, with variances of tau
    times the product; tau is the most likely value, given the part of the departures that the
    margins leave free.

    Args:
        estimate: The estimated table, (M1, M2).
        covariance: The covariance of its cells, (M1 M2, M1 M2).
    """
    both = margins(estimate)
    product = np.outer(*both)
    (rows, back_rows), (columns, back_columns) = (_unit_contrasts(margin) for margin in both)

    def contrasted(cells: Floats) -> Floats:
        number = cells.shape[1]
        cube = columns.T @ np.tensordot(rows.T, cells.reshape(*estimate.shape, number), 1)
        return np.asarray(cube.reshape(rows.shape[1] * columns.shape[1], number))

    noise, axes = np.linalg.eigh(contrasted(contrasted(covariance).T))
    noise = np.maximum(noise, MIN_NOISE)
    contrasts = rows.T @ (estimate - product) @ columns
    scores = axes.T @ contrasts.ravel()
    spreads = noise + TAUS[:, None]  # the variances of scores that are normal around 0
    tau = float(TAUS[np.argmin((np.log(spreads) + scores**2 / spreads).sum(axis=1))])
    shrunk = (axes @ (tau / (noise + tau) * scores)).reshape(contrasts.shape)
    departed = product + back_rows @ shrunk @ back_columns.T
    return np.asarray(project_simplex(departed.ravel()).reshape(estimate.shape))


def _unit_contrasts(margin: Floats) -> tuple[Floats, Floats]:
    """Return contrasts (M, M - 1) of variance 1 for departures with variances of the margin (M,).

    The second result maps contrasts back to departures of sum 0."""
    basis = helmert(len(margin)).T
    width = np.maximum(margin, MIN_MARGIN / len(margin))
    root = np.linalg.cholesky((basis.T * width) @ basis)
    return np.linalg.solve(root, basis.T).T, basis @ root
