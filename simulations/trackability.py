"""How far reports of one device can be told to be its own: what memoisation does not hide.

An observer who can link a device's reports over some periods sees its permanent bits through the
instantaneous noise. Two attacks, both by the best score there is, the log likelihood ratio of
"the same permanent response" against "another one", and both within one cohort, which is public:
whether the value changed between two series (AUC, .5 is a guess), and which of a crowd's second
series belongs to a first one (share found).

Here by the first two moments of the score, in closed form but for sums over counts; the attacks
themselves are run in `simulations.location_attacks`. No numerical library is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.metrics import Metric
from rappor_core.params import RapporParams

PERIODS_A_YEAR = {"day": 365, "week": 52, "month": 12}
CROWD = 1_500
MOST_COUNTS = 400  # reports of one series that are told apart
_STEPS = 400


@dataclass(frozen=True)
class Score:
    """Mean and variance of the score of two series: of one response, and of two."""

    mean_same: float
    variance_same: float
    mean_other: float
    variance_other: float

    @property
    def change_auc(self) -> float:
        """P(a pair of series without a change scores above one with a change)."""
        spread = math.sqrt(self.variance_same + self.variance_other)
        return _normal((self.mean_same - self.mean_other) / spread) if spread > 0 else 0.5

    def relinked(self, crowd: int) -> float:
        """Share of series found among those of `crowd` devices, one each, as normal scores."""
        if self.variance_same <= 0 or self.variance_other <= 0:
            return 1 / crowd
        same, other = math.sqrt(self.variance_same), math.sqrt(self.variance_other)
        width, total = 12 / _STEPS, 0.0
        for step in range(_STEPS):
            z = -6 + (step + 0.5) * width
            score = self.mean_same + z * same
            below = _normal((score - self.mean_other) / other)
            total += math.exp(-z * z / 2) * below ** (crowd - 1) * width
        return max(total / math.sqrt(2 * math.pi), 1 / crowd)


def series_score(params: RapporParams, reports: int) -> Score:
    """Score two series of `reports` reports each (1 to 400 are told apart)."""
    reports = min(reports, MOST_COUNTS)
    if params.encoding == "symbol":
        return _symbol_score(params, reports)
    one = _bit_score(params, reports)
    bits = params.num_bits
    return Score(*(bits * moment for moment in one))


def reports_in(metric: Metric, periods: int) -> int:
    """How many reports of one slot a device sends in so many periods; at least 1."""
    location = metric.location
    if location is None or location.mode == "memo":
        return periods
    sent = 1 if location.mode == "once" else math.ceil(periods / location.window)
    return min(sent, metric.max_reports or sent)


def trackability_text(metric: Metric, crowd: int = CROWD) -> str:
    """What accuracy costs, in words: the two attacks after 1, 7 and 30 periods."""
    parts = []
    for periods in (1, 7, 30):
        score = series_score(metric.params, reports_in(metric, periods))
        parts.append(
            f"after {periods} a change of place is guessed with AUC {score.change_auc:.2f} and "
            f"{score.relinked(crowd):.1%} of devices are re-linked"
        )
    return (
        f"What it does not hide, for these parameters, from whoever can link a device's reports "
        f"within a {metric.period} and its cohort of {crowd:,} devices: {'; '.join(parts)} "
        f"({metric.period}s of reports on each side)."
    )


def _bit_score(params: RapporParams, n: int) -> tuple[float, float, float, float]:
    """Moments of one bit's log likelihood ratio over two counts of n reports."""
    mechanism = params.mechanism
    p1, q1, p2, q2 = (x / PROBABILITY_SCALE for x in
                      (mechanism.p1, mechanism.q1, mechanism.p2, mechanism.q2))  # fmt: skip
    share = min(1.0, params.num_hashes / params.num_bits)
    kept = share * p1 + (1 - share) * q1
    ones, zeros = _binomial(n, p2), _binomial(n, q2)
    mixed = [kept * a + (1 - kept) * b for a, b in zip(ones, zeros, strict=True)]
    counts = [i for i in range(n + 1) if mixed[i] > 1e-12]
    sums = [0.0] * 4
    for i in counts:
        for j in counts:
            apart = mixed[i] * mixed[j]
            same = kept * ones[i] * ones[j] + (1 - kept) * zeros[i] * zeros[j]
            ratio = math.log(same / apart) if same > 0 else -700.0
            sums[0] += same * ratio
            sums[1] += same * ratio * ratio
            sums[2] += apart * ratio
            sums[3] += apart * ratio * ratio
    return sums[0], sums[1] - sums[0] ** 2, sums[2], sums[3] - sums[2] ** 2


def _symbol_score(params: RapporParams, n: int) -> Score:
    """As `_bit_score` for g symbols, each a bit of the frame; their dependence is left out.

    For g = 2 the second symbol is the complement of the first and says nothing more.
    """
    mean_same, variance_same, mean_other, variance_other = _bit_score(params, n)
    free = params.num_bits - 1
    return Score(free * mean_same, free * variance_same, free * mean_other, free * variance_other)


def _binomial(n: int, p: float) -> list[float]:
    if p in (0.0, 1.0):
        return [float(i == n * p) for i in range(n + 1)]
    log_p, log_q, whole = math.log(p), math.log1p(-p), math.lgamma(n + 1)
    return [
        math.exp(whole - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_p + (n - i) * log_q)
        for i in range(n + 1)
    ]


def _normal(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))
