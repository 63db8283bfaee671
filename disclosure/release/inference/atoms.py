"""Atoms: the smallest groups of people and days that the published tables distinguish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import reduce
from operator import or_
from typing import NamedTuple, TypeAlias

from disclosure.errors import ReleaseError
from rappor_core.errors import shown

MAX_ATOMS = 20_000
Stratum: TypeAlias = tuple[str, str]  # the name and value of a stratum


@dataclass(frozen=True)
class TableScope:
    """The people and days that a table covers."""

    strata: Mapping[str, str]
    first: date
    last: date
    # For a stratum and its value, the strata that contain it
    outer: Mapping[Stratum, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Atoms:
    """The atoms of a set of tables.

    An atom is residual if its people have an unnamed value of a stratum, tables name two or more
    values of that stratum, and each of its tables also contains other atoms."""

    tables: tuple[int, ...]  # For each atom, a bit mask of the tables that contain it
    residual: tuple[bool, ...]

    def components(self) -> Iterator[list[int]]:
        """Yield groups of atoms, as indices, that tables connect directly or through others."""
        groups: list[tuple[int, list[int]]] = []
        for index, mask in enumerate(self.tables):
            joined, members, apart = mask, [index], []
            for group in groups:
                if group[0] & mask:
                    joined, members = joined | group[0], group[1] + members
                else:
                    apart.append(group)
            groups = [*apart, (joined, members)]
        yield from (members for _, members in groups)


def bits(mask: int) -> Iterator[int]:
    """Yield the positions of the ones in a number's binary form."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def find_atoms(scopes: Sequence[TableScope]) -> Atoms:
    """Divide people and days into the atoms that the tables of one metric distinguish.

    Days are split at the ends of windows, and the population by all strata together; parts in the
    same tables are merged. A stratum may have values that no table names. A value of a stratum is
    contained only in the values of other strata that `TableScope.outer` states. Raises ReleaseError
    if there are more than MAX_ATOMS."""
    splits = _splits(scopes)
    residual: dict[int, bool] = {}
    for block in _blocks(scopes):
        parts = {_Part(block, frozenset()): False}
        for split in splits:
            parts = split.of(parts)
            _check_number(len(parts), splits, scopes)
        for part, is_left in parts.items():
            if part.tables:
                residual[part.tables] = residual.get(part.tables, True) and is_left
        _check_number(len(residual), splits, scopes)
    shared = reduce(or_, (tables for tables, is_left in residual.items() if not is_left), 0)
    return Atoms(
        tuple(residual),
        tuple(is_left and not tables & ~shared for tables, is_left in residual.items()),
    )


def _check_number(count: int, splits: Sequence[_Split], scopes: Sequence[TableScope]) -> None:
    """Raise ReleaseError, with the most divisive strata, if there are too many atoms."""
    if count > MAX_ATOMS:
        names = [f"{len(split.values):,} of {shown(split.name)}" for split in splits]
        windows = len({(scope.first, scope.last) for scope in scopes})
        raise ReleaseError(
            f"strata and windows cut the population into more than {MAX_ATOMS:,} parts: crossing "
            f"strata ({', '.join(names)}) and {windows:,} windows; leave out the tables by one "
            "stratum, or declare with [within] which stratum lies in which"
        )


class _Part(NamedTuple):
    """A part of the population while it is being split."""

    tables: int  # Bits of the tables that may contain it
    lies_in: frozenset[Stratum]  # Strata that remain to be split


@dataclass(frozen=True)
class _Split:
    """A stratum: for each value, the tables that may contain it and the strata that it lies in."""

    name: str
    values: Mapping[str, tuple[int, frozenset[Stratum]]]
    others: int  # Tables that may contain an unnamed value

    def of(self, parts: Mapping[_Part, bool]) -> dict[_Part, bool]:
        """Split parts by the values of this stratum; the flags mark parts with unnamed values."""
        atoms: dict[_Part, bool] = {}
        for part, is_left in parts.items():
            stratum = next((pair for pair in part.lies_in if pair[0] == self.name), None)
            values = self.values if stratum is None else {stratum[1]: self.values[stratum[1]]}
            rest = part.lies_in - {stratum}
            for tables, outer in values.values():
                if (joined := _joined(part.tables & tables, rest, outer)) is not None:
                    atoms[joined] = atoms.get(joined, True) and is_left
            if stratum is None:
                joined = _Part(part.tables & self.others, rest)
                atoms[joined] = atoms.get(joined, True) and (is_left or len(self.values) > 1)
        return atoms


def _joined(tables: int, first: frozenset[Stratum], second: frozenset[Stratum]) -> _Part | None:
    """Return a part that lies in all of these strata; None if two values of a stratum conflict."""
    both = first | second
    return _Part(tables, both) if len(dict(both)) == len(both) else None


def _splits(scopes: Sequence[TableScope]) -> list[_Split]:
    """Return a split for each stratum; strata that lie in other strata come first."""
    every = (1 << len(scopes)) - 1
    naming: dict[str, dict[str, int]] = {}
    outer = _outer(scopes)
    for index, scope in enumerate(scopes):
        for name, value in scope.strata.items():
            values_of = naming.setdefault(name, {})
            values_of[value] = values_of.get(value, 0) | 1 << index
    splits = []
    for name, values_of in naming.items():
        others = every & ~reduce(or_, values_of.values(), 0)
        values = {
            value: (others | tables, frozenset(outer.get((name, value), {}).items()))
            for value, tables in values_of.items()
        }
        splits.append(_Split(name, values, others))
    return sorted(splits, key=lambda split: -max(len(outer) for _, outer in split.values.values()))


def _outer(scopes: Sequence[TableScope]) -> dict[Stratum, dict[str, str]]:
    """Return the strata that contain each stratum, unless tables disagree."""
    above: dict[Stratum, dict[str, set[str]]] = {}
    for scope in scopes:
        for inner, places in scope.outer.items():
            for name, value in places.items():
                above.setdefault(inner, {}).setdefault(name, set()).add(value)
    for scope in scopes:
        for inner in scope.strata.items():
            for name, values in above.get(inner, {}).items():
                values |= {scope.strata[name]} if name in scope.strata else set()
    return {
        inner: {name: next(iter(values)) for name, values in several.items() if len(values) == 1}
        for inner, several in above.items()
    }


def _blocks(scopes: Sequence[TableScope]) -> Iterator[int]:
    """Yield the tables whose window contains each span of days between two boundaries."""
    ends = {scope.last + timedelta(days=1) for scope in scopes}
    for day in sorted({scope.first for scope in scopes} | ends)[:-1]:
        yield sum(1 << i for i, span in enumerate(scopes) if span.first <= day <= span.last)
