"""What an epsilon means to one person: how far a suspicion can rise, by Bayes' rule."""

from __future__ import annotations

import math


def belief(prior: float, epsilon: float) -> float:
    """The most that somebody can come to believe, from `prior` in (0, 1), given epsilon in nats."""
    if math.isinf(epsilon):
        return 1.0
    return 1 / (1 + (1 - prior) / prior * math.exp(-epsilon))


def risk_sentence(epsilon_one: float, epsilon_life: float, prior: float = 0.01) -> str:
    """The risk in words, after one report and after everything that is ever sent."""
    once, ever = belief(prior, epsilon_one), belief(prior, epsilon_life)
    return (
        f"Who thinks it {100 * prior:g} % likely that you have a value believes at most "
        f"{percent_up(once)} after one report, {percent_up(ever)} ever."
    )


def percent_up(share: float) -> str:
    """A share in per cent, rounded up: it is said to be a bound."""
    digits = 2 if share < 0.1 else 1
    factor = 10**digits
    return f"{min(math.ceil(100 * share * factor - 1e-9) / factor, 100):g} %"
