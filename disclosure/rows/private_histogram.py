"""Baseline and DPCocGen: synthetic rows of a table that their holder has in clear.

Neighboring tables differ by one row, there or not, so that one cell changes by 1: geometric noise
of rate epsilon gives epsilon. The thesis takes Laplace noise, whose low bits can tell the count.
Where one row may be replaced by another, the guarantee is twice epsilon.

It then sets negative counts to 0, which is biased where most cells are empty: of 17,280 cells and
32,561 rows at epsilon .005 a mass of 1.76 million remains. `project` takes the same amount from all
cells and clips, so that the sum stays what it was: the nearest histogram of that sum.

*Baseline* adds noise to the histogram of all combinations. *DPCocGen* spends parts of epsilon on
the counts of each column alone and on the same histogram, groups the cells by what that noisy
histogram shows, and spends the rest on the counts of the groups; the costs add up. A group's count
is spread over its cells in proportion to the product of the columns' counts: the thesis does not
say how, and has no such counts. It groups by MODL co-clustering, which on a noisy histogram merges
next to nothing; here a kd-tree does, which sees the noisy histogram and nothing else of the table.
"""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np

from disclosure.errors import TableError
from disclosure.rows.decoded import MAX_VALUES, check_size
from disclosure.rows.domain import RowDomain
from disclosure.rows.estimates import nearest_shares
from disclosure.series import BudgetLedger, Charge, add_geometric, geometric_variance
from disclosure.series.noise import check_rate
from disclosure.typing import Floats, Integers, Table

Synthesizer = Literal["dpcocgen", "baseline"]
_MARGINS, _CELLS, _GROUPS = 0.3, 0.5, 0.2  # parts of epsilon
_DEVIATIONS = 6  # of noise: more has a chance of about 1e-9
_MIN_RATE = 1e-12
_PENALTY = 0.75  # of a split, in variances of the noise and for each doubling of the cells
_DEEPEST = 200  # cuts one below the other
_Axes = tuple[Integers, ...]  # the values of each axis that a block holds


def perturb(counts: Integers, epsilon: float, rng: np.random.Generator | None = None) -> Floats:
    """Counts with noise, unbiased; some are negative. rng: as in `add_geometric`."""
    return add_geometric(counts, 1, epsilon, rng).astype(float)


def project(noisy: Floats, total: float) -> Floats:
    """Return the nearest counts without negative ones, of sum `total`, of the same shape; zeros for
    0 or below (Duchi et al. 2008)."""
    if total <= 0:
        return np.zeros(noisy.shape)
    return nearest_shares(noisy.ravel(), np.ones(noisy.size), total).reshape(noisy.shape)


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
    method: Synthesizer = "dpcocgen",
    rng: np.random.Generator | None = None,
) -> NoisyHistogram:
    """Estimate the histogram of a table's rows with epsilon-differential privacy.

    Args:
        table: a row a person. Columns that the domain does not name are not read.
        domain: stated beforehand, and not read off the table.
        epsilon: in nats; what the result reveals of any one row, in all.
        ledger: of the data set; charged before any noise is drawn.
        method: how noise is added.
        rng: None draws the noise from the system's secure randomness; a generator is for tests.

    Raises:
        BudgetError: epsilon is not above 0, or the ledger does not suffice.
        TableError: a value that the domain does not declare; an epsilon
            so small that the noise alone may make more rows than can be drawn. Whether it is
            depends on the domain and epsilon, not on the rows; nothing is charged then.
    """
    charge, baseline = Charge(epsilon), method == "baseline"
    if rng is None:  # refused before anything is charged
        margin = _MARGINS / len(domain.axes)
        for share in (1.0,) if baseline else (_CELLS, _GROUPS, margin):
            check_rate(epsilon * share)
    _check_noise(epsilon, 1.0 if baseline else _GROUPS, domain)
    counts = domain.histogram(table)
    if not baseline:
        ledger.spend("synthetic rows: margins, histogram and groups", charge)
        return _grouped(counts, epsilon, rng)
    ledger.spend("synthetic rows: histogram", charge)
    noisy = perturb(counts, epsilon, rng)
    return NoisyHistogram(project(noisy, _total(noisy, epsilon)), epsilon, counts.size)


