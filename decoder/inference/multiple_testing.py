"""From scores to decisions: p-values, corrections for many candidates, what a rule accepts.

Benjamini and Hochberg 1995 (bh), Storey 2002 with lambda = .9 (fdr), Holm 1979, Efron 2010,
chapter 5 (local false discovery rates, fdr-eb). All tests are one-sided: a share is 0 or above.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import ndtr

from decoder.errors import DecodeError
from decoder.typing import Flags, Floats

Correction = Literal["bonferroni", "holm", "bh", "fdr", "fdr-eb", "none"]

CORRECTIONS: tuple[str, ...] = get_args(Correction)
STOREY_LAMBDA = 0.9
SHORT_LIST = 20  # candidates below which too few p-values are expected above lambda


class Decision(NamedTuple):
    """What a rule accepts.

    detected: (M,).  adjusted: corrected p-values (M,); for `fdr-eb`, the mean local fdr of the
    list that ends with the candidate.  cutoff: the rule's own threshold, on the p-value or, for
    `fdr-eb`, on the local fdr; 0 where nothing is accepted.
    """

    detected: Flags
    adjusted: Floats
    cutoff: float


def p_values(deviates: Floats) -> Floats:
    """Upper tail of the normal: the chance that a string nobody holds scores as high, (M,)."""
    return np.asarray(ndtr(-deviates))


def decide(
    p: Floats, local_fdr: Floats, correction: Correction, alpha: float, largest_p: float = 1.0
) -> Decision:
    """Apply a rule at level `alpha` in (0, 1) to the p-values or local fdrs of all candidates.

    largest_p: never accept a candidate whose own p-value is above it.
    """
    if correction not in CORRECTIONS:
        raise DecodeError(f"correction = {correction!r} is not one of {', '.join(CORRECTIONS)}")
    if not 0 < alpha < 1:
        raise DecodeError(f"alpha = {alpha!r} is not between 0 and 1")
    statistic = local_fdr if correction == "fdr-eb" else p
    order = np.argsort(statistic, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(_adjust(statistic[order], p, correction), 1.0)
    detected = adjusted <= alpha
    cutoff = _cutoff(statistic, detected, correction, alpha, null_share(p))
    return Decision(detected & (p <= largest_p), adjusted, cutoff)


def null_share(p: Floats) -> float:
    """Storey's estimate of the share of candidates that nobody holds; 1 for short lists.

    Not cut off at 1: only where it may exceed 1 is the mean of 1 / estimate at most 1 / truth, on
    which the proof of the level rests (Storey, Taylor and Siegmund 2004, theorem 3).
    """
    if len(p) < SHORT_LIST:
        return 1.0
    return float(((p > STOREY_LAMBDA).sum() + 1) / ((1 - STOREY_LAMBDA) * len(p)))


def _adjust(ranked: Floats, p: Floats, correction: Correction) -> Floats:
    """Adjusted values of statistics sorted from best to worst."""
    total, rank = len(ranked), np.arange(1, len(ranked) + 1)
    if correction == "bonferroni":
        return ranked * total
    if correction == "holm":
        return np.maximum.accumulate(ranked * (total - rank + 1))
    if correction == "fdr-eb":
        return np.asarray(np.cumsum(ranked) / rank)
    if correction == "none":
        return ranked
    raised = ranked * total / rank
    if correction == "fdr":
        raised = np.where(ranked <= STOREY_LAMBDA, null_share(p) * raised, 1.0)
    return np.asarray(np.minimum.accumulate(raised[::-1])[::-1])


def _cutoff(
    statistic: Floats, detected: Flags, correction: Correction, alpha: float, share: float
) -> float:
    """The threshold that the rule itself sets, given how many it accepts."""
    total, accepted = len(statistic), int(detected.sum())
    if not accepted:
        return 0.0
    if correction == "fdr-eb":
        return _largest_local_fdr(statistic, detected, alpha)
    thresholds = {
        "bonferroni": alpha / total,
        "holm": alpha / (total - accepted + 1),
        "bh": alpha * accepted / total,
        "fdr": min(alpha * accepted / (total * share), STOREY_LAMBDA),
        "none": alpha,
    }
    return float(min(thresholds[correction], 1.0))


def _largest_local_fdr(local_fdr: Floats, detected: Flags, alpha: float) -> float:
    """What the worst accepted could have had: up to the mean `alpha`, or to the best refused."""
    accepted, refused = local_fdr[detected], local_fdr[~detected]
    spare = alpha * len(accepted) - float(accepted.sum())
    worst = float(accepted.max())
    return float(min(worst + max(spare, 0.0), refused.min(initial=1.0)))
