"""The pairs of cells between which people move, their gravity model, and unbiased answers.

Each question divides the pairs into classes; its counts are converted to unbiased class shares with
variances."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
from scipy import sparse

from decoder.candidates.lists import bit_positions
from decoder.typing import Flags, Floats, Indices
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.flow import (
    DISTANCE,
    HOME,
    PAIR,
    QUESTIONS,
    WORK,
    ZONES,
    Flow,
    class_text,
    question_of,
)

RESERVED = 2  # sides after the cells: `other`, then `no_data`
SIDE_PRECISION = 0.25  # this and the next: precisions of normal priors of log shares, mean 0
KNOWN_SIDE_PRECISION = 4.0  # if a known matrix already contains the sides
BAND_PRECISION = 0.02
SLOPE_PRECISION = 0.25
OWN_PRECISION = 1.0
ZONE_PRECISION = 4.0


@lru_cache(maxsize=4)
def cell_meters(flow: Flow) -> Any:
    """Return the whole meters between the centers of cells (K, K), as a read-only array."""
    cells = range(len(flow.cells))
    meters = np.array([[flow.meters(cell, other) for other in cells] for cell in cells])
    meters.flags.writeable = False
    return meters


@dataclass(frozen=True)
class FlowSpace:
    """All pairs of an origin and a destination, row by row: P = (K + 2)^2 for K cells."""

    zones: Indices  # (K,) index of each cell's zone
    bands: Indices  # (K, K) distance band of each pair of cells, 0 on the diagonal
    num_bands: int  # Including the band of `other` and `no_data`
    meters: Floats  # (K, K) between centers

    @classmethod
    def of(cls, flow: Flow) -> Self:
        """Return the space of a flow metric."""
        bands = np.array([[flow.band_of(m) for m in row] for row in cell_meters(flow).tolist()])
        np.fill_diagonal(bands, 0)
        meters = cell_meters(flow).astype(float)
        return cls(np.array(flow.zone_of), bands, flow.num_classes(DISTANCE), meters)

    @property
    def num_cells(self) -> int:
        """The number of cells, K."""
        return len(self.zones)

    @property
    def num_sides(self) -> int:
        """The number of possible values of a side (cells and reserved values), K + 2."""
        return self.num_cells + RESERVED

    @property
    def num_pairs(self) -> int:
        """The number of pairs, P."""
        return self.num_sides**2

    @property
    def num_zones(self) -> int:
        """The number of zones without the reserved values."""
        return int(self.zones.max()) + 1

    @cached_property
    def origin(self) -> Indices:
        """The origin of each pair, (P,)."""
        return np.repeat(np.arange(self.num_sides), self.num_sides)

    @cached_property
    def destination(self) -> Indices:
        """The destination of each pair, (P,)."""
        return np.tile(np.arange(self.num_sides), self.num_sides)

    @property
    def between_cells(self) -> Flags:
        """Flags of the pairs whose sides are both cells, (P,)."""
        return np.asarray(np.maximum(self.origin, self.destination) < self.num_cells)

    @cached_property
    def same(self) -> Indices:
        """1 for the pairs whose sides are the same, else 0, (P,)."""
        return np.asarray(self.origin == self.destination, dtype=np.intp)

    @cached_property
    def band(self) -> Indices:
        """The distance band of each pair, (P,)."""
        apart = (0, RESERVED)
        return np.pad(self.bands, apart, constant_values=self.num_bands - 1).ravel()

    @cached_property
    def distance(self) -> Floats:
        """The log distance (P,) minus its band's mean; 0 within a cell or for reserved values."""
        logs = np.log(np.maximum(self.meters, 1.0))  # whole meters; 0 within a cell
        sums, sizes = (np.bincount(self.bands.ravel(), weights, self.num_bands)
                       for weights in (logs.ravel(), None))  # fmt: skip
        apart = np.where(self.bands > 0, logs - (sums / np.maximum(sizes, 1))[self.bands], 0.0)
        return np.pad(apart, (0, RESERVED)).ravel()

    @cached_property
    def zone_pair(self) -> Indices:
        """The number of each pair's zone pair, (P,); `other` and `no_data` are zones."""
        sides = np.concatenate([self.zones, self.num_zones + np.arange(RESERVED)])
        pairs: Indices = sides[self.origin] * (self.num_zones + RESERVED) + sides[self.destination]
        return pairs

    def classes(self, question: str) -> Indices:
        """Return the class of each pair (P,) in one of `QUESTIONS`, numbered as `Flow.class_of`."""
        labels: dict[str, Indices] = {
            HOME: 2 * self.origin + self.same,
            WORK: 2 * self.destination + self.same,
            DISTANCE: self.band,
            ZONES: self.zone_pair,
            PAIR: np.arange(self.num_pairs),
        }
        return labels[question]

    def num_classes(self, question: str) -> int:
        """Return the number of classes of a question."""
        sizes = {DISTANCE: self.num_bands, ZONES: (self.num_zones + RESERVED) ** 2,
                 PAIR: self.num_pairs}  # fmt: skip
        return sizes.get(question, 2 * self.num_sides)

    def sums(self, question: str) -> Any:
        """Return the sparse 0/1 matrix (classes, P) that sums pairs to the question's classes."""
        return indicator(self.classes(question), self.num_classes(question))


