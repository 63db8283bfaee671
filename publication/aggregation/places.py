"""Greedy merging of places (stations, cells) over slots.

While a group has a slot that is too small, the group with the largest share of them joins the
nearest group. Groups lie at the mean of their places; ties go to the first.

The text joins "bound not reached" and "violations remain" by "or": only "and" leaves work for its
last step. Its "maximum number of groups" is where merging stops, so a minimum.

Partitions of two days can be subtracted from each other: publish one partition for all days, or
judge the differences too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from disclosure_control.errors import TableError
from disclosure_control.typing import Booleans, Floats, Integers


@dataclass(frozen=True)
class MergedPlaces:
    """Places merged into groups. of_place: (places,) the group of each place, numbered by their
    first place.

    values: (groups, slots) what is published. std_errors: the same, or None for plain counts.
    raised: how much all values together were raised to the floor: the upward bias.
    unreached: (groups, slots) True where a value did not reach what was asked.
    """

    of_place: Integers
    values: Floats
    std_errors: Floats | None
    raised: float
    unreached: Booleans


def merge_by_floor(
    counts: Floats,
    coordinates: Floats,
    floor: float,
    *,
    min_groups: int = 1,
    open_slots: Booleans | None = None,
) -> MergedPlaces:
    """Merge places until every count is `floor` or more; raise what is left to the floor.

    Args:
        counts: (places, slots), of distinct persons: one person who is counted often passes a floor
            of counted events. Where persons have profiles that are published, merge each profile.
        coordinates: (places, dimensions) on a plane, all in one unit.
        floor: above 0.
        min_groups: where merging stops.
        open_slots: (places, slots) False where a place is closed. A slot in which all places of a
            group are closed, and nobody was counted, is published as 0; where somebody was, it is
            as any other. Without it a closed place shows the floor.

    Raises:
        TableError: shapes that do not fit, counts that are negative or not finite, a floor of 0 or
            less.
    """
    is_open = np.ones(counts.shape, dtype=bool) if open_slots is None else open_slots
    if is_open.shape != counts.shape or not (0 < floor < np.inf and _is_count(counts)):
        raise TableError(
            f"counts {counts.shape} of 0 or more, open slots {is_open.shape} and a floor above 0 "
            f"are needed, not {floor}"
        )

    def is_small(members: Booleans) -> Booleans:
        held = counts[members].sum(axis=0)
        small: Booleans = (held < floor) & (is_open[members].any(axis=0) | (held > 0))
        return small

    groups = _merge(counts, coordinates, is_small, min_groups)
    values = np.array([counts[members].sum(axis=0) for members in groups], dtype=float)
    small = np.array([is_small(members) for members in groups])
    raised = float((floor - values[small]).sum())
    return MergedPlaces(_number(groups), np.where(small, floor, values), None, raised, small)


def merge_by_significance(
    estimates: Floats,
    std_errors: Floats,
    coordinates: Floats,
    ratio: float,
    *,
    min_groups: int = 1,
) -> MergedPlaces:
    """Merge places until each estimate is `ratio` standard errors or more.

    The better rule for decoded densities: they are private already, and what they lack is signal.
    Nothing is raised; what does not reach the ratio in the end is marked in `unreached`. The
    partition is chosen by looking at the estimates, so intervals of merged cells are slightly
    optimistic.

    Args:
        estimates, std_errors: (places, slots); errors of different places are taken as independent.
        coordinates: (places, dimensions) on a plane.
        ratio: estimate over standard error, above 0.
        min_groups: where merging stops.

    Raises:
        TableError: shapes that do not fit, standard errors or a ratio of 0 or less.
    """
    if estimates.shape != std_errors.shape or not ratio > 0 or not (std_errors > 0).all():
        raise TableError(
            f"estimates {estimates.shape}, standard errors {std_errors.shape} above 0 and a ratio "
            f"above 0 are needed, not {ratio}"
        )

    def error_of(members: Booleans) -> Floats:
        error: Floats = np.sqrt((std_errors[members] ** 2).sum(axis=0))
        return error

    def is_small(members: Booleans) -> Booleans:
        small: Booleans = estimates[members].sum(axis=0) < ratio * error_of(members)
        return small

    groups = _merge(estimates, coordinates, is_small, min_groups)
    values = np.array([estimates[members].sum(axis=0) for members in groups])
    errors = np.array([error_of(members) for members in groups])
    small = np.array([is_small(members) for members in groups])
    return MergedPlaces(_number(groups), values, errors, 0.0, small)


def _merge(
    values: Floats,
    coordinates: Floats,
    is_small: Callable[[Booleans], Booleans],
    min_groups: int,
) -> list[Booleans]:
    """The members of each group, in the order of their first place. Time O(places^2 slots)."""
    places = len(values)
    if values.ndim != 2 or not places or coordinates.shape[:1] != (places,) or min_groups < 1:
        raise TableError(
            f"values {values.shape}, coordinates {coordinates.shape}, min_groups {min_groups}"
        )
    points = coordinates.reshape(places, -1)
    groups = list(np.eye(places, dtype=bool))
    shares = [float(is_small(members).mean()) for members in groups]
    centres = [points[members].mean(axis=0) for members in groups]
    while max(shares) > 0 and len(groups) > min_groups:
        worst = int(np.argmax(shares))
        distances = np.linalg.norm(np.array(centres) - centres[worst], axis=1)
        distances[worst] = np.inf
        first, second = sorted((worst, int(np.argmin(distances))))
        groups[first] = groups[first] | groups[second]
        shares[first] = float(is_small(groups[first]).mean())
        centres[first] = points[groups[first]].mean(axis=0)
        for entries in (groups, shares, centres):
            del entries[second]
    return groups


def _is_count(counts: Floats) -> bool:
    return bool((np.isfinite(counts) & (counts >= 0)).all())


def _number(groups: list[Booleans]) -> Integers:
    numbers: Integers = np.argmax(np.array(groups), axis=0)
    return numbers
