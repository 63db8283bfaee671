"""Differences of published tables: groups of atoms that no table shows but tables reveal.

The reports of a group follow from published tables if its indicator is a linear combination of
theirs: a whole minus its parts, or two tables minus their intersection. Such combinations are the
row space of the tables' indicators. Only the minimal groups are searched; all others are unions of
them."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from disclosure.typing import Booleans, Floats

_EXACT = 1e-9  # tolerance of an entry of an echelon form
_MAX_STEPS = 20_000  # the maximum number of steps in a search


@lru_cache(maxsize=512)  # the same tables recur
def differences(tables: frozenset[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Return the minimal groups of atoms whose indicator combines those of the tables linearly.

    Args:
        tables: The atoms of each table.

    Returns:
        Groups of atoms; none contains all of a table, or of another group.
    """
    names = sorted({atom for table in tables for atom in table})
    if not names:
        return ()
    members = np.array([np.isin(names, table) for table in sorted(tables)])
    return tuple(tuple(names[place] for place in group) for group in _groups(members))


def _groups(members: Booleans) -> Iterator[tuple[int, ...]]:
    """Yield the groups as indices in `members`, (tables, atoms)."""
    columns, alike = np.unique(members, axis=1, return_inverse=True)
    rows = _echelon(columns.astype(float))
    whole = [set(np.flatnonzero(row).tolist()) for row in columns]
    atoms = np.argsort(alike.ravel(), kind="stable")
    ends = np.searchsorted(alike.ravel()[atoms], np.arange(columns.shape[1] + 1))
    alike_atoms = [atoms[a:b].tolist() for a, b in pairwise(ends.tolist())]
    met = csr_array((np.abs(rows) > _EXACT).astype(np.int64))
    blocks, of_row = connected_components(met @ met.T, directed=False)
    for block in range(blocks):
        several = rows[of_row == block]
        free = np.flatnonzero(np.abs(several).max(axis=0) > _EXACT)
        place = {column: number for number, column in enumerate(free.tolist())}
        tables = [{place[x] for x in table} for table in whole if table <= place.keys()]
        for group in _smallest(several[:, free], tables):
            yield tuple(sorted(atom for x in group for atom in alike_atoms[free[x]]))


def _echelon(matrix: Floats) -> Floats:
    """Return the reduced row echelon form, without zero rows."""
    rows, done = matrix.copy(), 0
    for column in range(rows.shape[1]):
        if done == len(rows):
            break
        pivot = done + int(np.abs(rows[done:, column]).argmax())
        if abs(rows[pivot, column]) <= _EXACT:
            continue
        rows[[done, pivot]] = rows[[pivot, done]]
        rows[done] /= rows[done, column]
        others = np.flatnonzero(np.abs(rows[:, column]) > _EXACT)
        others = others[others != done]
        rows[others] -= rows[others, column, None] * rows[done]
        done += 1
    return rows[:done]


def _smallest(rows: Floats, tables: Sequence[set[int]]) -> list[set[int]]:
    """Return the minimal sets of columns whose indicator is a sum of some rows of an echelon form.

    Every row has a 1 in a column where all others have 0, so it is in the sum at most once.
    While an entry of the sum is neither 0 nor 1, the search adds each row that would correct the
    first such entry; it gives up after `_MAX_STEPS`.

    Args:
        rows: The rows of the form, (rows, columns), which share columns.
        tables: Sets of columns that no other set may contain.
    """
    sets, steps = list[set[int]](), 0
    waiting: list[tuple[Floats, list[int], frozenset[int]]] = [
        (row, [number], frozenset(range(number))) for number, row in enumerate(rows)
    ]
    while waiting and steps < _MAX_STEPS:
        steps += 1
        total, used, left_out = waiting.pop()
        wrong = np.flatnonzero(np.minimum(np.abs(total), np.abs(total - 1)) > _EXACT)
        if not len(wrong):
            inside = total > 0.5
            sets.append(set(np.flatnonzero(inside).tolist()))
            mends = (rows[:, inside] < -_EXACT).any(axis=1)  # another set, without one of these
        elif total[wrong[0]] > 1:
            mends = rows[:, wrong[0]] < -_EXACT
        elif total[wrong[0]] < 0:
            mends = rows[:, wrong[0]] > _EXACT
        else:
            mends = np.abs(rows[:, wrong[0]]) > _EXACT
        for number in np.flatnonzero(mends).tolist():
            if number not in left_out and number not in used:
                waiting.append((total + rows[number], [*used, number], left_out))
                left_out |= {number}
    least = list[set[int]]()
    for group in sorted(sets, key=len):
        if not any(small <= group for small in (*tables, *least)):
            least.append(group)
    return least
