"""How far a suspicion can rise by what was seen: the words and figures of every text about an
epsilon.

Apart from `risk`, because a device says it, too, and needs nothing else of that module.
"""

from __future__ import annotations

import math

PRIOR = 0.01  # of the example: how likely somebody thought an answer before
THOUGHT = f"Who thinks it {100 * PRIOR:g} % likely that an answer is yours believes it"


def believed(epsilon: float, prior: float = PRIOR) -> float:
    """The most that a suspicion can become, by Bayes' rule.

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
    """A share in per cent, rounded up, since it is stated as a bound."""
    digits = 2 if share < 0.1 else 1
    factor = 10**digits
    return f"{min(math.ceil(100 * share * factor - 1e-9) / factor, 100):g} %"