COARSE = tuple(name for name in QUESTIONS if name != PAIR)


def indicator(labels: Indices, size: int) -> Any:
    """Return a sparse (size, len(labels)) matrix with 1 where the row is the column's label."""
    ones = np.ones(len(labels))
    return sparse.csr_array((ones, (labels, np.arange(len(labels)))), shape=(size, len(labels)))


@dataclass(frozen=True)
class Gravity:
    """A gravity model of the shares of pairs.

    t0 = softmax of offset + a_origin + b_destination + f_band + s distance + own_cell + z_zones.
    The parameters x (n,) are a, b, own (one per side each), f, s, z."""

    space: FlowSpace
    offset: Floats  # (P,) log of a known matrix, or 0
    side_precision: float = SIDE_PRECISION

    @property
    def size(self) -> int:
        """The number of parameters, n."""
        return len(self.precision)

    @property
    def zones(self) -> Indices:
        """The indices (Z,) of the parameters of zone pairs, which are last."""
        return np.arange(self.size - self.space.num_classes("zones"), self.size)

    @cached_property
    def precision(self) -> Floats:
        """The precisions of the priors, (n,)."""
        sides, zones = self.space.num_sides, self.space.num_classes("zones")
        each = np.full(sides, self.side_precision)
        each[self.space.num_cells :] = SIDE_PRECISION  # known matrices rarely include these
        rest = np.repeat(
            [OWN_PRECISION, BAND_PRECISION, SLOPE_PRECISION, ZONE_PRECISION],
            [sides, self.space.num_bands, 1, zones],
        )
        return np.concatenate([each, each, rest])

    @cached_property
    def labels(self) -> Indices:
        """Each pair's parameter indices (6, P): origin, destination, own, band, distance, zones."""
        space, sides = self.space, self.space.num_sides
        slope = 3 * sides + space.num_bands
        parameters = (
            space.origin,
            sides + space.destination,
            2 * sides + space.origin,
            3 * sides + space.band,
            np.full(space.num_pairs, slope),
            slope + 1 + space.zone_pair,
        )
        return np.array(parameters)

    @cached_property
    def enters(self) -> Floats:
        """The factor of each parameter in the log share of each pair, (6, P)."""
        factors = np.ones(self.labels.shape)
        factors[2], factors[4] = self.space.same, self.space.distance
        return factors

    @cached_property
    def incidence(self) -> Any:
        """The sparse matrix (P, n) of `enters` by pair and parameter."""
        pairs = np.tile(np.arange(self.labels.shape[1]), len(self.labels))
        entries = (self.enters.ravel(), (pairs, self.labels.ravel()))
        matrix = sparse.csr_array(entries, shape=(self.labels.shape[1], self.size))
        matrix.eliminate_zeros()
        return matrix

    def shares(self, parameters: Floats) -> Floats:
        """Return the shares t0 (P,) at parameters (n,)."""
        logs = self.offset + self.incidence @ parameters
        powers = np.exp(logs - logs.max())
        return np.asarray(powers / powers.sum())

    def start(self, origins: Floats, destinations: Floats, same_cell: Floats) -> Floats:
        """Return parameters (n,) at which the sides (K + 2,) have the given shares of all people.

        Args:
            origins: The share of people who leave each side.
            destinations: The share of people who arrive at each side.
            same_cell: The share of people who leave from and arrive at the same side.
        """
        least = 0.1 / self.space.num_sides
        went, came, stay = (np.maximum(side, least) for side in (origins, destinations, same_cell))
        went, came = went / went.sum(), came / came.sum()
        moving = max(1 - stay.sum(), least)
        stays = np.log(stay / (moving * went * came))
        parameters = np.zeros(self.size)
        parameters[: 3 * self.space.num_sides] = np.concatenate([np.log(went), np.log(came), stays])
        return parameters

    def slope(self, shares: Floats, values: Floats) -> Floats:
        """Return the gradient (n,) in the parameters of the sum of values (P,) times t0."""
        scaled = shares * values
        return np.asarray(self.incidence.T @ (scaled - scaled.sum() * shares))