def _check_noise(epsilon: float, share: float, domain: RowDomain) -> None:
    """Raise TableError where noise in the number of rows may pass what can be drawn.

    The number of rows is a sum over groups of cells, at most as many as there are cells.
    """
    cells = math.prod(domain.shape)
    rate = min(max(epsilon * share, _MIN_RATE), 1.0)
    most = _DEVIATIONS * math.sqrt(geometric_variance(1, rate) * cells)
    if most * len(domain.axes) > MAX_VALUES:
        raise TableError(
            f"epsilon {epsilon:g} over {cells:,} combinations: noise alone may make "
            f"{most:,.0f} rows, and {MAX_VALUES // len(domain.axes):,} can be drawn; take fewer "
            "columns or wider bins, or a larger epsilon. Nothing was charged"
        )


def _grouped(counts: Integers, epsilon: float, rng: np.random.Generator | None) -> NoisyHistogram:
    """DPCocGen. Reads the counts three times, for the three parts of epsilon."""
    first = epsilon * _CELLS
    second = epsilon - first - epsilon * _MARGINS
    noisy = perturb(counts, first, rng)
    base = _expected(counts, noisy, epsilon * _MARGINS / counts.ndim, first, rng)
    blocks = partition(noisy, base, first).ravel()
    sums = perturb(np.bincount(blocks, counts.ravel()).astype(np.int64), second, rng)
    # counts of blocks from both rounds of noise, by the inverse of their variances
    noise = np.bincount(blocks) * geometric_variance(1, first)
    weight = 1 / (1 + geometric_variance(1, second) / noise)
    joined = weight * sums + (1 - weight) * np.bincount(blocks, noisy.ravel())
    sizes = project(joined, _total(sums, second))
    shares = base.ravel() / np.bincount(blocks, base.ravel())[blocks]
    return NoisyHistogram((sizes[blocks] * shares).reshape(counts.shape), epsilon, len(sums))


def _total(noisy: Floats, epsilon: float) -> float:
    """Return the number of rows: the sum of the counts, at least the standard error of it."""
    return max(float(noisy.sum()), math.sqrt(geometric_variance(1, epsilon) * noisy.size))


def _expected(
    counts: Integers, noisy: Floats, each: float, first: float, rng: np.random.Generator | None
) -> Floats:
    """What independent columns would give each cell, above 0.

    A column's counts are those measured, with noise of epsilon `each`, and those of the noisy
    histogram, of epsilon `first`, by their variances.
    """
    axes = range(counts.ndim)
    others = [tuple(other for other in axes if other != axis) for axis in axes]
    margins = [perturb(counts.sum(axis=rest), each, rng) for rest in others]
    laws = []
    for margin, rest in zip(margins, others, strict=True):
        of_histogram = geometric_variance(1, first) * noisy.size / len(margin)
        weight = 1 / (1 + geometric_variance(1, each) / of_histogram)
        total = max(float(margin.sum()), 1.0)
        sizes = project(weight * margin + (1 - weight) * noisy.sum(axis=rest), total)
        laws.append((sizes + 1.0) / (total + len(sizes)))
    joint: Floats = reduce(np.multiply.outer, laws)
    return joint * joint.size


