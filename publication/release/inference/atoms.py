"""Atoms: the smallest parts of the population and of time that public tables tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from publication.errors import ReleaseError

MOST_ATOMS = 20_000


@dataclass(frozen=True)
class Scope:
    """Whom a table is of: strata, with the ones that they lie in, and days, both ends in it."""

    strata: Mapping[str, str]
    first: date
    last: date


@dataclass(frozen=True)
class Atoms:
    """tables: for each atom the tables that it is part of, as bits of a number.

    residual: for each atom, whether it is what is left beside tables that may be all of a split.
    """

    tables: tuple[int, ...]
    residual: tuple[bool, ...]

    def components(self) -> Iterator[list[int]]:
        """Atoms that tables link: indices, each component by itself."""
        groups: list[tuple[int, list[int]]] = []
        for index, mask in enumerate(self.tables):
            meeting = [group for group in groups if group[0] & mask]
            groups = [group for group in groups if not group[0] & mask]
            joined = mask
            members = [index]
            for bits, held in meeting:
                joined |= bits
                members = held + members
            groups.append((joined, members))
        yield from (members for _, members in groups)


def bits(mask: int) -> Iterator[int]:
    """Places of the ones of a number."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def find_atoms(scopes: Sequence[Scope]) -> Atoms:
    """The parts that the tables of one metric tell apart.

    Days are cut where a window begins or ends, and the population by all strata at once; parts in
    the same tables are one. Of each stratum there may be values that no table names.

    Raises ReleaseError where so many strata cross that there are more than MOST_ATOMS.
    """
    values: dict[str, set[str]] = {}
    for scope in scopes:
        for name, value in scope.strata.items():
            values.setdefault(name, set()).add(value)
    residual: dict[int, bool] = {}
    parts = _Parts(scopes)
    for block in _blocks(scopes):
        masks = {block}
        for name, known in values.items():
            masks = _split(masks, list(_allowed(scopes, name, known)))
        for mask in masks - {0}:
            left = parts.are_beside(mask, block)
            residual[mask] = residual.get(mask, True) and left
        if len(residual) > MOST_ATOMS:
            raise ReleaseError(
                f"strata and windows cut the population into more than {MOST_ATOMS:,} parts: "
                "publish fewer strata that cross"
            )
    return Atoms(tuple(residual), tuple(residual.values()))


def _blocks(scopes: Sequence[Scope]) -> Iterator[int]:
    """For each stretch of days between two boundaries, the tables whose window holds it."""
    ends = {scope.last + timedelta(days=1) for scope in scopes}
    for day in sorted({scope.first for scope in scopes} | ends)[:-1]:
        yield _mask(i for i, one in enumerate(scopes) if one.first <= day <= one.last)


def _allowed(scopes: Sequence[Scope], name: str, known: Iterable[str]) -> Iterator[int]:
    """For each value of a stratum, and for all others, the tables that may hold it."""
    free = _mask(i for i, one in enumerate(scopes) if name not in one.strata)
    named: dict[str, int] = dict.fromkeys(known, free)
    for index, scope in enumerate(scopes):
        if name in scope.strata:
            named[scope.strata[name]] |= 1 << index
    yield free
    yield from named.values()


def _split(masks: Iterable[int], allowed: Sequence[int]) -> set[int]:
    return {mask & one for mask in masks for one in allowed}


def _mask(indices: Iterable[int]) -> int:
    found = 0
    for index in indices:
        found |= 1 << index
    return found


class _Parts:
    """Which tables stand beside a part of the population without holding it."""

    def __init__(self, scopes: Sequence[Scope]) -> None:
        self._scopes = scopes
        by_names: dict[frozenset[str], int] = {}
        for index, scope in enumerate(scopes):
            names = frozenset(scope.strata)
            by_names[names] = by_names.get(names, 0) | 1 << index
        self._splits = [(names, held) for names, held in by_names.items() if names]

    def are_beside(self, mask: int, block: int) -> bool:
        """Whether two tables or more by the same strata split these days, and none holds the part.

        They agree with the tables that do hold it, in the strata that those name.
        """
        known: dict[str, str] = {}
        for index in bits(mask):
            known |= self._scopes[index].strata
        for names, held in self._splits:
            if names <= known.keys() or held & mask:
                continue
            common = names & known.keys()
            agreeing = 0
            for index in bits(held & block):
                strata = self._scopes[index].strata
                agreeing += all(strata[name] == known[name] for name in common)
                if agreeing > 1:
                    return True
        return False
