"""Tables that add up: a table of all reports beside those of its strata, in one window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from publication.errors import PolicyError
from publication.release.tables import TableKey, table_name


@dataclass(frozen=True)
class Family:
    """A table and the tables that split it by one stratum. Keys of tables."""

    whole: TableKey
    parts: tuple[TableKey, ...]


def families(keys: Iterable[TableKey]) -> list[Family]:
    """Every table with the parts of it, by one more stratum, that stand beside it.

    Raises:
        PolicyError: a table has parts by two strata, or is part of two, or both: what can be
            computed is then not a network, and is not judged. So is a table that does not stand
            there: all parts by one stratum add up to it, as those by the other do.
    """
    known = list(dict.fromkeys(keys))
    there = set(known)
    parts: dict[tuple[TableKey, str], list[TableKey]] = defaultdict(list)
    split_by: dict[TableKey, str] = {}
    for metric, strata, first, last in known:
        for left_out in strata:
            rest = tuple(one for one in strata if one != left_out)
            whole = (metric, rest, first, last)
            if split_by.setdefault(whole, left_out[0]) != left_out[0]:
                raise PolicyError(
                    f"{table_name(whole)} is split by two strata, {split_by[whole]!r} and "
                    f"{left_out[0]!r}; publish one of the splits, and leave the other out"
                )
            if whole in there:
                parts[whole, left_out[0]].append((metric, strata, first, last))
    found = [Family(whole, tuple(members)) for (whole, _), members in parts.items()]
    seen: set[TableKey] = set()
    for family in found:
        for key in (family.whole, *family.parts):
            if key in seen:
                raise PolicyError(
                    f"{table_name(key)} stands in two sums, by two strata; publish one of the "
                    "splits, and leave the other out"
                )
            seen.add(key)
    return found


def withheld_parts(
    found: Sequence[Family],
    reports: Mapping[TableKey, int],
    new: Iterable[TableKey],
    min_reports: int,
    tolerance: int,
) -> set[TableKey]:
    """Tables to withhold so that no whole less its parts tells of a few reports.

    Args:
        found: families of tables, of which some are withheld already.
        reports: of each table that is, or was, published.
        new: those that can still be withheld.
        min_reports: of what is left of a whole.
        tolerance: reports that rounding hides.

    Returns:
        The smallest new parts of each family that leave so few; the whole, where all parts are
        published already.
    """
    free, withheld = set(new), set()
    for family in found:
        if family.whole not in reports:
            continue
        parts = sorted((key for key in family.parts if key in reports), key=reports.__getitem__)
        while _leaves_few(family.whole, parts, reports, min_reports, tolerance):
            loose = [key for key in parts if key in free] or [family.whole]
            withheld.add(loose[0])
            if loose[0] == family.whole:
                break
            parts.remove(loose[0])
    return withheld


def across_windows(new: Iterable[TableKey], published: Iterable[TableKey]) -> set[TableKey]:
    """Which tables to withhold, as sums over other windows of other strata tell of what is left.

    A table of all of days 1 to 8, less one stratum of days 1 to 4 and of 5 to 8, is the other
    strata. Only tables of the same windows are judged (`families`); of two tables with other
    strata, whose windows overlap and are not the same, the later one is withheld.

    Args:
        new: in the order of preference.
        published: by earlier releases.
    """
    withheld = set()
    known: dict[str, list[TableKey]] = defaultdict(list)
    for key in published:
        known[key[0]].append(key)
    for key in new:
        if any(_apart(key, other) for other in known[key[0]]):
            withheld.add(key)
        else:
            known[key[0]].append(key)
    return withheld


def _apart(one: TableKey, other: TableKey) -> bool:
    """Whether two tables of a metric have other strata, and share days but not the window."""
    if dict(one[1]).keys() == dict(other[1]).keys() or one[2:] == other[2:]:
        return False
    return one[2] <= other[3] and other[2] <= one[3]


def _leaves_few(
    whole: TableKey,
    parts: Sequence[TableKey],
    reports: Mapping[TableKey, int],
    min_reports: int,
    tolerance: int,
) -> bool:
    rest = reports[whole] - sum(reports[key] for key in parts)
    return bool(parts) and tolerance * len(parts) < rest < min_reports
