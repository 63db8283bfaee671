"""Projection on the simplex: the nearest shares that are not negative and have a given sum.

Negative estimates are noise, and so is part of every small positive one: the projection takes the
same amount from all and clips, where clipping and rescaling keeps every positive noise. Algorithm:
Duchi, Shalev-Shwartz, Singer, Chandra 2008, "Efficient projections onto the l1-ball", figure 1.
"""

import numpy as np

from decoder.typing import Floats


def project_simplex(values: Floats, total: float = 1.0) -> Floats:
    """Find the nearest point (n,) to `values` (n,) with no negative entry and sum `total` >= 0."""
    if total <= 0 or not len(values):
        return np.zeros(len(values))
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    return np.asarray(np.maximum(values - excess[last], 0.0))
