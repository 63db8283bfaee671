"""How much reports can tell about the person whose device sends them: one computation for every
page.

An epsilon bounds how far anybody's odds between two answers move; Bayes' rule says what that does
to a suspicion. The dictionary, the planner, `rappor metrics check`, the audit and `inspect` take
their figures from here, by what the ledger of a device lets it send in its whole life.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from rappor_core.metrics.validation import APP, WEB
from rappor_core.suspicion import PRIOR, THOUGHT, belief_text, believed, percent_up

if TYPE_CHECKING:
    from rappor_core.metrics.metric import Metric

__all__ = [
    "PRIOR",
    "THOUGHT",
    "Risk",
    "belief_text",
    "believed",
    "percent_up",
    "rise_text",
    "risk_of",
]


class Risk(NamedTuple):
    """How much a device's reports about a metric can tell, in nats.

    report: by one report.  life: by all that an installation ever sends, as its ledger bounds it;
    of a metric for browsers alone, by all the `lives` of a browser's storage.
    web: by those lives where it runs in an app, too; otherwise 0.  lives: how many; otherwise 0.
    answer: by all reports of one memoised answer, in as many lives as `worst`.
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
        """`worst` in words: "epsilon 6 for life", with the lives that it is over."""
        lives = f" over {self.lives:,} lives of a browser's storage" if self.lives else ""
        nats = f"{self.worst:.3g}" if self.worst < 1_000 else f"{self.worst:,.0f}"
        return f"epsilon {nats} for life{lives}"

    @property
    def sentence(self) -> str:
        """The bounds in words, for somebody whose answer was thought `PRIOR` likely."""
        once, ever = percent_up(believed(self.report)), percent_up(believed(self.life))
        lives = f", in a browser over {self.lives:,} lives of its storage" if self.lives else ""
        if self.web:
            lives = f"; {percent_up(believed(self.web))}{lives.removeprefix(',')}"
        return (
            f"{THOUGHT} at most {once} after one report, and at most {ever} after all that your "
            f"device ever sends about it{lives}."
        )


def rise_text(epsilon: float) -> str:
    """How far a suspicion rises at most by what an epsilon (in nats) bounds, in words."""
    return f"a suspicion of {100 * PRIOR:g} % rises to at most {belief_text(epsilon)}"


def risk_of(*metrics: Metric) -> Risk:
    """The risk of several metrics together: the sum of what each can tell.

    Of a location any slot and level stands for the whole: its parts share one line of the ledger.
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
