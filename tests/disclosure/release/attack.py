"""A reader of all releases: a second formulation of what can be inferred from them.

Unknowns are the persons of each value in each part of a world, by region, slot and day. A share is
a ratio of sums, whose extremes Dinkelbach's iteration (1967) finds over linear programs. Nothing is
imported from `disclosure.release.inference`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import linprog

from disclosure.errors import PublicationError
from disclosure.release import CellTable, Release, ReleasedTable, ReleasePolicy, build_release
from tests.disclosure.release.support import DAY, ISSUED, policy, table

REGION_OF = {"d1": "n", "d2": "n", "d3": "s", "d4": "s", "d5": "w"}
WITHIN = {"district": {"region": REGION_OF}}
VALUES = ("a", "b", "c", "d", "e")


@dataclass
class World:
    """counts: (parts, values) persons. parts: district, slot and day of each row."""

    parts: list[tuple[str, str, int]]
    counts: np.ndarray
    releases: list[Release]

    @property
    def values(self) -> tuple[str, ...]:
        return VALUES[: self.counts.shape[1]]

    def rows(self, strata: dict[str, str], first: date, last: date) -> np.ndarray:
        """(parts,) True for those of a table."""
        found = []
        for district, slot, day in self.parts:
            own = {"district": district, "region": REGION_OF[district], "slot": slot}
            in_time = first <= DAY + timedelta(days=day) <= last
            found.append(in_time and own.items() >= strata.items())
        return np.array(found)

    def of(self, one: ReleasedTable) -> np.ndarray:
        return self.rows(dict(one.strata), one.first_day, one.last_day)

    def cell_table(self, strata: dict[str, str], days: tuple[int, int], **more: Any) -> CellTable:
        first, last = (DAY + timedelta(days=day) for day in days)
        held = self.counts[self.rows(strata, first, last)].sum(axis=0)
        size = int(held.sum())
        shares = dict(zip(self.values, (held / max(size, 1)).tolist(), strict=True))
        return table(shares, 0.002, strata=tuple(sorted(strata.items())), num_reports=size,
                     first_day=first, last_day=last, **more)  # fmt: skip


def random_world(seed: int) -> World:
    """One to three releases in a row, of random tables by random policies."""
    rng = np.random.default_rng(seed)
    districts = list(REGION_OF)[: rng.integers(2, 6)]
    slots = ["day", "night"][: rng.integers(1, 3)]
    days = range(int(rng.integers(1, 4)))
    parts = list(product(districts, slots, days))
    spread = np.full(int(rng.integers(3, 6)), rng.choice([0.3, 1.0, 3.0]))
    sizes = rng.choice([40, 150, 400, 1500, 4000], len(parts))
    counts = np.array([rng.multinomial(size, rng.dirichlet(spread)) for size in sizes])
    world = World(parts, counts.astype(float), [])
    complete, listed = bool(rng.random() < 0.5), bool(rng.random() < 0.7)
    rules = random_policy(rng)
    for _ in range(rng.integers(1, 4)):
        given = random_tables(world, rng, complete=complete, listed=listed)
        try:
            made = build_release(given, rules, ISSUED, earlier=world.releases)
        except PublicationError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        world.releases.append(replace(made, digest=f"{len(world.releases):064x}"))
    return world


def random_policy(rng: np.random.Generator) -> ReleasePolicy:
    low, rounding = float(rng.choice([0.02, 0.05])), Decimal(str(rng.choice(["0.001", "0.01"])))
    reports, total = int(rng.choice([1, 100, 500])), bool(rng.random() < 0.3)
    return policy(min_low=low, rounding=rounding, reports_rounding=reports, total=total,
                  strata=("region", "slot", "district"), within=WITHIN)  # fmt: skip


def random_tables(
    world: World, rng: np.random.Generator, *, complete: bool, listed: bool
) -> list[CellTable]:
    """Tables by some of the splits, over some windows, in a random order."""
    districts = sorted({part[0] for part in world.parts})
    regions = sorted({REGION_OF[one] for one in districts})
    slots = sorted({part[1] for part in world.parts})
    last = max(part[2] for part in world.parts)
    splits: list[list[dict[str, str]]] = [[{}], [{"district": one} for one in districts]]
    if len(regions) > 1:  # one value alone is not a split, and does not reveal that it is all
        splits.append([{"region": one} for one in regions])
    if len(slots) > 1:
        splits.append([{"slot": one} for one in slots])
        splits.append([{"district": one, "slot": slot} for one in districts for slot in slots])
    if len(regions) > 1 < len(slots):
        splits.append([{"region": one, "slot": slot} for one in regions for slot in slots])
    chosen = [split for split in splits if rng.random() < 0.5] or [splits[0]]
    found = {}
    for split in chosen:
        ends = sorted(rng.integers(0, last + 1, 2).tolist())
        window = (0, last) if rng.random() < 0.6 else (ends[0], ends[1])
        for strata in split:
            if rng.random() < 0.9:
                made = world.cell_table(strata, window, complete=complete, listed=listed)
                found[made.key] = made
    several = list(found.values())
    return [several[place] for place in rng.permutation(len(several))]


class Reader:
    """All constraints that the releases of a world give, and the extremes under them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.shape = world.counts.shape
        self.parts, self.values = self.shape
        self.upper: list[np.ndarray] = []
        self.ends: list[float] = []
        self.size = self.parts * (1 + self.values)
        for made in world.releases:
            for one in made.tables:
                if one.reports is not None:
                    self._add(one, made.policy)
        for part in range(self.parts):  # a report is of one value
            row = self.persons(np.arange(self.parts) == part, range(self.values))
            row[part] -= 1
            self._at_most(row, 1e-6)

    def persons(self, rows: np.ndarray, columns: Sequence[int]) -> np.ndarray:
        """Sum of the persons of some values in some parts, as a row over the unknowns."""
        chosen = np.zeros(self.shape)
        chosen[np.ix_(np.flatnonzero(rows), columns)] = 1
        return np.concatenate([np.zeros(self.parts), chosen.ravel()])

    def reports(self, rows: np.ndarray) -> np.ndarray:
        return np.concatenate([rows.astype(float), np.zeros(self.size - self.parts)])

    def _at_most(self, row: np.ndarray, end: float) -> None:
        self.upper.append(row)
        self.ends.append(end)

    def _add(self, one: ReleasedTable, rules: ReleasePolicy) -> None:
        rows = self.world.of(one)
        size = self.reports(rows)
        assert one.reports is not None
        self._at_most(size, one.reports + rules.reports_rounding - 1)
        self._at_most(-size, -one.reports)
        half = float(rules.rounding) / 2
        listed = (c for c, kind in zip(one.cells, one.kinds, strict=True) if kind == "cell")
        every = [self.world.values.index(cell) for cell in listed]
        for cell, kind, share in zip(one.cells, one.kinds, one.estimate.tolist(), strict=True):
            if np.isnan(share):
                continue
            columns = every if kind == "total" else [self.world.values.index(cell)]
            held = self.persons(rows, columns)
            self._at_most(held - (share + half) * size, 1e-6)
            self._at_most((share - half) * size - held, 1e-6)
        if one.complete:
            for part in np.flatnonzero(rows):
                alone = np.arange(self.parts) == part
                row = self.persons(alone, every) - self.reports(alone)
                self._at_most(row, 1e-6)
                self._at_most(-row, 1e-6)

    def largest(self, goal: np.ndarray) -> tuple[float, np.ndarray]:
        found = linprog(-goal, A_ub=np.array(self.upper), b_ub=self.ends, bounds=(0, None),
                        method="highs-ipm")  # fmt: skip
        if found.status == 3:
            return np.inf, np.zeros(self.size)
        assert found.status == 0, found.message
        return -float(found.fun), found.x

    def largest_ratio(self, top: np.ndarray, base: np.ndarray) -> float:
        """Dinkelbach: raise the ratio until nothing is above it."""
        ratio = 0.0 if top.max() > 0 else -1.0
        for _ in range(60):
            gain, point = self.largest(top - ratio * base)
            if gain <= 1e-7 * max(base @ point, 1):
                break
            ratio = float(top @ point / (base @ point))
        return ratio

    def narrow(self) -> Iterator[str]:
        """What is known more closely than its policy promises."""
        latest: dict[Any, tuple[ReleasedTable, ReleasePolicy]] = {}
        shown: dict[Any, set[str]] = {}
        for made in self.world.releases:
            for one in made.tables:
                if one.reports is not None or one.key not in latest:
                    latest[one.key] = one, made.policy
                seen = zip(one.cells, one.symbols, strict=True)
                shown.setdefault(one.key, set()).update(cell for cell, symbol in seen if not symbol)
        for key, (one, rules) in latest.items():
            size = self.reports(self.world.of(one))
            if one.reports is None:
                low, high = -self.largest(-size)[0], self.largest(size)[0]
                hides = low <= 0.01 and high >= rules.min_reports - 0.01
                if not (hides or low >= rules.min_reports - 0.01):
                    yield f"{one.name}: {low:.2f} to {high:.2f} reports"
                continue
            width = max(rules.min_low, 2 * float(rules.rounding))
            for cell, kind, symbol in zip(one.cells, one.kinds, one.symbols, strict=True):
                if not symbol or cell in shown[key] or kind == "total":
                    continue
                top = self.persons(self.world.of(one), [self.world.values.index(cell)])
                high = self.largest_ratio(top, size)
                low = -self.largest_ratio(-top, size)
                if high - low < width - 1e-4:
                    yield f"{one.name} {cell}: {low:.5f} to {high:.5f}, not {width}"

    def narrow_differences(self, rng: np.random.Generator, draws: int = 8) -> Iterator[str]:
        """What is known of a shown table less disjoint shown parts of it, drawn at random."""
        rules = self.world.releases[-1].policy
        tables = [(one, self.world.of(one)) for made in self.world.releases for one in made.tables
                  if one.reports is not None]  # fmt: skip
        for _ in range(draws if tables else 0):
            value = self.world.values[rng.integers(self.values)]
            naming = [
                (one, rows) for one, rows in tables
                if dict(zip(one.cells, one.symbols, strict=True)).get(value) == ""
            ]  # fmt: skip
            for family, ask in ((tables, self._few), (naming, self._told(value, rules))):
                if not family:
                    continue
                whole, left = family[rng.integers(len(family))]
                names = []
                for place in rng.permutation(len(family)):
                    one, rows = family[place]
                    if (rows <= left).all() and rows.any():
                        left, names = left & ~rows, [*names, one.name]
                if left.any() and not any((left == rows).all() for _, rows in tables):
                    for result in ask(left, rules):
                        yield f"{whole.name} less {' and '.join(names)}: {result}"

    def _few(self, rows: np.ndarray, rules: ReleasePolicy) -> Iterator[str]:
        """The reports of some parts, if they are few and there are some."""
        size = self.reports(rows)
        low, high = -self.largest(-size)[0], self.largest(size)[0]
        if low > 0.01 and high < rules.min_reports - 0.01:
            yield f"{low:.2f} to {high:.2f} reports"

    def _told(self, value: str, rules: ReleasePolicy) -> Any:
        """The share of a value in some parts, if somebody is there and it is small and known."""
        width = max(rules.min_low, 2 * float(rules.rounding))

        def ask(rows: np.ndarray, _: ReleasePolicy) -> Iterator[str]:
            size, top = self.reports(rows), self.persons(rows, [self.world.values.index(value)])
            if -self.largest(-size)[0] <= 0.01:
                return
            low, high = -self.largest_ratio(-top, size), self.largest_ratio(top, size)
            if high - low < width - 1e-4 and low < rules.min_low - 1e-4:
                yield f"{value}: {low:.5f} to {high:.5f}, not {width}"

        return ask
