"""How much reports reveal about a person: one computation for every page.

An epsilon bounds how far anybody's odds between two answers move; Bayes' rule says what that does
to a suspicion. The dictionary, the planner, `rappor metrics check`, the audit and `inspect` take
their figures from here, by what the ledger of a device lets it send in its whole life.
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
    """How much a device's reports about a metric can tell, in nats.

    report: by one report.  life: by all that an installation ever sends, as its ledger bounds it;
    of a metric for browsers alone, by all the `lives` of a browser's storage.
    web: by those lives where it runs in an app, too; otherwise 0.  lives: how many; otherwise 0.
    answer: by all reports of one memoized answer, in as many lives as `worst`.
    """

    report: float
    life: float
    web: float = 0.0
    lives: int = 0
    answer: float = math.inf

    @property
    def worst(self) -> float:
        """Nats: by all that is ever sent, where it is most. What a budget counts."""
        return max(self.life, self.web)

    @property
    def for_life(self) -> str:
        """`worst` as text: "epsilon 6 for life", with the lives that it is over."""
        lives = f" over {self.lives:,} lives of a browser's storage" if self.lives else ""
        nats = f"{self.worst:.3g}" if self.worst < 1_000 else f"{self.worst:,.0f}"
        return f"epsilon {nats} for life{lives}"

    @property
    def sentence(self) -> str:
        """The bounds as text, for someone whose answer was thought `PRIOR` likely before."""
        once, ever = percent_up(believed(self.report)), percent_up(believed(self.life))
        lives = f", in a browser over {self.lives:,} lives of its storage" if self.lives else ""
        if self.web:
            lives = f"; {percent_up(believed(self.web))}{lives.removeprefix(',')}"
        return (
            f"{CERTAIN} {once} sure after one report, and at most {ever} sure after everything "
            f"your device ever sends about it{lives}."
        )


def rise_text(epsilon: float) -> str:
    """How far a suspicion rises at most under a bound of epsilon (in nats), as text."""
    return f"a suspicion of {100 * PRIOR:g} % rises to at most {belief_text(epsilon)}"


def risk_of(*metrics: Metric) -> Risk:
    """Return the risk of several metrics together: the sum of what each can tell.

    Of a location any slot and level represents the whole: its parts share one line of the ledger.
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


PRIOR = 0.01  # of the example: how likely somebody thought an answer before
CERTAIN = f"Someone who is {100 * PRIOR:g} % sure an answer is yours can be at most"


def believed(epsilon: float, prior: float = PRIOR) -> float:
    """Return the most that a suspicion can become, by Bayes' rule.

    Args:
        epsilon: nats by which what was seen is bounded, 0 or more; infinite gives 1.
        prior: how likely it was thought before, in (0, 1).
    """
    return 1 / (1 + (1 - prior) / prior * math.exp(-epsilon))


def belief_text(epsilon: float) -> str:
    """What a suspicion of `PRIOR` can become at most, with the epsilon (in nats) that says so."""
    bound = f"epsilon {epsilon:.2f}" if epsilon < math.inf else "no bound"
    return f"{percent_up(believed(epsilon))} ({bound})"


def percent_up(share: float) -> str:
    """Return a share in per cent, rounded up, since it is stated as a bound."""
    digits = 2 if share < 0.1 else 1
    factor = 10**digits
    return f"{min(math.ceil(100 * share * factor - 1e-9) / factor, 100):g} %"


CROWD = 1_000  # devices that should share what is public of each


def public_groups(metric: Metric) -> int:
    """Return the number of groups into which a metric divides devices by what its reports show for
    certain.

    A device that reports once for life shows its cohort once, which nothing later is compared with.
    """
    if metric.max_reports == 1:
        return 1
    return metric.params.num_cohorts * place_groups(metric)


def place_groups(metric: Metric) -> int:
    """How many groups a location's level and turn divide a cohort into; both show in reports.

    A turn that is redrawn reveals nothing of a device's next one. 1 for metrics of other kinds.
    """
    location = metric.location
    if location is None:
        return 1
    return len(location.grid.levels) * (1 if location.turn == "fresh" else location.num_turns)


def groups_together(metrics: Sequence[Metric]) -> int:
    """Return the number of groups into which all metrics of a device together divide the
    devices."""
    return math.prod(map(public_groups, metrics))


def linked_by_groups(groups: int, population: int) -> float:
    """Compute the share of devices that equally likely groups re-link: groups in use over devices.

    Args:
        groups: 1 or more.
        population: Devices, 1 or more.

    Returns:
        The share, in (0, 1].
    """
    if groups == 1:
        return 1 / population
    used = -math.expm1(population * math.log1p(-1 / groups))  # share of the groups
    return min(1.0, groups * used / population)


def cohorts_affordable(crowd: int, population: int, metrics: int = 1) -> int:
    """Find the most cohorts per metric with which enough devices still share all their cohorts.

    Args:
        crowd: Devices that should share all cohorts, 1 or more.
        population: Devices.
        metrics: Metrics of a device.

    Returns:
        A power of two, at most 65,536.
    """
    each = math.floor((max(1, population // crowd)) ** (1 / metrics) + 1e-9)
    return min(int(1 << (each.bit_length() - 1)), MAX_COHORTS)
