"""What is promised: epsilons of the two-round mechanism, in nats.

Two values differ in at most h bits that one has and h that the other has (fewer when hashes
collide, so these are upper bounds, tight when k >= 2h). For one such pair of bits the likelihood
ratio of a report is largest when every report shows the one bit set and the other clear, because
the likelihood of n reports of a permanent bit is monotone in the number of ones.

Sources: arXiv:1407.6981, section 3.1 (epsilon_infinity) and section 3.2 (epsilon_one); `epsilon_n`
is the exact value for n reports of one memoised value, checked by enumeration in the tests.
"""

from __future__ import annotations

import math

from rappor_core.errors import ParameterError
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism


def epsilon_infinity(
    mechanism: TwoRoundMechanism, num_hashes: int, *, single_bit: bool, symbol: bool = False
) -> float:
    """Bound for all reports of one memoised value, for life; `inf` without a permanent round.

    `single_bit`: the metric is one bit (a boolean), so that two values differ in one bit, not two.
    `symbol`: one of g symbols is reported; the chance of a symbol is p1 for its holder, q1 for all
    others, and their ratio is the whole evidence.
    """
    p1, q1 = mechanism.p1 / PROBABILITY_SCALE, mechanism.q1 / PROBABILITY_SCALE
    if q1 == 0 or p1 == 1:
        return math.inf
    ones, zeros = math.log(p1 / q1), math.log((1 - q1) / (1 - p1))
    return ones if symbol else _combine(ones, zeros, num_hashes, single_bit)


def epsilon_n(
    mechanism: TwoRoundMechanism,
    num_hashes: int,
    num_reports: int,
    *,
    single_bit: bool,
    symbol: bool = False,
) -> float:
    """Bound for `num_reports` >= 0 reports of one memoised value, exactly.

    Runs from epsilon_one (n = 1) up to `epsilon_infinity`; 0 for n = 0. For `symbol` the worst
    series shows one symbol n times: any other symbol in it speaks for both values alike or against.
    """
    if type(num_reports) is not int or num_reports < 0:
        raise ParameterError(f"num_reports = {num_reports!r} is not a whole number of 0 or more")
    if num_reports == 0:
        return 0.0
    scale = PROBABILITY_SCALE
    p1, q1, p2, q2 = (getattr(mechanism, name) / scale for name in ("p1", "q1", "p2", "q2"))
    ones = _log_mixture(p1, p2, q2, num_reports) - _log_mixture(q1, p2, q2, num_reports)
    if symbol:
        return ones
    zeros = _log_mixture(q1, 1 - p2, 1 - q2, num_reports) - _log_mixture(
        p1, 1 - p2, 1 - q2, num_reports
    )
    return _combine(ones, zeros, num_hashes, single_bit)


def epsilon_per_report(
    mechanism: TwoRoundMechanism,
    num_hashes: int,
    num_reports: int,
    *,
    single_bit: bool,
    symbol: bool,
) -> float:
    """The most that a report costs on average, of `num_reports` >= 1 in a device's life, nats.

    So many reports, of whatever memoised values, cost at most `num_reports` times as much. For bits
    it is `epsilon_one`, since each further report of a value adds less than the one before. The
    evidence for a symbol that few keep grows with the first reports, and then flattens: its mean
    rises to one peak and falls.
    """
    most = 0.0
    for n in range(1, num_reports + 1 if symbol else 2):
        mean = epsilon_n(mechanism, num_hashes, n, single_bit=single_bit, symbol=symbol) / n
        if mean <= most:
            break
        most = mean
    return most


def _combine(ones: float, zeros: float, num_hashes: int, single_bit: bool) -> float:
    """Join the evidence of a bit shown set (`ones`) and of one shown clear (`zeros`)."""
    ones, zeros = abs(ones), abs(zeros)
    return max(ones, zeros) if single_bit else num_hashes * (ones + zeros)


def _log_mixture(weight: float, if_one: float, if_zero: float, n: int) -> float:
    """ln(weight * if_one**n + (1 - weight) * if_zero**n), without underflow for large n."""
    terms = [
        math.log(w) + n * math.log(base)
        for w, base in ((weight, if_one), (1 - weight, if_zero))
        if w > 0 and base > 0
    ]
    if not terms:
        return -math.inf
    largest = max(terms)
    return largest + math.log(sum(math.exp(term - largest) for term in terms))
