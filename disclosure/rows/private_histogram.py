"""Baseline and DPCocGen: synthetic rows of a table that their holder has in clear.

Neighboring tables differ by one row, there or not, so that one cell changes by 1: geometric noise
of rate epsilon gives epsilon. The thesis takes Laplace noise, whose low bits can tell the count.

It then sets negative counts to 0, which is biased where most cells are empty: of 17,280 cells and
32,561 rows at epsilon .005 a mass of 1.76 million remains. `project` takes the same amount from all
cells and clips, so that the sum stays what it was: the nearest histogram of that sum.

Both are epsilon-differentially private for tables that differ by one row, there or not: a person
is one row. Where one row may be replaced by another, the guarantee is twice epsilon.

*Baseline* adds noise to the histogram of all combinations. *DPCocGen* spends a part of epsilon on
the same, groups the cells by what that noisy histogram shows, and spends the rest on the counts of
the groups; the costs add up. The thesis groups by MODL co-clustering, which on a noisy histogram
merges next to nothing; here a kd-tree does.
"""

import math
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from disclosure.errors import TableError
from disclosure.rows.decoded import MAX_VALUES, check_size
from disclosure.rows.domain import RowDomain
from disclosure.rows.estimates import nearest_shares
from disclosure.rows.kd_tree import KdTree
from disclosure.series import BudgetLedger, Charge, add_geometric, geometric_variance
from disclosure.series.noise import check_rate
from disclosure.typing import Floats, Integers, Table

_DEVIATIONS = 6  # of noise: more has a chance of about 1e-9
_MIN_RATE = 1e-12


def perturb(counts: Integers, epsilon: float, rng: np.random.Generator | None = None) -> Integers:
    """Counts with noise, unbiased; some are negative. rng: as in `add_geometric`."""
    return add_geometric(counts, 1, epsilon, rng)


def project(noisy: Floats, total: float) -> Floats:
    """The nearest counts without negative ones, of sum `total`, of the same shape; zeros for 0 or
    below (Duchi et al. 2008)."""
    if total <= 0:
        return np.zeros(noisy.shape)
    return nearest_shares(noisy.ravel(), np.ones(noisy.size), total).reshape(noisy.shape)


@dataclass(frozen=True)
class Baseline:
    """A private histogram: noise of the whole epsilon on every cell."""


@dataclass(frozen=True)
class DPCocGen:
    """A private histogram whose cells are grouped first: noise on every cell to find groups,
    then noise on the groups' counts.

    partitioner: groups cells.  margin_share, group_share: parts of epsilon for counts of each
    column alone, and for the histogram that the cells are grouped by; the groups get the rest.

    A group's count is spread over its cells in proportion to the product of the columns' counts,
    or evenly where `margin_share` is 0: the thesis does not say how, and has no such counts.
    """

    partitioner: KdTree = field(default_factory=KdTree)
    margin_share: float = 0.3
    group_share: float = 0.5

    def __post_init__(self) -> None:
        """Check."""
        last = 1 - self.margin_share - self.group_share
        if not (self.margin_share >= 0 and self.group_share > 0 and last > 0):
            raise TableError(f"margin_share >= 0, group_share > 0 and sum < 1 are needed: {self}")


@dataclass(frozen=True)
class NoisyHistogram:
    """A private histogram, which may be published as it is.

    counts: expected rows of each cell, 0 or more, of the domain's shape.  epsilon: what it cost.
    num_blocks: groups of cells that were counted together.
    """

    counts: Floats
    epsilon: float
    num_blocks: int


def estimate_histogram(
    table: Table,
    domain: RowDomain,
    epsilon: float,
    ledger: BudgetLedger,
    *,
    method: Baseline | DPCocGen | None = None,
    num_rows: int | None = None,
    rng: np.random.Generator | None = None,
) -> NoisyHistogram:
    """Estimate the histogram of a table's rows with epsilon-differential privacy.

    Args:
        table: a row a person. Columns that the domain does not name are not read.
        domain: stated beforehand, and not read off the table.
        epsilon: in nats; what the result tells of any one row, in all.
        ledger: of the data set; charged before any noise is drawn.
        method: `DPCocGen()` if None.
        num_rows: rows of the table, where that number is public: with it, the counts are made to
            add up. The true number must not be given where it is to be protected.
        rng: None draws the noise from the system's secure randomness; a generator is for tests.

    Raises:
        BudgetError: epsilon is not above 0, or the ledger does not suffice.
        TableError: a value that the domain does not declare; an epsilon
            so small that the noise alone may stand for more rows than can be drawn. Whether it is
            depends on the domain and epsilon, not on the rows; nothing is charged then.
    """
    chosen = method or DPCocGen()
    if rng is None:
        _check_rates(epsilon, chosen, len(domain.axes))
    if num_rows is None:
        _check_noise(epsilon, chosen, domain)
    counts = domain.histogram(table)
    if isinstance(chosen, Baseline):
        ledger.spend("synthetic rows: histogram", Charge(epsilon))
        noisy = perturb(counts, epsilon, rng).astype(float)
        total = _total(noisy, geometric_variance(1, epsilon), num_rows)
        return NoisyHistogram(project(noisy, total), epsilon, counts.size)
    ledger.spend("synthetic rows: margins, histogram and groups", Charge(epsilon))
    return _grouped(counts, epsilon, chosen, num_rows, rng)


