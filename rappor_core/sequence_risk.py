"""The epsilon of a device's whole sequence of answers: their values, presence and timing.

A lifetime budget is the sum of the costs of the memoized answers. It compares two devices whose
answers change at the same times. In this module, two devices may differ in everything.

Fresh reports are bounded by their number, provided that the device answers in every period
automatically. A report that the app triggers reveals when the app was used. Memoized answers have
no bound, since repeated reports show the times of changes. For these, the exact figure for one pair
of devices is a lower bound: one device always has the same value, the other has a different value
in some periods, and the reports are the most likely ones for the second device.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rappor_core.mechanism import PROBABILITY_SCALE
from rappor_core.privacy import log_sum
from rappor_core.risk import percent_up, risk_of

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric
    from rappor_core.params import RapporParams

DISTINGUISHABLE = 5.0  # nats: an observer who picks the likelier of two devices errs once in 149
PERIODS_A_YEAR = {"day": 365, "week": 52, "month": 12}


class SequenceRisk(NamedTuple):
    """The epsilon between any two histories of a device, from all reports for one metric.

    All numbers are in nats.
    """

    epsilon: float  # the lifetime bound, or else a lower bound for `periods` reports
    bounded: bool  # whether `epsilon` is an upper bound
    periods: int = 0  # the number of periods for the lower bound, or 0
    unit: str = "day"  # the unit of a period
    block: float = 0.0  # the bound for each block of periods, or 0 if blocks have no bound
    window: int = 0  # the number of periods in a block
    most_in_window: int = 1  # the maximum number of reports in `window` consecutive periods
    shown: str = ""  # what report times reveal about the use of the app, or ""

    def to_dict(self) -> dict[str, Any]:
        """Return the risk as plain values for JSON; infinity becomes None."""
        epsilon = self.epsilon if math.isfinite(self.epsilon) else None
        return {"epsilon": epsilon, "bounded": self.bounded, "periods": self.periods}

    @property
    def sentence(self) -> str:
        """Return the risk as one sentence, for people who decide whether to ship a metric."""
        if not self.bounded:
            far = self.epsilon >= DISTINGUISHABLE
            nats = f"epsilon {self.epsilon:,.0f} or more" if far else f"{self.epsilon:.2f} or more"
            differ = f"can be told apart ({nats})" if far else f"differ by epsilon {nats}"
            return (
                "No bound covers the whole sequence of answers: memoized answers hide which value, "
                "not when it changed or whether there was one. After "
                f"{self.periods:,} {self.unit}s of linked reports, two people whose answers "
                f"changed at different times {differ}."
            )
        text = (
            f"Epsilon {self.epsilon:.2f} covers the whole sequence of answers: which value, "
            "whether and when it changed"
        )
        if self.shown:
            return f"{text}; not {self.shown}, which the reports show."
        text += ", and whether there was one."
        if not self.block:
            return text
        what = f"{self.window:,} {self.unit}s"
        if self.most_in_window > 1:
            twice = self.most_in_window * self.block
            return (
                f"{text} Epsilon {self.block:.2f} covers each block of {what}, and {twice:.2f} any "
                f"{what} in a row, which can touch two blocks."
            )
        return f"{text} Epsilon {self.block:.2f} covers any {what} in a row."


def sequence_risk(metric: Metric, periods: int | None = None) -> SequenceRisk:
    """Compute the epsilon of all reports of a metric between any two device histories.

    Args:
        metric: The metric; for a location, any slot and level. Each slot's reports are a separate
            sequence.
        periods: The number of periods for the lower bound of memoized answers, 1 or more; None for
            one year.
    """
    use = _shown_use(metric)
    if not metric.params.mechanism.has_permanent_round or metric.max_permanent_responses < 2:
        return SequenceRisk(metric.lifetime_epsilon, True, shown=use, **_window_of(metric))
    if metric.max_reports == 1:  # one report reveals the same about any two histories
        return SequenceRisk(metric.epsilon_one, True, shown=use)
    num_periods = periods or PERIODS_A_YEAR[metric.period]
    sent = num_periods * metric.max_reports_per_period
    if metric.max_reports is not None:
        sent = min(sent, metric.max_reports)
    return SequenceRisk(memoized_nats(metric.params, sent), False, num_periods, metric.period)


def _shown_use(metric: Metric) -> str:
    if metric.rules.takes_fixes or metric.rules.collected:
        return ""
    if metric.no_data is not None and metric.max_reports_per_period == 1:
        return "when the app recorded the first one"
    return "when the app recorded one, nor how often"


def _window_of(metric: Metric) -> dict[str, Any]:
    location = metric.location
    if location is None or not metric.spaced:
        return {}
    row = {"unit": metric.period, "block": metric.epsilon_one}
    if location.turn == "fresh":
        return row | {"window": location.window, "most_in_window": 2}
    return row | {"window": location.window - location.hold}


def first_guess(epsilon: float, crowd: int) -> float:
    """Bound the probability that an observer's first guess identifies a device by its answers.

    Of n equally likely devices, the true one has weight at most e^epsilon, and the others 1 each.

    Args:
        epsilon: The epsilon of all the answers together, in nats.
        crowd: The number n of devices that are equally likely a priori.

    Returns:
        The probability, in (0, 1].
    """
    return 1 / (1 + (max(crowd, 1) - 1) * math.exp(-epsilon))


def guess_sentence(metric: Metric, crowd: int) -> str:
    """Return a sentence on how likely a device's answers are to identify it in a cohort."""
    risk = sequence_risk(metric)
    if not risk.bounded:
        return (
            "Nothing bounds how often an attacker who knows when someone's answers changed could "
            f"single out their device among {crowd:,} of its cohort."
        )
    most = percent_up(first_guess(risk.epsilon, crowd))
    else_known = "whatever else they know"
    if risk.shown:
        else_known = "by what they say; when it reported may reveal more"
    elif metric.rules.takes_fixes:
        else_known += "; the date at which a late answer arrived may reveal more"
    return (
        f"Someone who has every answer of a device (epsilon {risk.epsilon:.2f}) picks it out of "
        f"{crowd:,} of its cohort in {most} of cases at most, {else_known}."
    )


