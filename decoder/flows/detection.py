"""The flow detection threshold, in standard errors; this module imports no numeric library."""

from statistics import NormalDist

FOUND_OFTEN = 0.8  # the probability of detecting the smallest flow that counts as detectable
_NORMAL = NormalDist()


def limit(alpha: float, cells: int) -> float:
    """Return the number of standard errors above 0 at which a flow is detected.

    Args:
        alpha: The error level of the two-sided intervals of all pairs together (Bonferroni), in (0,
            1).
        cells: The number of cells or zones; all ordered pairs are tested.
    """
    return -_NORMAL.inv_cdf(alpha / (2 * cells**2))


def reach(alpha: float, cells: int) -> float:
    """Return the size in standard errors of a flow that is detected 8 times in 10; see `limit`."""
    return limit(alpha, cells) + _NORMAL.inv_cdf(FOUND_OFTEN)
