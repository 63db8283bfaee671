"""Baseline and DPCocGen: private synthetic rows of a raw table.

Neighboring tables differ by the presence of one row, so one cell changes by 1: geometric noise of
rate epsilon provides epsilon. The thesis uses Laplace noise, whose low bits can reveal the count.
If one row may be replaced with a different row, the guarantee is twice epsilon. The thesis then
sets negative counts to 0, which is biased if most cells are empty: with 17,280 cells and 32,561
rows at epsilon .005, a mass of 1.76 million remains. `project` subtracts the same amount from all
cells and clips them, which preserves the sum and yields the nearest histogram with that sum.

*Baseline* adds noise to the histogram of all combinations. *DPCocGen* spends fractions of epsilon
on the counts of each column alone and on the same histogram, groups the cells by the noisy
histogram, and spends the remainder on the counts of the groups; the costs add up. A group's count
is distributed over its cells in proportion to the product of the columns' counts: the thesis does
not say how, and has no such counts. It groups by MODL co-clustering, which merges almost nothing in
a noisy histogram; this module uses a kd-tree, which depends only on the noisy histogram."""

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
_MARGINS, _CELLS, _GROUPS = 0.3, 0.5, 0.2  # fractions of epsilon
_DEVIATIONS = 6  # standard deviations of noise, exceeded with probability about 1e-9
_MIN_RATE = 1e-12
_PENALTY = 0.75  # of a split, in variances of the noise and for each doubling of the cells
_DEEPEST = 200  # the maximum depth of the tree
_Axes = tuple[Integers, ...]  # the values of each axis in a block


def perturb(counts: Integers, epsilon: float, rng: np.random.Generator | None = None) -> Floats:
    """Add unbiased noise to counts, some of which become negative; `rng` as in `add_geometric`."""
    return add_geometric(counts, 1, epsilon, rng).astype(float)


def project(noisy: Floats, total: float) -> Floats:
    """Return the nearest nonnegative counts of sum `total` (Duchi et al. 2008), in the same shape.

    They are zeros if the total is 0 or below."""
    if total <= 0:
        return np.zeros(noisy.shape)
    return nearest_shares(noisy.ravel(), np.ones(noisy.size), total).reshape(noisy.shape)


