"""P-values, corrections for multiplicity, and the decision on each candidate.

Benjamini and Hochberg 1995 (bh), Storey 2002 with lambda = .9 (fdr), Efron 2010, chapter 5 (local
false discovery rates, fdr-eb). All tests are one-sided, because a share is at least 0."""

from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import ndtr

from decoder.typing import Flags, Floats, Indices

Correction = Literal["bonferroni", "bh", "fdr", "fdr-eb", "none"]

CORRECTIONS: tuple[str, ...] = get_args(Correction)
WEIGHTED: tuple[str, ...] = ("bonferroni", "bh", "fdr")
FALSE_SHARE: tuple[str, ...] = ("bh", "fdr", "fdr-eb")  # they bound the share of false detections
PROMISES: dict[str, str] = {  # the guarantee about the detected values, at a level
    "bonferroni": "the probability of any false positive is at most {level} (Bonferroni)",
    "bh": "on average at most {level} are false positives (Benjamini-Hochberg)",
    "fdr": "on average at most {level} are false positives (Benjamini-Hochberg-Storey)",
    "fdr-eb": "on average at most {level} are false positives, by the fitted prior (local fdr)",
    "none": "each had a probability of {level} to be a false positive: nothing corrects for "
    "the number of candidates",
}
STOREY_LAMBDA, CAREFUL_LAMBDA = 0.9, 0.5
SHORT_LIST = 20  # with fewer candidates, too few p-values above lambda are expected


class ListDecision(NamedTuple):
    """The decision on a list of candidates (M,) after correction for multiplicity."""

    detected: Flags
    adjusted: Floats  # Corrected p-values, or mean local fdr up to the candidate (`fdr-eb`)
    cutoff: float  # The rule's threshold for weight 1, on p-value or local fdr; 0 if none passes
    weights: Floats | None = None
    most: float = 1.0  # No larger p-value is accepted
    alone: Flags | None = None  # The candidates that were tested separately, at level `alpha`
    alpha: float = 0.0

    def largest(self, indices: Indices) -> Floats:
        """Return the largest accepted p-value or local fdr of each candidate in `indices`, (D,)."""
        weights = np.ones(len(indices)) if self.weights is None else self.weights[indices]
        largest = np.minimum(self.cutoff * weights, self.most)
        return np.where(self.listed(indices), largest, self.alpha)

    def listed(self, indices: Indices) -> Flags:
        """Return flags (D,) of the candidates tested as members of the list, not separately."""
        return np.ones(len(indices), dtype=bool) if self.alone is None else ~self.alone[indices]


def p_values(deviates: Floats) -> Floats:
    """Return the probability (M,) that an absent string has a score at least this high."""
    return np.asarray(ndtr(-deviates))


def decide(
    p: Floats,
    local_fdr: Floats,
    correction: Correction,
    alpha: float,
    largest_p: float = 1.0,
    weights: Floats | None = None,
    null_p: Floats | None = None,
    alone: Flags | None = None,
    careful: bool = False,
) -> ListDecision:
    """Apply a rule at level `alpha` in (0, 1) to the p-values or local fdrs of all candidates.

    Args:
        p: The p-values, (M,).
        local_fdr: The local fdrs, (M,), used by `fdr-eb`.
        correction: The rule that corrects for the number of candidates.
        alpha: The level of the rule, in (0, 1).
        largest_p: The maximum p-value of an accepted candidate.
        weights: The divisors of the p-values, (M,), positive, of mean 1 (Genovese, Roeder and
            Wasserman 2006). The level holds if they are chosen without the p-values.
        null_p: P-values (M,) that are uniform for candidates that no one has, from which `fdr`
            estimates the number of absent candidates; None for `p`.
        alone: Candidates (M,) outside the list, each tested separately. A value that is certainly
            present, such as `other` in a map, would raise the level at which `bh` and `fdr` accept
            other candidates.
        careful: Whether p-values near 1 may be too rare.
    """
    if alone is not None and not alone.any():
        alone = None
    listed: slice | Flags = slice(None) if alone is None else ~alone
    if weights is not None and alone is not None:
        weights = np.where(alone, 1.0, weights / weights[listed].mean())
    of_list, by_fdr = p[listed], correction == "fdr-eb"
    w = None if weights is None else weights[listed]
    share, statistic = 1.0, local_fdr[listed] if by_fdr else of_list if w is None else of_list / w
    if correction == "fdr":
        share = null_share(of_list if null_p is None else null_p[listed], w, careful=careful)
        statistic = np.where(of_list <= STOREY_LAMBDA, statistic, np.inf)
    order = np.argsort(statistic, kind="stable")
    ranked = np.empty_like(of_list)
    ranked[order] = np.minimum(_adjust(statistic[order], share, correction), 1.0)
    cutoff = _cutoff(statistic, ranked <= alpha, share, correction, alpha)
    adjusted = ranked
    if alone is not None:
        adjusted = (local_fdr if by_fdr else p).copy()
        adjusted[listed] = ranked
    detected = (adjusted <= alpha) & (p <= largest_p)
    most = STOREY_LAMBDA if correction == "fdr" else 1.0
    return ListDecision(detected, adjusted, cutoff, weights, most, alone, alpha)


def null_share(p: Floats, weights: Floats | None = None, *, careful: bool = False) -> float:
    """Estimate the share of candidates that no one has (Storey); 1 for short lists.

    The result is not clipped to 1, because the proof of the level requires this (Storey, Taylor and
    Siegmund 2004, theorem 3). With weights, it is the share of weight (Ramdas, Barber, Wainwright
    and Jordan 2019). If `careful`, p-values near 1 may be too rare, so the estimate from p-values
    above .5 is also considered."""
    if len(p) < SHORT_LIST:
        return 1.0
    w = np.ones(len(p)) if weights is None else weights
    return max(
        float((w[p > above].sum() + w.max()) / ((1 - above) * len(p)))
        for above in ((CAREFUL_LAMBDA, STOREY_LAMBDA) if careful else (STOREY_LAMBDA,))
    )


def _adjust(ranked: Floats, share: float, correction: Correction) -> Floats:
    """Adjust statistics that are sorted from best to worst."""
    total, rank = len(ranked), np.arange(1, len(ranked) + 1)
    if correction == "bonferroni":
        return ranked * total
    if correction == "fdr-eb":
        return np.asarray(np.cumsum(ranked) / rank)
    if correction == "none":
        return ranked
    raised = ranked * total / rank
    if correction == "fdr":
        raised = share * raised
    return np.asarray(np.minimum.accumulate(raised[::-1])[::-1])


def _cutoff(
    statistic: Floats, detected: Flags, share: float, correction: Correction, alpha: float
) -> float:
    """Return the rule's threshold on p / weight, given the number that it accepts."""
    total, accepted = len(statistic), int(detected.sum())
    if not accepted:
        return 0.0
    if correction == "fdr-eb":  # the worst accepted could rise to the mean or the best rejected
        accepted_values, refused = statistic[detected], statistic[~detected]
        spare = alpha * accepted - float(accepted_values.sum())
        return float(min(float(accepted_values.max()) + max(spare, 0.0), refused.min(initial=1.0)))
    thresholds = {
        "bonferroni": alpha / total,
        "bh": alpha * accepted / total,
        "fdr": alpha * accepted / (total * share),
        "none": alpha,
    }
    return float(thresholds[correction])
