"""Rounding to a decimal step: numbers to the nearest multiple, ends of an interval outwards.

A rounded number is the multiple itself, as near as a float can be: the last bits of the number that
was rounded are not in it.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from disclosure.typing import Floats


def round_nearest(values: Floats, step: Decimal) -> Floats:
    """The nearest multiple of `step`, ties to even ones. NaN stays NaN."""
    return _multiples(np.rint(values / float(step)), step)


def round_down(values: Floats, step: Decimal) -> Floats:
    """The largest multiple of `step` that is not above. A multiple stays as it is."""
    near = np.rint(values / float(step))
    found = np.where(_multiples(near, step) <= values, near, near - 1)
    return _multiples(found, step)


def round_up(values: Floats, step: Decimal) -> Floats:
    """The smallest multiple of `step` that is not below. A multiple stays as it is."""
    found: Floats = 0.0 - round_down(0.0 - values, step)
    return found


def decimals(step: Decimal) -> int:
    """Number of digits after the point of every multiple of a step."""
    exponent = step.normalize().as_tuple().exponent
    return max(0, -int(exponent))


def _multiples(counts: Floats, step: Decimal) -> Floats:
    """counts * step, correctly rounded: the step is a whole number over a power of ten."""
    places = decimals(step)
    whole = float(step.scaleb(places))
    found: Floats = counts * whole / 10.0**places + 0.0
    return found
