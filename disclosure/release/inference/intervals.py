"""The search for unpublished numbers that readers can infer too precisely.

One linear program certifies many numbers as safe; the other numbers are solved one by one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, vstack

from disclosure.release.inference.component import ConeModel
from disclosure.release.inference.programs import Optimum
from disclosure.release.inference.targets import EXACT, Target, ValueRange
from disclosure.typing import Floats, Integers

_MANY = 30  # with this number of targets, one program for all is cheaper than two for each
_MAX_STEPS = 20  # of an iteration for a share
_STEP = 1e-9  # the size of a step of a share at which the iteration ends
_FEW = 3  # the number of targets that a round must certify to be worthwhile
_SURE = 1e-3  # relative to the number 1, and in reports: smaller sizes are too inexact


@dataclass(frozen=True)
class Exposure:
    """An unpublished number that a reader can infer more precisely than promised."""

    target: Target
    interval: ValueRange
    tight: Integers  # Rows of G that reveal it

    @property
    def width(self) -> float:
        """The width of the interval that a reader can infer, in units of the promised width."""
        return (self.interval.high - self.interval.low) / self.target.width


class DisclosureJudge:
    """The test of whether unpublished numbers are safe; suppression keeps safe numbers safe.

    Each solution of a program is a point that agrees with all public data. The minimum and maximum
    of a target over all points so far are an interval inside the true interval."""

    def __init__(self, model: ConeModel, targets: Iterable[Target]) -> None:
        self.model = model
        self.targets: list[Target] = []
        size = model.cone.size
        self._place: dict[Target, int] = {}
        self._bounds: dict[tuple[Target, float], tuple[float, Integers]] = {}
        self._tops, self._bases = csr_array((0, size)), csr_array((0, size))
        self._low, self._high = np.zeros(0), np.zeros(0)
        self._settled = np.zeros(0, dtype=bool)
        self.add(targets)

    def add(self, targets: Iterable[Target]) -> None:
        """Add unpublished numbers to be tested."""
        new = [target for target in dict.fromkeys(targets) if target not in self._place]
        for target in new:
            self._place[target] = len(self.targets)
            self.targets.append(target)
        tops = self._matrix([self._top(target) for target in new])
        bases = self._matrix([self._base(target) for target in new])
        self._tops = csr_array(vstack([self._tops, tops]))
        self._bases = csr_array(vstack([self._bases, bases]))
        self._low = np.append(self._low, np.full(len(new), np.inf))
        self._high = np.append(self._high, np.full(len(new), -np.inf))
        self._settled = np.append(self._settled, np.zeros(len(new), dtype=bool))
        self._width = np.array([target.width for target in self.targets])
        self._is_share = np.array([target.kind == "share" for target in self.targets], dtype=bool)
        self._has_table = np.array([item.table is not None for item in self.targets], dtype=bool)

    def certify(self) -> None:
        """Find points that prove many numbers safe, without solving for each number.

        The sum of all undecided numbers, each with a random sign, is minimized and maximized: at
        one point, about half of them are small and half are large; at the other point, the reverse.
        The proof does not depend on how a point was found, so the signs may be the same in every
        run."""
        cone, rng = self.model.cone, np.random.default_rng(0)
        best = cone.minimize(np.zeros(cone.size), (cone.scale,))
        unsure = np.flatnonzero(~self._settled)
        while best is not None and len(unsure) >= _MANY:
            sizes = np.maximum(np.asarray(self._bases[unsure] @ best.point), 1.0)
            widths = self._width[unsure] * np.where(self._is_share[unsure], sizes, 1.0)
            signs = rng.choice([-1.0, 1.0], len(unsure))
            cost = np.asarray(self._tops[unsure].T @ (signs / widths))
            for side in (cost, -cost):
                best = cone.minimize(side, (cone.scale,))
                if best is not None:
                    self._note(best.point)
            before, unsure = unsure, np.flatnonzero(~self._settled)
            if len(unsure) > len(before) - _FEW:
                break

    def exposure(self, target: Target) -> Exposure | None:
        """Return the exact interval that a reader can infer for a number, or None if it is safe.

        A number that is safe because of its lower end may become unsafe when a number is
        suppressed. A number whose interval is wide enough is not solved again."""
        at = self._place[target]
        ends, tight = [0.0, np.inf], []
        for side, sign in enumerate((1.0, -1.0)):
            if self._settled[at]:
                return None
            bound = self._bound(target, sign)
            if bound is None:  # no one can be in these atoms
                break
            ends[side] = bound[0]
            tight.append(bound[1])
            if side == 0 and target.is_high(bound[0]):
                return None
        interval = ValueRange(*ends)
        if target.is_safe(interval):
            self._settled[at] = True
            return None
        return Exposure(target, interval, np.unique(np.concatenate(tight)))

    def interval(self, target: Target) -> ValueRange:
        """Return the minimum and maximum of a number; 0 to infinity if no one can be there."""
        low, high = (self._extreme(target, sign) for sign in (1.0, -1.0))
        return ValueRange(low[0] if low else 0.0, high[0] if high else np.inf)

    def may_be_empty(self, atoms: Sequence[int]) -> bool:
        """Return whether some atoms may contain no one, given all public data."""
        cone = self.model.cone
        least = cone.minimize(cone.row_of(atoms), (self.model.scale,))
        return least is None or least.value <= EXACT

    def _bound(self, target: Target, sign: float) -> tuple[float, Integers] | None:
        """Return the minimum (sign 1) or the maximum (-1), and the constraints that bind it.

        It does not change while these constraints hold, whatever else is suppressed."""
        stored = self._bounds.get((target, sign))
        if stored is not None and self.model.cone.active[stored[1]].all():
            return stored
        extreme = self._extreme(target, sign)
        if extreme is None:
            return None
        self._note(extreme[1].point)
        bound = self._bounds[target, sign] = extreme[0], self.model.cone.tight(extreme[1])
        return bound

    def _extreme(self, target: Target, sign: float) -> tuple[float, Optimum] | None:
        """Return a target's minimum (sign 1) or maximum (-1) and the solution; None if infeasible.

        A share among reports that surely exist is found by Dinkelbach's iteration (1967, On
        nonlinear fractional programming): each program starts where the previous one ended. Other
        targets need one program, with reports scaled to `unit` (Charnes and Cooper 1962)."""
        cone = self.model.cone
        top, base = cone.row_of(self._top(target)), self._base(target)
        scale = (self.model.scale,)
        if target.kind == "reports":
            best = cone.minimize(sign * top, scale)
            return None if best is None else (sign * best.value, best)
        below, place = cone.row_of(base), self._place.get(target)
        reach = self._low if sign > 0 else self._high  # the extremes found so far
        share = 0.0 if place is None or np.isinf(reach[place]) else float(reach[place])
        for _ in range(_MAX_STEPS):
            best = cone.minimize(sign * (top - share * below), scale)
            if best is None:
                return None
            size = float(below @ best.point)
            if size < 1:
                break
            share = float(top @ best.point) / size
            if abs(best.value) <= _STEP * size:  # above 0 while the share is below the minimum
                return share, best
        best = cone.minimize(sign * top, tuple(base))
        return None if best is None else (sign * best.value / cone.unit, best)

    def _top(self, target: Target) -> list[int]:
        if target.kind == "reports":
            return list(target.atoms)
        return self.model.persons(target.atoms, target.leaves)

    def _base(self, target: Target) -> list[int]:
        """Return the unknowns fixed at the unit: the number 1, or the population of a share."""
        if target.kind == "reports":
            return [self.model.scale]
        return list(target.atoms) if target.table is None else [self.model.reports_of(target.table)]

    def _note(self, point: Floats) -> None:
        """Widen the targets' known intervals by a feasible point, and settle safe targets."""
        cone = self.model.cone
        value, sizes = np.asarray(self._tops @ point), np.asarray(self._bases @ point)
        enough = sizes >= np.where(self._is_share, 1.0, _SURE * cone.unit)
        if not enough.any():
            return
        value = np.divide(value, sizes, out=np.zeros_like(value), where=enough)
        value = np.where(self._is_share, value, value * cone.unit)
        self._low = np.where(enough, np.minimum(self._low, value), self._low)
        self._high = np.where(enough, np.maximum(self._high, value), self._high)
        # an interval inside the true interval proves that the true interval is wide enough
        none, full = self._low <= EXACT, self._high >= self._width
        reports = np.where(self._has_table, none & full, none | full)
        is_wide = self._high - self._low >= self._width
        self._settled |= np.where(self._is_share, is_wide, reports)

    def _matrix(self, columns: Sequence[Sequence[int]]) -> csr_array:
        rows = [k for k, several in enumerate(columns) for _ in several]
        flat = [column for several in columns for column in several]
        shape = (len(columns), self.model.cone.size)
        return csr_array(coo_array((np.ones(len(flat)), (rows, flat)), shape=shape))
