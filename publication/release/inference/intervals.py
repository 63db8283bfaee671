"""Which targets are known too well: many certified by one program, the others solved one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import coo_array, csr_array

from publication.release.inference.component import Model
from publication.release.inference.targets import EXACT, Interval, Target
from publication.typing import Floats, Integers

_MOST_ROUNDS = 40
_MARGIN = 1.01  # of what a certificate aims at, for the tolerance of the solver
_FEW = 3  # targets that a round must certify to be worth it


@dataclass(frozen=True)
class Exposure:
    """A target that a reader knows better than promised. tight: rows of G that tell it."""

    target: Target
    interval: Interval
    tight: Integers


@dataclass
class Seen:
    """Values of a target in points that agree with all that is public."""

    low: float = np.inf
    high: float = -np.inf

    def add(self, value: float) -> None:
        """One more."""
        self.low, self.high = min(self.low, value), max(self.high, value)


@dataclass
class Judge:
    """Judges targets by one model; what was certified stays so while numbers are only suppressed.

    settled: targets that are safe.
    """

    model: Model
    seen: dict[Target, Seen] = field(default_factory=dict)
    settled: set[Target] = field(default_factory=set)

    def exposures(self, targets: Sequence[Target]) -> list[Exposure]:
        """The targets that are not safe, with their exact intervals."""
        waiting = [target for target in targets if target not in self.settled]
        if len(waiting) > 1:
            waiting = self._certify(waiting)
        found = []
        for target in waiting:
            exposure = self._exact(target)
            if exposure is None:
                self.settled.add(target)
            else:
                found.append(exposure)
        return found

    def interval(self, target: Target) -> tuple[Interval, list[Integers]]:
        """The least and the largest value, and the rows that hold it there."""
        model = self.model
        cone = model.cone
        top = cone.row_of(self._top(target))
        if target.kind == "share":
            norm, size = cone.row_of(target.atoms), cone.unit
        else:
            norm, size = cone.row_of([cone.scale]), cone.unit
        ends, tight = [], []
        for sign in (1.0, -1.0):
            made = cone.minimise(sign * top, norm, size)
            if made is None:  # nobody can be there
                return Interval(0.0, np.inf), []
            value = sign * made.value
            ends.append(value / size if target.kind == "share" else value)
            tight.append(made.tight)
        return Interval(ends[0], ends[1]), tight

    def _exact(self, target: Target) -> Exposure | None:
        interval, tight = self.interval(target)
        if target.is_safe(interval):
            return None
        return Exposure(target, interval, np.unique(np.concatenate(tight)))

    def _top(self, target: Target) -> list[int]:
        if target.kind == "reports":
            return list(target.atoms)
        return self.model.persons(target.atoms, target.leaves)

    def _certify(self, targets: list[Target]) -> list[Target]:
        """Those that no point has shown to be safe."""
        cone = self.model.cone
        norm = cone.row_of([cone.scale])
        tops = self._matrix([self._top(target) for target in targets])
        bases = self._matrix([list(target.atoms) for target in targets])
        is_share = np.array([target.kind == "share" for target in targets])
        made = cone.minimise(tops.T @ np.ones(len(targets)), norm, cone.unit)
        if made is None:
            return targets
        sizes = self._note(targets, tops, bases, is_share, made.point)
        left = self._unsafe(targets)
        for _ in range(_MOST_ROUNDS):
            if len(left) < _FEW:
                break
            low = np.array([max(self.seen[targets[k]].low, 0.0) for k in left])
            low = np.where(np.isfinite(low), low, 0.0)
            shift = np.where(is_share[left], low, 0.0)
            sums = csr_array(tops[left] - _scaled(bases[left], shift))
            goal = np.array([targets[k].width for k in left]) * _MARGIN
            goal = np.where(is_share[left], goal * np.maximum(sizes[left], 1.0), goal)
            reached = cone.reach(sums, goal, norm, cone.unit)
            if reached is None:
                break
            sizes = self._note(targets, tops, bases, is_share, reached[0])
            now = self._unsafe(targets)
            if len(now) > len(left) - _FEW:
                left = now
                break
            left = now
        open_ = set(left)
        self.settled |= {target for k, target in enumerate(targets) if k not in open_}
        return [targets[k] for k in left]

    def _note(
        self,
        targets: list[Target],
        tops: csr_array,
        bases: csr_array,
        is_share: Floats,
        point: Floats,
    ) -> Floats:
        """Remember what the targets are at a point; the reports of their atoms there."""
        value, sizes = tops @ point, np.asarray(bases @ point)
        share = np.where(is_share, value / np.maximum(sizes, 1e-9), value)
        for target, one, size in zip(targets, share.tolist(), sizes.tolist(), strict=True):
            seen = self.seen.setdefault(target, Seen())
            if target.kind == "reports" or size >= 1.0:
                seen.add(one)
        return sizes

    def _unsafe(self, targets: list[Target]) -> list[int]:
        found = []
        for k, target in enumerate(targets):
            seen = self.seen[target]
            known = seen.low <= seen.high
            if target in self.settled:
                continue
            if not known or not _is_certified(target, Interval(seen.low, seen.high)):
                found.append(k)
        return found

    def _matrix(self, columns: list[list[int]]) -> csr_array:
        rows = [k for k, several in enumerate(columns) for _ in several]
        flat = [column for several in columns for column in several]
        shape = (len(columns), self.model.cone.size)
        return csr_array(coo_array((np.ones(len(flat)), (rows, flat)), shape=shape))


def _is_certified(target: Target, inner: Interval) -> bool:
    """Whether an interval within the true one shows that it is wide enough."""
    low, high = inner
    if target.kind == "share":
        return high - low >= target.width
    none, enough = low <= EXACT, high >= target.width
    return (none or enough) if target.table is None else (none and enough)


def _scaled(matrix: csr_array, by: Floats) -> csr_array:
    """Each row times a number."""
    found = matrix.copy()
    found.data = found.data * np.repeat(by, np.diff(found.indptr))
    return csr_array(found)
