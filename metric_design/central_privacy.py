"""The epsilon against those who see published counts alone, if the collector adds honestly.

A cohort's counter of a bit is the sum of its reports' bits. All permanent bits of all other devices
are given to the observer. Each of their reports is, with probability c = q2 + 1 - p2, a coin that
falls 1 with q2 / c whatever its permanent bit, and the others are given away too. What hides the
device is then a binomial number of coins, of which the low quantile is taken. The privacy loss of a
block is put on a grid by splitting each mass between two neighbours so that both measures keep it,
which only helps the observer (a mean-preserving spread; "connect the dots", Doroshenko et al.
2022, arXiv:2207.04380). Blocks are convolved; then the two cases of the device's own permanent bit
are mixed, which is where memoisation enters, exactly; then the bits in which two values differ are
convolved. No independence between periods is assumed, and nothing of what the others hold.

The chance of fewer coins than the quantile, of tails left out and of rounding is part of delta.
"""

from __future__ import annotations

import math

from metric_design.privacy_losses import Losses, composed, epsilon_at, on_grid, turned_round
from rappor_core.errors import ParameterError, shown
from rappor_core.mechanism import PROBABILITY_SCALE, TwoRoundMechanism
from rappor_core.privacy import epsilon_n

MOST_CROWD = 10**8  # a larger one is not credited
MOST_REPORTS = 100_000
LEAST_DELTA = 1e-11  # below it rounding of doubles would be what is measured
LEFT = 0.97  # of delta, after what the quantile, the tails and rounding take


