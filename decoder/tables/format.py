"""Number formats for people, on pages, terminals and pictures."""

import math
from datetime import date

from rappor_core.text import visible

GEOMETRY = "geometry"  # the column of shapes in GeoParquet


def fraction(part: float) -> str:
    """Format a fraction of the reports; NaN as "not known"."""
    return "not known" if math.isnan(part) else "all" if part >= 1 else percent(part)


def p_text(p: float) -> str:
    """Format a p-value."""
    return f"{p:.3f}" if p >= 0.001 else "< 1e-300" if p < 1e-300 else f"{p:.0e}"


def count(number: float) -> str:
    """Format a whole number with separators."""
    return f"{round(number):,}"


def number_text(value: float) -> str:
    """Format a number with three significant digits, or as a whole number from 1,000."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def edge_text(edge: float) -> str:
    """Format an edge of a number metric."""
    return f"{edge:,.6g}"


def between(low: float | None, high: float | None) -> str:
    """Format the range between two edges; None for an edge where it is open."""
    if low is None:
        return "not known" if high is None else f"below {edge_text(high)}"
    return f"{edge_text(low)} or more" if high is None else f"{edge_text(low)} to {edge_text(high)}"


def interval(low: float, high: float) -> str:
    """Format an interval of two shares with a single unit."""
    return f"{percent(low).removesuffix(' %')} to {percent(high)}"


def points_interval(low: float, high: float) -> str:
    """Format an interval of a difference of shares: -1.2 to +3.4 points."""
    return f"{points(low).removesuffix(' points')} to {points(high)}"


def days(first: date | str | None, last: date | str | None) -> str:
    """Format a window of days, also from ISO text."""
    if first is None or last is None:
        return "no dates"
    return f"{first}" if first == last else f"{first} to {last}"


def percent(share: float) -> str:
    """Format a share as percent with three significant digits, clipped to 0 to 100 %: 12.3 %."""
    return _digits(min(max(share, 0.0), 1.0)) + " %"


def points(difference: float) -> str:
    """Format a difference of shares in points: +5.90 points, -0.120 points."""
    return f"{'+' if difference > 0 else ''}{_digits(difference)} points"


def _digits(part: float) -> str:
    size = abs(float(f"{100 * part:.2e}"))  # rounded first, so that 9.996 becomes 10.0
    if size < 5e-10:
        return "0"
    return f"{100 * part:.{max(2 - math.floor(math.log10(size)), 0)}f}"


def short(value: str, most: int = 80) -> str:
    """Format a value for people: truncate it visibly, and escape invisible characters."""
    cut = value if len(value) <= most else value[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return visible(cut)