def risk_text(metric: Metric, crowd: int | None = None) -> str:
    """Return sentences on what an answer, a device lifetime and the whole sequence reveal.

    Args:
        metric: The metric.
        crowd: The number of devices in a cohort, for a sentence on identifying one device; None
            omits the sentence.

    Returns:
        The text, as every page shows it.
    """
    text = f"{risk_of(metric).sentence} {sequence_risk(metric).sentence}"
    return text if crowd is None else f"{text} {guess_sentence(metric, crowd)}"


@lru_cache(maxsize=256)  # pages and checks call it repeatedly; one call takes 0.1 s
def memoized_nats(params: RapporParams, reports: int) -> float:
    """Return a lower bound, in nats, on how well `reports` memoized reports separate histories.

    The first device always has one value. The second has a different value in j reports; the bound
    is the maximum over j. It is 0 for `reports` < 2, and infinite if the second round has no noise.
    """
    if {params.mechanism.p2, params.mechanism.q2} & {0, PROBABILITY_SCALE}:
        return math.inf if reports > 1 else 0.0
    pair = _symbols_apart if params.scheme.symbols else _bits_apart
    return max((pair(params, reports - j, j) for j in range(1, reports)), default=0.0)


def _symbols_apart(params: RapporParams, same: int, other: int) -> float:
    """Return the nats for `same` reports of a symbol and `other` reports of another symbol."""
    p1, q1, p2, q2 = params.mechanism.rates
    second = log_sum((p1, same * math.log(p2)), (1 - p1, same * math.log(q2)))
    second += log_sum((p1, other * math.log(p2)), (1 - p1, other * math.log(q2)))
    first = log_sum(
        (p1, same * math.log(p2) + other * math.log(q2)),
        (q1, same * math.log(q2) + other * math.log(p2)),
        (max(0.0, 1 - p1 - q1), (same + other) * math.log(q2)),
    )
    return second - first


def _bits_apart(params: RapporParams, same: int, other: int) -> float:
    """Return the nats for `same` reports of a value and `other` of one without a bit in common.

    Bits are independent, and each shows the outcome that reveals most.
    """
    p1, q1, *_ = params.mechanism.rates
    lost, won = (_bit_apart(params, same, other, *ones) for ones in ((p1, q1), (q1, p1)))
    if params.scheme.single_bit:
        return max(lost, won)
    of_value = min(params.num_hashes, params.num_bits // 2)
    neither = params.num_bits - 2 * of_value
    return of_value * (lost + won) + neither * _bit_apart(params, same, other, q1, q1)


def _bit_apart(params: RapporParams, same: int, other: int, was: float, became: float) -> float:
    """Return the nats from one bit whose chance of a permanent 1 changes from `was` to `became`."""
    *_, p2, q2 = params.mechanism.rates
    bit_logs = ((math.log(q2), math.log(p2)), (math.log(1 - q2), math.log(1 - p2)))
    return max(
        log_sum((was, same * x[1]), (1 - was, same * x[0]))
        + log_sum((became, other * y[1]), (1 - became, other * y[0]))
        - log_sum(
            (was, same * x[1] + other * y[1]),
            (1 - was, same * x[0] + other * y[0]),
        )
        for x in bit_logs
        for y in bit_logs
    )
