"""The settings of the study of associations: sizes of tables, noise, true shares, compared
methods."""

from __future__ import annotations

from typing import NamedTuple

from decoder.association.linked import Side
from decoder.typing import Floats
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from simulations.association.draws import coupled_table, hashed_side, one_hot_side, pair_metric

NOISES = (("f=.5 p=.5 q=.75", 0.5, 0.5), ("f=.5 p=.25 q=.75", 0.5, 0.25),
          ("f=0 p=.25 q=.75", 0.0, 0.25))  # fmt: skip
PROB_Q = 0.75
HASHES = 2


class Shape(NamedTuple):
    """The sizes of both metrics, and how the first is encoded.

    bits: of the Bloom filter of two hashes of the first, or 0 for a bit each; the second has a bit
    for each value.  cohorts: that both share.
    """

    rows: int
    columns: int
    bits: int = 0
    cohorts: int = 1

    def sides(self, f: float, p: float) -> tuple[Side, Side]:
        """Both metrics with the same noise."""
        second = one_hot_side("b", self.columns, f, p, PROB_Q, self.cohorts)
        if not self.bits:
            return one_hot_side("a", self.rows, f, p, PROB_Q, self.cohorts), second
        return hashed_side("a", self.rows, self.bits, self.cohorts, 1, f, p), second

    def epsilon(self, f: float, p: float) -> float:
        """Epsilon of both reports together: the sum of both metrics' epsilon_one."""
        second = _one_hot(self.columns, f, p)
        if not self.bits:
            return _one_hot(self.rows, f, p).epsilon_one + second.epsilon_one
        first = RapporParams.rappor(
            num_bits=self.bits, num_hashes=HASHES, num_cohorts=self.cohorts, prob_f=f, prob_p=p,
            prob_q=PROB_Q,
        )  # fmt: skip
        return first.epsilon_one + second.epsilon_one

    def truth(self, coupled: float) -> Floats:
        """The true table: Zipf margins, of which a part of the mass couples equal quantiles,
        (M1, M2)."""
        return coupled_table(self.rows, self.columns, coupled)

    def pairs(self, epsilon: float) -> Metric:
        """The pair metric of both lists, of this epsilon_one: a bit a pair up to 10 x 10."""
        return pair_metric(self.rows, self.columns, epsilon, hashed=bool(self.bits))


SHAPES = {"10x10": Shape(10, 10), "100x20": Shape(100, 20, 64, 16), "500x2": Shape(500, 2, 64, 32)}


def _one_hot(count: int, f: float, p: float) -> RapporParams:
    return RapporParams.rappor(
        num_bits=count, num_hashes=1, num_cohorts=1, prob_f=f, prob_p=p, prob_q=PROB_Q,
        encoding="one_hot",
    )  # fmt: skip
