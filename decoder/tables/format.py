"""Format numbers for people, on pages, terminals and pictures."""

import math
from datetime import date

from rappor_core.text import visible

GEOMETRY = "geometry"  # the column of shapes in GeoParquet


def fraction(part: float) -> str:
    """Return a part of the reports; NaN: not known."""
    return "not known" if math.isnan(part) else "all" if part >= 1 else percent(part)


def p_text(p: float) -> str:
    """Format a p-value."""
    return f"{p:.3f}" if p >= 0.001 else "< 1e-300" if p < 1e-300 else f"{p:.0e}"


def count(number: float) -> str:
    """Format a whole number with separators."""
    return f"{round(number):,}"


def known(value: float, low: float, high: float) -> str:
    """Format a number to two digits of its interval's half-width."""
    half = (high - low) / 2
    if not 0 < half < math.inf:
        return f"{value:,.6g}"
    digits = 1 - math.floor(math.log10(half))
    return f"{round(value, digits) + 0.0:,.{max(digits, 0)}f}"


def edge_text(edge: float) -> str:
    """Format an edge of a metric of numbers."""
    return f"{edge:,.6g}"


def interval(low: float, high: float) -> str:
    """Format an interval of two shares, the unit said once."""
    return f"{percent(low).removesuffix(' %')} to {percent(high)}"


def points_interval(low: float, high: float) -> str:
    """Format an interval of a difference of shares: -1.2 to +3.4 points."""
    return f"{points(low).removesuffix(' points')} to {points(high)}"


def days(first: date | str | None, last: date | str | None) -> str:
    """Format a window of days, also of ISO text; ? where it is not known."""
    if first is None or last is None:
        return "?"
    return f"{first}" if first == last else f"{first} to {last}"


def percent(share: float) -> str:
    """Format a share as per cent with at most three significant digits: 12.3 %, 0.00012 %."""
    size = abs(share)
    if size < 5e-12:
        return "0 %"
    if size < 0.00095:
        return f"{100 * share:.{1 - math.floor(math.log10(100 * size))}f} %"
    digits = 0 if size >= 0.995 else 1 if size >= 0.095 else 2 if size >= 0.0095 else 3
    return f"{100 * share:.{digits}f} %"


def points(difference: float) -> str:
    """Format a difference of shares in points: +5.9 points, -0.12 points."""
    sign = "+" if difference > 0 else ""
    return f"{sign}{percent(difference).removesuffix(' %')} points"


def short(value: str, most: int = 80) -> str:
    """Format a value for people: long ones are cut visibly, invisible characters are escaped."""
    cut = value if len(value) <= most else value[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return visible(cut)