def central_epsilon(
    mechanism: TwoRoundMechanism,
    num_hashes: int,
    *,
    crowd: int,
    reports: int,
    delta: float,
    per_block: int = 1,
    values: int = 1,
    single_bit: bool = False,
    symbol: bool = False,
) -> float:
    """Bound what published counts tell about a device's value, in nats, except with probability
    `delta`.

    It hides the value, not participation, and not from the collector, its host, disk or backups.

    Args:
        mechanism: the two rounds.
        num_hashes: h; two values differ in 2h bits at most.
        crowd: honest reports in the smallest cohort of a published block, the device's among them.
        reports: of the device that are published: one in each block, unless `per_block`.
        delta: probability with which the bound may fail, in [1e-11, 1).
        per_block: reports of one device in one block, at most.
        values: memoised values that each take part in as many reports.
        single_bit: the metric is one bit, so that two values differ in one.
        symbol: refused: counters of symbols are not sums of independent bits.

    Returns:
        epsilon >= 0, never above the local one: `values` times `epsilon_n` of all reports.

    Raises:
        ParameterError: with the bad value.
    """
    _check(crowd, reports, delta, per_block, values, symbol)
    local = values * epsilon_n(mechanism, num_hashes, reports, single_bit=single_bit)
    pairs = values * (1 if single_bit else num_hashes)
    rounds = _rounds(mechanism)
    others = min(crowd // per_block, MOST_CROWD) - 1
    slack = delta / (400 * pairs * reports)
    coins = _few_coins(others, rounds[3] + 1 - rounds[2], slack)
    fair = rounds[3] / (rounds[3] + 1 - rounds[2])
    if coins < 1 or fair in (0.0, 1.0):
        return local
    block = _block_losses(coins, fair, rounds, slack, reports)
    own = _own_bit(composed([(block, reports)], slack), rounds, pairs)
    turned = turned_round(own)
    both = [[(own, pairs), (turned, pairs)]]
    sides = [[(own, pairs)], [(turned, pairs)]] if single_bit else both
    found = (epsilon_at(composed(side, delta / 400), LEFT * delta) for side in sides)
    return min(local, max(found))


def _check(
    crowd: int, reports: int, delta: float, per_block: int, values: int, symbol: bool
) -> None:
    if symbol:
        raise ParameterError(
            "encoding = 'symbol': no bound for published counts, which are not sums of independent "
            "bits; the local epsilon holds against everybody"
        )
    for name, value, most in (
        ("crowd", crowd, math.inf),
        ("reports", reports, MOST_REPORTS),
        ("per_block", per_block, MOST_REPORTS),
        ("values", values, MOST_REPORTS),
    ):
        if type(value) is not int or not 1 <= value <= most:
            raise ParameterError(f"{name} = {shown(value)} is not a whole number from 1 to {most}")
    if isinstance(delta, bool) or not isinstance(delta, float) or not LEAST_DELTA <= delta < 1:
        raise ParameterError(f"delta = {shown(delta)} is not between {LEAST_DELTA:g} and 1")


def _rounds(mechanism: TwoRoundMechanism) -> tuple[float, float, float, float]:
    """p1, q1, p2, q2 with p2 > q2: a bit that is shown mostly clear is read complemented."""
    p1, q1, p2, q2 = (
        value / PROBABILITY_SCALE
        for value in (mechanism.p1, mechanism.q1, mechanism.p2, mechanism.q2)
    )
    return (p1, q1, p2, q2) if p2 > q2 else (p1, q1, 1 - p2, 1 - q2)


def _few_coins(others: int, chance: float, slack: float) -> int:
    """The largest number below which the binomial number of coins stays with chance <= slack.

    P(C <= k) <= pmf(k) / (1 - pmf(k-1) / pmf(k)) below the mean, as the ratio falls with k.
    """
    if chance >= 1:
        return others
    low, high = 0, math.floor(others * chance)  # P(C < low) <= slack for low = 0
    while low < high:
        middle = (low + high + 1) // 2
        if _tail_bound(others, middle - 1, chance) <= math.log(slack):
            low = middle
        else:
            high = middle - 1
    return low


def _tail_bound(n: int, k: int, chance: float) -> float:
    """ln of a bound for P(Bin(n, chance) <= k), k below the mean."""
    odds = math.log(chance / (1 - chance))
    pmf = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    pmf += n * math.log1p(-chance) + k * odds
    ratio = k * (1 - chance) / ((n - k + 1) * chance)
    return pmf - math.log1p(-ratio) if ratio < 1 else 0.0


def _block_losses(
    coins: int, fair: float, rounds: tuple[float, float, float, float], slack: float, reports: int
) -> Losses:
    """Of one counter in one block: coins plus the device's bit, shown with p2 (P) or q2 (Q)."""
    show_one, show_zero = rounds[2], rounds[3]
    weights = _binomial(coins, fair, slack / 4)
    losses, upper, lower = [], [], []
    for i in range(len(weights) + 1):
        here = weights[i] if i < len(weights) else 0.0
        below = weights[i - 1] if i else 0.0
        ups = (1 - show_one) * here + show_one * below
        downs = (1 - show_zero) * here + show_zero * below
        if 0 < i < len(weights) or ups + downs > slack / 8:  # an end that is cut off is no loss
            upper.append(ups)
            lower.append(downs)
            losses.append(math.log(ups / downs))
    return on_grid(losses, upper, lower, reports)


def _binomial(n: int, chance: float, slack: float) -> list[float]:
    """Chances of the values of a binomial variable, without tails of `slack` each, sum 1."""
    mode = min(int((n + 1) * chance), n)
    odds = chance / (1 - chance)
    enough = slack / (4 * math.sqrt(n) + 4)
    above, weight, x = [1.0], 1.0, mode
    while x < n and weight > enough * 1e-2:
        weight *= (n - x) / (x + 1) * odds
        x += 1
        above.append(weight)
    under, weight, x = list[float](), 1.0, mode
    while x > 0 and weight > enough * 1e-2:
        weight *= x / (n - x + 1) / odds
        x -= 1
        under.append(weight)
    weights = under[::-1] + above
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def _own_bit(shown: Losses, rounds: tuple[float, float, float, float], pairs: int) -> Losses:
    """Mix the blocks of a permanent 1 (P) and of a permanent 0 (Q) by what the value makes it."""
    p1, q1 = rounds[0], rounds[1]
    upper = [p1 * p + (1 - p1) * q for p, q in zip(shown.upper, shown.lower, strict=True)]
    lower = [q1 * p + (1 - q1) * q for p, q in zip(shown.upper, shown.lower, strict=True)]
    losses = [_mixed_loss((shown.first + i) * shown.step, p1, q1) for i in range(len(shown.upper))]
    return on_grid(losses, upper, lower, 2 * pairs)


def _mixed_loss(loss: float, p1: float, q1: float) -> float:
    """ln[(p1 e^loss + 1 - p1) / (q1 e^loss + 1 - q1)], without overflow."""
    if q1 == 0 and p1 == 1:
        return loss
    if loss > 0:
        small = math.exp(-loss)
        return math.log((p1 + (1 - p1) * small) / (q1 + (1 - q1) * small))
    small = math.exp(loss)
    return math.log((p1 * small + 1 - p1) / (q1 * small + 1 - q1))
