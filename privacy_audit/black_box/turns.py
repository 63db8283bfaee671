"""Checks of the period in which a device gives an answer: uniform, and independent of another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privacy_audit.black_box import bounds
from privacy_audit.black_box.checks import Check, test
from privacy_audit.black_box.derivations import BOX
from privacy_audit.black_box.noise import chi_square
from privacy_audit.black_box.power import chance_off


def uniform_check(metric: str, claim: str, periods: Sequence[int], number: int) -> Check:
    """Check that each device's period, one of so many from 0, is drawn uniformly."""
    counts = np.bincount(periods, minlength=number).astype(float)
    p_value, _ = chi_square(counts, np.full(number, counts.sum() / number))
    return test(
        metric, claim, BOX, p_value,
        f"{counts.min():,.0f} to {counts.max():,.0f} devices in each of {number} periods",
        chance_off(1 / number, len(periods), "of a period's share", number),
    )  # fmt: skip


def independence_check(metric: str, claim: str, same: Sequence[bool], chance: float) -> Check:
    """Check that the turns of two blocks of a device are the same one by chance alone."""
    equal = sum(same)
    return test(
        metric, claim, BOX, bounds.count_p_value(equal, len(same), chance),
        f"{equal:,} of {len(same):,} pairs of blocks were answered at the same turn, "
        f"{chance * len(same):.1f} expected",
        chance_off(chance, len(same), "of the share of equal turns"),
    )  # fmt: skip