@dataclass(frozen=True)
class NoisyHistogram:
    """A differentially private histogram, which may be published unchanged."""

    counts: Floats  # Expected rows of each cell, 0 or more, in the domain's shape
    epsilon: float  # The epsilon that it cost
    num_blocks: int  # Groups of cells that were counted together


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
        table: The table, one row per person. Columns that are not in the domain are not read.
        domain: The domain, declared in advance and not read from the table.
        epsilon: The total privacy loss, in nats, about any one row.
        ledger: The data set's ledger, charged before any noise is drawn.
        method: The method of adding noise.
        rng: None for the system's secure randomness; a generator is for tests.

    Raises:
        BudgetError: epsilon is not above 0, or the ledger's budget is insufficient.
        TableError: A value is not declared, or epsilon is so small that noise alone may create more
            rows than can be drawn. The latter depends only on the domain and epsilon, not on the
            rows; in this case nothing is charged.
    """
    charge, baseline = Charge(epsilon), method == "baseline"
    if rng is None:  # reject before anything is charged
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
    """Raise TableError if noise in the number of rows may exceed what can be drawn.

    The number of rows is a sum over groups of cells, which are at most the number of cells."""
    cells = math.prod(domain.shape)
    rate = min(max(epsilon * share, _MIN_RATE), 1.0)
    most = _DEVIATIONS * math.sqrt(geometric_variance(1, rate) * cells)
    if most * len(domain.axes) > MAX_VALUES:
        raise TableError(
            f"epsilon {epsilon:g} over {cells:,} combinations: noise alone may make {most:,.0f} "
            f"rows, but at most {MAX_VALUES // len(domain.axes):,} can be drawn; use fewer "
            "columns, wider bins, or a larger epsilon. Nothing was charged"
        )


def _grouped(counts: Integers, epsilon: float, rng: np.random.Generator | None) -> NoisyHistogram:
    """Run DPCocGen, which reads the counts three times, for the three fractions of epsilon."""
    first = epsilon * _CELLS
    second = epsilon - first - epsilon * _MARGINS
    noisy = perturb(counts, first, rng)
    base = _expected(counts, noisy, epsilon * _MARGINS / counts.ndim, first, rng)
    blocks = partition(noisy, base, first).ravel()
    sums = perturb(np.bincount(blocks, counts.ravel()).astype(np.int64), second, rng)
    # combine the counts of blocks from both rounds of noise by their inverse variances
    noise = np.bincount(blocks) * geometric_variance(1, first)
    weight = 1 / (1 + geometric_variance(1, second) / noise)
    joined = weight * sums + (1 - weight) * np.bincount(blocks, noisy.ravel())
    sizes = project(joined, _total(sums, second))
    shares = base.ravel() / np.bincount(blocks, base.ravel())[blocks]
    return NoisyHistogram((sizes[blocks] * shares).reshape(counts.shape), epsilon, len(sums))


def _total(noisy: Floats, epsilon: float) -> float:
    """Return the number of rows: the sum of the counts, but at least its standard error."""
    return max(float(noisy.sum()), math.sqrt(geometric_variance(1, epsilon) * noisy.size))


def _expected(
    counts: Integers, noisy: Floats, each: float, first: float, rng: np.random.Generator | None
) -> Floats:
    """Return the expected count of each cell, above 0, if columns were independent.

    A column's counts are the measured counts, with noise of epsilon `each`, combined with the noisy
    histogram's counts, of epsilon `first`, by their variances."""
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
    """Group cells into blocks to be counted together, by a kd-tree; return each cell's block.

    Each split divides one axis in two. The values of the axis are first ordered by their counts
    relative to the expected counts, as in regression trees with categories; the best split of an
    axis then cuts that order in two (Fisher 1958). The tree grows while a split could
    be worthwhile, and is pruned from its leaves: a split is kept if it and the splits below it
    reduce the squared error by more than their price.

    Args:
        noisy: Counts with geometric noise of this epsilon, some negative, one axis per column.
        expected: The expected counts, above 0, to which the cells of a block are proportional.
        epsilon: The epsilon of the noise, which determines its variance.

    Returns:
        Block numbers, from 0 without gaps, of the shape of `noisy`.
    """
    price = _PENALTY * geometric_variance(1, epsilon) * max(math.log2(noisy.size), 1.0)

    def grow(axes: _Axes, depth: int) -> tuple[list[_Axes], float]:
        """Return the blocks of a node, and the reduction of its squared error minus their price."""
        place = np.ix_(*axes)
        counts, weights = noisy[place], expected[place]
        if depth == _DEEPEST or counts.size == 1:
            return [axes], 0.0
        ratio = float((counts * weights).sum() / (weights**2).sum())
        if float(((counts - ratio * weights) ** 2).sum()) <= price:  # no split can gain more
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
    """Return the best split: its reduction of squared error, axis, value order and cut."""
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
        histogram: The histogram of the domain.
        domain: The domain of the columns.
        num_rows: The number of rows; None for the sum of the histogram.
        rng: A generator for tests.

    Raises:
        TableError: The histogram is empty, num_rows is below 1, or there are more than 100 million
            values.
    """
    total = float(histogram.counts.sum())
    size = round(total) if num_rows is None else num_rows
    if total <= 0 or size < 1:
        raise TableError(
            f"{size} rows cannot be drawn from a histogram with a total of {total:g}; use a "
            "larger epsilon or a smaller domain"
        )
    check_size(size, len(domain.axes))
    source = rng or np.random.default_rng()
    drawn = source.multinomial(size, histogram.counts.ravel() / total)
    cells = source.permutation(np.repeat(np.arange(drawn.size), drawn))
    return domain.rows(cells, source)
