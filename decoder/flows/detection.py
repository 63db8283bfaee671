"""When a flow is detected, in standard errors; checking a metric loads no library of numbers."""

from statistics import NormalDist

FOUND_OFTEN = 0.8  # how often the smallest flow that is named is detected
_NORMAL = NormalDist()


def limit(alpha: float, cells: int) -> float:
    """Standard errors above 0 from which on a flow is detected.

    Args:
        alpha: of the two-sided intervals of all pairs together (Bonferroni), in (0, 1).
        cells: or zones, of which all ordered pairs are tested.
    """
    return -_NORMAL.inv_cdf(alpha / (2 * cells**2))


def reach(alpha: float, cells: int) -> float:
    """Standard errors that a flow must measure to be detected 8 times in 10; see `limit`."""
    return limit(alpha, cells) + _NORMAL.inv_cdf(FOUND_OFTEN)