@dataclass(frozen=True)
class SymbolCounts:
    """The counts of the M cohorts that answer one question, with C classes and g symbols."""

    counts: Floats  # (M, g) reports of each symbol
    symbols: Any | None  # (M, C) symbol of each class; None if the class is the symbol
    num_classes: int
    kept: float  # The probability of reporting a value's own symbol
    lied: float  # The probability of reporting any given other symbol

    @property
    def reports(self) -> Floats:
        """The number of reports of each cohort, (M,)."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def num_reports(self) -> float:
        """The number of reports of all cohorts."""
        return float(self.counts.sum())

    @property
    def num_symbols(self) -> int:
        """The number of symbols, g."""
        return int(self.counts.shape[1])

    @property
    def hit(self) -> float:
        """The probability that a device in a different class reports a class's symbol."""
        return self.lied if self.symbols is None else 1 / self.num_symbols

    @property
    def used(self) -> Indices:
        """The cohorts with reports."""
        return np.flatnonzero(self.reports > 0)


@dataclass(frozen=True)
class Answers:
    """Unbiased class shares (C,) of one question, their variances, and the number of reports."""

    shares: Floats
    variance: Floats
    num_reports: float


def symbol_counts(aggregate: Aggregate, flow: Flow) -> dict[str, SymbolCounts]:
    """Return the counts of a flow metric by question."""
    params, by_question = aggregate.params, {}
    table = np.array(aggregate.bit_counts, dtype=np.float64)
    chances = float(params.mechanism.q_star), float(params.mechanism.p_star)
    for question in QUESTIONS:
        cohorts = [c for c in range(params.num_cohorts) if question_of(c) == question]
        size, symbols = flow.num_classes(question), None
        if question != DISTANCE:
            texts = [class_text(question, number).encode() for number in range(size)]
            symbols = np.ascontiguousarray(bit_positions(texts, params)[:, cohorts, 0].T)
        by_question[question] = SymbolCounts(table[cohorts], symbols, size, *chances)
    return by_question


def answers_of(
    counts: SymbolCounts, expected: Floats, doubt: float | None = None, repetition: float = 1.0
) -> Answers:
    """Remove the bias from noise and from classes that share a symbol.

    The counts that `expected` predicts for the other classes are subtracted, so that only their
    uncertainty adds noise.

    Args:
        counts: The counts of the question.
        expected: The current shares (C,) of the classes, of sum 1.
        doubt: The sum of the squared errors of `expected`; None to estimate it from the counts.
        repetition: rho = sum r^2 / sum r of devices with r reports each, which repeat the same
            answer.

    Returns:
        Shares and variances; without reports, the expected shares with infinite variance.
    """
    reports = counts.num_reports
    if not reports:
        return Answers(expected, np.full(len(expected), np.inf), 0.0)
    gain = counts.kept - counts.lied
    clipped = np.clip(expected, 0, 1)
    rate = counts.hit + (counts.kept - counts.hit) * clipped
    variance = rate * (1 - rate) / (reports * (counts.kept - counts.hit) ** 2)
    variance += (repetition - 1) * clipped * (1 - clipped) / reports
    if counts.symbols is None:
        total = counts.counts.sum(axis=0)[: counts.num_classes] / reports
        return Answers((total - counts.lied) / gain, variance, reports)
    symbols, size = counts.num_symbols, len(expected)
    residual = np.zeros(size)
    for cohort in counts.used:
        of_class = counts.symbols[cohort]
        predicted = np.bincount(of_class, expected, symbols)
        symbol_shares = (counts.counts[cohort] / counts.reports[cohort] - counts.lied) / gain
        residual += counts.reports[cohort] * (symbol_shares - predicted)[of_class]
    moved = symbols / (symbols - 1) * residual / reports
    weights = counts.reports / reports
    shared = float(weights @ weights) / (symbols - 1)
    if doubt is None:  # the squares contain the error, the noise, and the error's collisions
        doubt = max(0.0, float(np.sum(moved**2 - variance)) / (1 + size * shared))
    collisions = doubt * shared
    return Answers(expected + moved, variance + collisions, reports)
