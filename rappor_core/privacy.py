"""The epsilons that the two-round mechanism guarantees, in nats.

Two values differ in at most 2h bits: h that only the first sets and h that only the second sets
(fewer if hashes collide, so these are upper bounds, tight when k >= 2h). Two Boolean values differ
in one bit, and two symbols differ in the reported symbol. For one such pair of bits the likelihood
ratio of a report is largest when every report shows the one bit set and the other clear, because
the likelihood of n reports of a permanent bit is monotone in the number of ones.

Sources: arXiv:1407.6981, section 3.1 (epsilon_infinity) and section 3.2 (epsilon_one); `epsilon_n`
is the exact value for n reports of one memoized value, checked by enumeration in the tests.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rappor_core.errors import ParameterError

if TYPE_CHECKING:
    from rappor_core.params import RapporParams


def epsilon_infinity(params: RapporParams) -> float:
    """Return the epsilon of all reports of one memoized value; `inf` without a permanent round."""
    p1, q1, _, _ = params.mechanism.rates
    if q1 == 0 or p1 == 1:
        return math.inf
    return _combined(params, math.log(p1 / q1), math.log((1 - q1) / (1 - p1)))


def epsilon_n(params: RapporParams, num_reports: int) -> float:
    """Return the exact epsilon of `num_reports` >= 0 reports of one memoized value.

    The result is 0 for n = 0 and rises from epsilon_one (n = 1) to `epsilon_infinity`. The worst
    series of symbols repeats one symbol n times: any other symbol supports both values equally, or
    weakens the evidence.
    """
    if type(num_reports) is not int or num_reports < 0:
        raise ParameterError(f"num_reports = {num_reports!r} is not a whole number of 0 or more")
    if num_reports == 0:
        return 0.0
    p1, q1, p2, q2 = params.mechanism.rates

    def log_chance(weight: float, if_one: float, if_zero: float) -> float:
        logs = [num_reports * _ln(chance) for chance in (if_one, if_zero)]
        return log_sum((weight, logs[0]), (1 - weight, logs[1]))

    ones = log_chance(p1, p2, q2) - log_chance(q1, p2, q2)
    zeros = 0.0
    if not params.scheme.symbols:
        zeros = log_chance(q1, 1 - p2, 1 - q2) - log_chance(p1, 1 - p2, 1 - q2)
    return _combined(params, ones, zeros)


def epsilon_per_report(params: RapporParams, num_reports: int) -> float:
    """Return the nats to charge for each of `num_reports` >= 1 reports of a device.

    `num_reports` reports, of any memoized values, cost at most `num_reports` times the result. For
    bits, the result is `epsilon_one`, because each additional report of a value adds less than the
    previous report. The evidence for a rarely kept symbol grows with the first reports and then
    flattens, so its mean rises to one peak and then falls.
    """
    most = 0.0
    for n in range(1, num_reports + 1 if params.scheme.symbols else 2):
        mean = epsilon_n(params, n) / n
        if mean <= most:
            break
        most = mean
    return most


def log_sum(*terms: tuple[float, float]) -> float:
    """Return ln(sum of weight * e^exponent) without underflow; -inf for an empty sum."""
    logs = [math.log(weight) + exponent for weight, exponent in terms if weight > 0]
    largest = max(logs, default=-math.inf)
    if largest == -math.inf:
        return largest
    return largest + math.log(sum(math.exp(log - largest) for log in logs))


def _combined(params: RapporParams, ones: float, zeros: float) -> float:
    """Return the nats from a whole report, given those from a bit shown as 1 and as 0."""
    if params.scheme.symbols:
        return ones
    ones, zeros = abs(ones), abs(zeros)
    return max(ones, zeros) if params.scheme.single_bit else params.num_hashes * (ones + zeros)


def _ln(chance: float) -> float:
    return math.log(chance) if chance > 0 else -math.inf