def _check_rates(epsilon: float, method: Baseline | DPCocGen, num_columns: int) -> None:
    """Raises BudgetError where the system's noise has no such rate: before anything is charged."""
    Charge(epsilon)
    shares = [1.0]
    if isinstance(method, DPCocGen):
        margin = method.margin_share
        shares = [method.group_share, 1 - method.group_share - margin, margin / num_columns]
    for share in filter(None, shares):
        check_rate(epsilon * share)


def _check_noise(epsilon: float, method: Baseline | DPCocGen, domain: RowDomain) -> None:
    """Raises TableError where noise in the number of rows may pass what can be drawn.

    The number of rows is a sum over groups of cells, at most as many as there are cells.
    """
    Charge(epsilon)
    share = 1.0
    if isinstance(method, DPCocGen):
        share = 1 - method.margin_share - method.group_share
    cells = math.prod(domain.shape)
    rate = min(max(epsilon * share, _MIN_RATE), 1.0)
    most = _DEVIATIONS * math.sqrt(geometric_variance(1, rate) * cells)
    if most * len(domain.axes) > MAX_VALUES:
        raise TableError(
            f"epsilon {epsilon:g} over {cells:,} combinations: noise alone may stand for "
            f"{most:,.0f} rows, and {MAX_VALUES // len(domain.axes):,} can be drawn; take fewer "
            "columns or wider bins, or a larger epsilon. Nothing was charged"
        )


def _grouped(
    counts: Integers,
    epsilon: float,
    method: DPCocGen,
    num_rows: int | None,
    rng: np.random.Generator | None,
) -> NoisyHistogram:
    """DPCocGen. Reads the counts three times, and charges the three parts of epsilon."""
    first = epsilon * method.group_share
    second = epsilon - first - epsilon * method.margin_share
    seen = perturb(counts, first, rng).astype(float)
    margins = _noisy_margins(counts, epsilon * method.margin_share, rng)
    base = _expected(seen, geometric_variance(1, first), margins)
    blocks = method.partitioner.partition(seen, base, first).ravel()
    sums = perturb(np.bincount(blocks, counts.ravel()).astype(np.int64), second, rng).astype(float)
    joined = _joined(sums, seen.ravel(), blocks, first, second)
    total = _total(sums, geometric_variance(1, second), num_rows)
    held = project(joined, total)
    shares = base.ravel() / np.bincount(blocks, base.ravel())[blocks]
    return NoisyHistogram((held[blocks] * shares).reshape(counts.shape), epsilon, len(sums))


def draw_rows(
    histogram: NoisyHistogram,
    domain: RowDomain,
    num_rows: int | None = None,
    rng: np.random.Generator | None = None,
) -> dict[str, list[str]]:
    """Draw rows from an estimated histogram, by column.

    num_rows: how many; None: as many as the histogram holds.

    Raises TableError where the histogram is empty, num_rows is below 1, or rows by columns pass
    100 million values.
    """
    total = float(histogram.counts.sum())
    wanted = round(total) if num_rows is None else num_rows
    if total <= 0 or wanted < 1:
        raise TableError(
            f"{wanted} rows of a histogram of {total:g}: nothing can be drawn; a larger epsilon or "
            "a smaller domain leaves more than noise"
        )
    check_size(wanted, len(domain.axes))
    source = rng or np.random.default_rng()
    drawn = source.multinomial(wanted, histogram.counts.ravel() / total)
    cells = source.permutation(np.repeat(np.arange(drawn.size), drawn))
    return domain.rows(cells, source)


def _total(noisy: Floats, variance: float, num_rows: int | None) -> float:
    """The number of rows: given, or the sum of the counts, at least the standard error of it."""
    if num_rows is not None:
        return float(num_rows)
    return max(float(noisy.sum()), float(np.sqrt(variance * noisy.size)))


def _noisy_margins(
    counts: Integers, epsilon: float, rng: np.random.Generator | None
) -> list[tuple[Floats, float]]:
    """The counts of each column and the variance of their noise; none at epsilon 0."""
    if epsilon == 0:
        return []
    each = epsilon / counts.ndim
    exact = [counts.sum(axis=_others(axis, counts.ndim)) for axis in range(counts.ndim)]
    return [(perturb(one, each, rng).astype(float), geometric_variance(1, each)) for one in exact]


def _expected(seen: Floats, variance: float, margins: list[tuple[Floats, float]]) -> Floats:
    """What independent columns would give each cell, above 0; the same for all without margins.

    A column's counts are those measured and those of the noisy histogram, by their variances.
    """
    if not margins:
        return np.ones(seen.shape)
    laws = []
    for axis, (margin, noise) in enumerate(margins):
        summed = seen.sum(axis=_others(axis, seen.ndim))
        weight = 1 / (1 + noise / (variance * seen.size / len(margin)))
        total = max(float(margin.sum()), 1.0)
        held = project(weight * margin + (1 - weight) * summed, total)
        laws.append((held + 1.0) / (total + len(held)))
    found: Floats = reduce(np.multiply.outer, laws)
    return found * found.size


def _others(axis: int, ndim: int) -> tuple[int, ...]:
    return tuple(other for other in range(ndim) if other != axis)


def _joined(sums: Floats, seen: Floats, blocks: Integers, first: float, second: float) -> Floats:
    """Counts of blocks from both rounds of noise, weighted by the inverse of their variances."""
    sizes = np.bincount(blocks)
    before = np.bincount(blocks, seen)
    weight = 1 / (1 + geometric_variance(1, second) / (sizes * geometric_variance(1, first)))
    joined: Floats = weight * sums + (1 - weight) * before
    return joined
