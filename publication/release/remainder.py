"""What is left of a table, less the parts of it that are published: it can be computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from publication.release.policy import ReleasePolicy
from publication.release.rounding import round_down
from publication.release.strata import Family
from publication.release.tables import ReleasedTable, TableKey
from publication.typing import Booleans, Floats


@dataclass(frozen=True)
class Remainder:
    """The table of everybody in a whole who is in none of its parts.

    secret: (rows,) what a table of them would not show, or what cannot be told of.
    sum_known: whether the sum of its cells can be computed.
    """

    secret: Booleans
    sum_known: bool


def remaining_reports(family: Family, reports: Mapping[TableKey, int], tolerance: int) -> int:
    """Reports of a whole that none of its parts has: 0 as far as rounding tells, or below 0."""
    rest = reports[family.whole] - sum(reports[key] for key in family.parts)
    return 0 if abs(rest) <= tolerance * len(family.parts) else rest


def remainder_of(
    members: Sequence[ReleasedTable], rows: Sequence[str], policy: ReleasePolicy
) -> Remainder:
    """Judge what is left as a table of its own: its shares, and the errors of as many reports.

    Args:
        members: the whole, then its parts, which hold fewer reports; all published.
        rows: cells of all of them.
        policy: its `min_low` is what a cell must reach.
    """
    counts = [float(table.reports or 0) for table in members]
    left = counts[0] - sum(counts[1:])
    whole, *parts = (_by_row(table, rows) for table in members)
    of_parts = sum(count * part[0] for count, part in zip(counts[1:], parts, strict=True))
    rest = (counts[0] * whole[0] - of_parts) / left
    z = -float(ndtri((1 - members[0].level) / 2))
    low = rest - z * whole[1] * np.sqrt(counts[0] / left)
    seen = np.isfinite(low) & (round_down(np.nan_to_num(low), policy.rounding) >= policy.min_low)
    return Remainder(~seen, all(table.complete or table.has_total for table in members))


def _by_row(table: ReleasedTable, rows: Sequence[str]) -> tuple[Floats, Floats]:
    """The estimate and the standard error of each row; NaN where it is not shown."""
    place = {cell: index for index, cell in enumerate(table.cells)}
    index = np.array([place.get(cell, -1) for cell in rows], dtype=np.int64)
    found = []
    for values in (table.estimate, table.std_error):
        padded = np.append(values, np.nan)
        found.append(padded[index])
    return found[0], found[1]