def partition(noisy: Floats, expected: Floats, epsilon: float) -> Integers:
    """Group cells that are counted together, by a kd-tree; number the block of each cell.

    Each split cuts one axis in two. The values of the axis are first put in the order of their
    counts, relative to what is expected of them, as regression trees do with categories: of all
    ways to cut in two by one axis, the best is then one of the cuts in that order (Fisher 1958).
    The tree grows as long as a split could pay, and is pruned from its leaves: a split stays if it
    and those below it take more from the squared error than their price.

    Args:
        noisy: counts with geometric noise of this epsilon; some are negative. Any shape, an axis a
            column.
        expected: what the block of all cells would give each cell, above 0, of the same shape:
            cells of a block are in proportion to it.
        epsilon: of the noise, which reveals its variance.

    Returns:
        Numbers of blocks, from 0 and without gaps, of the shape of `noisy`.
    """
    price = _PENALTY * geometric_variance(1, epsilon) * max(math.log2(noisy.size), 1.0)

    def grow(axes: _Axes, depth: int) -> tuple[list[_Axes], float]:
        """Blocks of a node, and what they take from its squared error, less what they cost."""
        place = np.ix_(*axes)
        counts, weights = noisy[place], expected[place]
        if depth == _DEEPEST or counts.size == 1:
            return [axes], 0.0
        ratio = float((counts * weights).sum() / (weights**2).sum())
        if float(((counts - ratio * weights) ** 2).sum()) <= price:  # more no splits can take
            return [axes], 0.0
        gain, axis, order, cut = _best_split(counts, weights)
        halves = []
        for part in (order[:cut], order[cut:]):
            chosen = list(axes)
            chosen[axis] = np.sort(axes[axis][part])
            halves.append(grow(tuple(chosen), depth + 1))
        (first, gain_first), (second, gain_second) = halves
        won = gain - price + gain_first + gain_second
        return ([*first, *second], won) if won > 0 else ([axes], 0.0)

    blocks = np.zeros(noisy.shape, dtype=np.int64)
    whole = tuple(np.arange(size) for size in noisy.shape)
    for number, leaf in enumerate(grow(whole, 0)[0]):
        blocks[np.ix_(*leaf)] = number
    return blocks


def _best_split(counts: Floats, weights: Floats) -> tuple[float, int, Integers, int]:
    """The squared error that the best cut takes away; its axis, the order of values, the cut."""
    products, squares = counts * weights, weights**2
    best = (-1.0, 0, np.arange(counts.shape[0]), 1)
    for axis, size in enumerate(counts.shape):
        if size == 1:
            continue
        others = tuple(i for i in range(counts.ndim) if i != axis)
        top, bottom = products.sum(axis=others), squares.sum(axis=others)
        order = np.argsort(top / bottom, kind="stable")
        left_top, left_bottom = np.cumsum(top[order])[:-1], np.cumsum(bottom[order])[:-1]
        right_top, right_bottom = (
            np.cumsum(values[order][::-1])[::-1][1:] for values in (top, bottom)
        )
        gains = (
            left_top**2 / left_bottom + right_top**2 / right_bottom - top.sum() ** 2 / bottom.sum()
        )
        at = int(gains.argmax())
        if gains[at] > best[0]:
            best = (float(gains[at]), axis, order, at + 1)
    return best


def draw_rows(
    histogram: NoisyHistogram,
    domain: RowDomain,
    num_rows: int | None = None,
    rng: np.random.Generator | None = None,
) -> dict[str, list[str]]:
    """Draw rows from an estimated histogram, by column.

    Args:
        histogram: of the domain.
        domain: of the columns.
        num_rows: how many; None: as many as the histogram holds.
        rng: for tests.

    Raises:
        TableError: the histogram is empty, num_rows is below 1, or rows by columns pass 100 million
            values.
    """
    total = float(histogram.counts.sum())
    size = round(total) if num_rows is None else num_rows
    if total <= 0 or size < 1:
        raise TableError(
            f"{size} rows of a histogram of {total:g}: nothing can be drawn; a larger epsilon or "
            "a smaller domain leaves more than noise"
        )
    check_size(size, len(domain.axes))
    source = rng or np.random.default_rng()
    drawn = source.multinomial(size, histogram.counts.ravel() / total)
    cells = source.permutation(np.repeat(np.arange(drawn.size), drawn))
    return domain.rows(cells, source)
