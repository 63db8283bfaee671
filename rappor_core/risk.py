"""The risk that reports reveal something about a person, as all pages show it.

An epsilon bounds how far an observer's odds between two answers can shift; Bayes' rule converts
this to a probability. The dictionary, the planner, `rappor metrics check`, the audit and `inspect`
all use these figures. They cover everything that a device's ledger lets it send over its lifetime.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rappor_core.metrics.validation import APP, WEB
from rappor_core.params import MAX_COHORTS

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric


class Risk(NamedTuple):
    """A bound on what a device's reports for a metric can reveal, in nats."""

    report: float  # the epsilon of one report
    # The epsilon of everything that an installation ever sends, as bounded by its ledger. If a
    # metric runs only in browsers, this covers all `lives` of a browser's storage.
    life: float
    # The epsilon over those storage lifetimes if the metric also runs in an app; otherwise 0.
    web: float = 0.0
    lives: int = 0  # the number of storage lifetimes in browsers; 0 if the metric runs only in apps
    # The epsilon of all reports of one memoized answer, over the same lifetimes as `worst`.
    answer: float = math.inf

    @property
    def worst(self) -> float:
        """Return the epsilon of everything that is ever sent, on the worse platform."""
        return max(self.life, self.web)

    @property
    def for_life(self) -> str:
        """Return `worst` as text: "epsilon 6 for life", with the number of storage lifetimes."""
        lives = f" over {self.lives:,} lives of a browser's storage" if self.lives else ""
        nats = f"{self.worst:.3g}" if self.worst < 1_000 else f"{self.worst:,.0f}"
        return f"epsilon {nats} for life{lives}"

    @property
    def sentence(self) -> str:
        """Return the bounds as text, for an observer whose prior probability is `PRIOR`."""
        once, ever = percent_up(believed(self.report)), percent_up(believed(self.life))
        lives = f", in a browser over {self.lives:,} lives of its storage" if self.lives else ""
        if self.web:
            lives = f"; {percent_up(believed(self.web))}{lives.removeprefix(',')}"
        return (
            f"{CERTAIN} {once} sure after one report, and at most {ever} sure after everything "
            f"your device ever sends about it{lives}."
        )


def rise_text(epsilon: float) -> str:
    """Return, as text, the maximum rise of a suspicion under an epsilon in nats."""
    return f"a suspicion of {100 * PRIOR:g} % rises to at most {belief_text(epsilon)}"


def risk_of(*metrics: Metric) -> Risk:
    """Return the risk of several metrics together: the sum of what each can reveal.

    For a location, pass only one slot and level, because all of them share one ledger entry.
    """
    app = all(APP in metric.platforms for metric in metrics)
    web = any(WEB in metric.platforms for metric in metrics)
    over_lives = sum(metric.lifetime_epsilon_on(WEB) for metric in metrics) if web else 0.0
    return Risk(
        sum(metric.epsilon_one for metric in metrics),
        sum(metric.lifetime_epsilon for metric in metrics) if app else over_lives,
        over_lives if app else 0.0,
        max(metric.lives or 0 for metric in metrics),
        sum(
            min(metric.params.epsilon_infinity, metric.lifetime_epsilon) * (metric.lives or 1)
            for metric in metrics
        ),
    )


PRIOR = 0.01  # the prior probability, in examples, that someone gave an answer
CERTAIN = f"Someone who is {100 * PRIOR:g} % sure an answer is yours can be at most"


def believed(epsilon: float, prior: float = PRIOR) -> float:
    """Return the highest probability that a suspicion can reach, by Bayes' rule.

    Args:
        epsilon: The bound in nats on everything that was observed, 0 or more; infinity returns 1.
        prior: The prior probability of the suspicion, in (0, 1).
    """
    return 1 / (1 + (1 - prior) / prior * math.exp(-epsilon))


def belief_text(epsilon: float) -> str:
    """Return, as text, the highest probability that a suspicion with prior `PRIOR` can reach."""
    bound = f"epsilon {epsilon:.2f}" if epsilon < math.inf else "no bound"
    return f"{percent_up(believed(epsilon))} ({bound})"


def percent_up(share: float) -> str:
    """Format a fraction as a percentage, rounded up because it is a bound."""
    digits = 2 if share < 0.1 else 1
    factor = 10**digits
    return f"{min(math.ceil(100 * share * factor - 1e-9) / factor, 100):g} %"


CROWD = 1_000  # the number of devices that should share the same public attributes


def public_groups(metric: Metric) -> int:
    """Return the number of groups into which a metric's reports visibly divide devices.

    A device that reports once in its lifetime shows its cohort once, so no later report can be
    linked to the first.
    """
    if metric.max_reports == 1:
        return 1
    return metric.params.num_cohorts * place_groups(metric)


def place_groups(metric: Metric) -> int:
    """Return the number of groups that a location's levels and schedules divide a cohort into.

    Both are visible in reports. A schedule that is drawn again reveals nothing about the next
    schedule. The result is 1 for metrics of other kinds.
    """
    location = metric.location
    if location is None:
        return 1
    return len(location.grid.levels) * (1 if location.turn == "fresh" else location.num_turns)


def groups_together(metrics: Sequence[Metric]) -> int:
    """Return the number of groups into which all metrics together divide the devices."""
    return math.prod(map(public_groups, metrics))


def linked_by_groups(groups: int, population: int) -> float:
    """Return the fraction of devices that can be re-identified by equally likely groups.

    The fraction is the number of non-empty groups divided by the number of devices.

    Args:
        groups: The number of groups, 1 or more.
        population: The number of devices, 1 or more.

    Returns:
        The fraction, in (0, 1].
    """
    if groups == 1:
        return 1 / population
    used = -math.expm1(population * math.log1p(-1 / groups))  # fraction of non-empty groups
    return min(1.0, groups * used / population)


def cohorts_affordable(crowd: int, population: int, metrics: int = 1) -> int:
    """Return the maximum number of cohorts per metric that keeps groups of devices large enough.

    Args:
        crowd: The number of devices that should share all their cohorts, 1 or more.
        population: The number of devices.
        metrics: The number of metrics per device.

    Returns:
        A power of two, at most 65,536.
    """
    each = math.floor((max(1, population // crowd)) ** (1 / metrics) + 1e-9)
    return min(int(1 << (each.bit_length() - 1)), MAX_COHORTS)
