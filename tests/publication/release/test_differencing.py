"""An attacker who has all releases and solves their sums: no withheld cell is determined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from publication.errors import PublicationError
from publication.release import CellTable, Release, ReleasePolicy, RollUp, build_release
from tests.publication.release.support import ISSUED, policy, shown, table

LEAVES = ("010", "011", "020", "021", "120", "121", "122", "130")
ERROR = 0.002
ROLL_UPS: list[dict[str, RollUp]] = [
    {},
    {"places": RollUp(tree="cells", levels=1)},
    {"places": RollUp(tree="cells", levels=2)},
    {"places": RollUp(tree="prefix", lengths=(2, 1))},
]
WHOLE: dict[str, float] = {"010": 0.5, "011": 0.3, "120": 0.14, "121": 0.06}
NORTH: dict[str, float] = {"010": 0.4, "011": 0.3, "120": 0.15, "121": 0.15}  # all of 121


def of_region(name: str, shares: dict[str, float], reports: int, **changes: Any) -> CellTable:
    return table(shares, strata=(("region", name),), num_reports=reports, **changes)


def again(one: Release) -> Release:
    return replace(one, digest="ab" * 32)


def test_what_is_left_of_a_whole_is_judged_as_a_table() -> None:
    """10,000 of 121 .06 less 4,000 in the north .15: nobody of the other 6,000 is of 121."""
    whole, north = table(WHOLE), of_region("north", NORTH, 4000)
    made = build_release([whole, north], policy(), ISSUED)
    assert [shown(made, index)["121"] for index in (0, 1)].count("u") == 1
    assert [list(shown(made, index).values()).count("u") for index in (0, 1)] in ([0, 1], [1, 0])
    for first, second in ((whole, north), (north, whole)):
        before = again(build_release([first], policy(), ISSUED))
        later = build_release([second], policy(), ISSUED, earlier=[before])
        assert shown(later)["121"] == "u"
        assert shown(before) == shown(build_release([first], policy(), ISSUED))


def test_what_is_left_of_whole_tables_adds_up_too() -> None:
    """All shares are known to add up to 1, so that another cell goes with it."""
    made = build_release(
        [table(WHOLE, complete=True), of_region("north", NORTH, 4000, complete=True)],
        policy(),
        ISSUED,
    )
    hidden = [sum(one == "u" for one in shown(made, index).values()) for index in (0, 1)]
    assert sorted(hidden) == [0, 2]


def test_the_total_of_everybody_hides_nothing() -> None:
    """Their shares add up to 1: to suppress the total leaves 130 as it was. 020 is of the parts."""
    shares = {"010": 0.41, "020": 0.121, "021": 0.46, "130": 0.009}
    parts = [{"010": 0.6, "020": 0.2, "021": 0.2}, {"010": 0.01, "020": 0.03, "021": 0.96}]
    first = build_release(
        [of_region("north", parts[0], 6000), of_region("south", parts[1], 4000)], policy(), ISSUED
    )
    rules = policy(total=True, min_low=0.05)
    made = build_release([table(shares, complete=True)], rules, ISSUED, earlier=[again(first)])
    assert shown(made)["(total)"] == 1.0
    assert [cell for cell, value in shown(made).items() if value == "u"] == ["010", "130"]


def test_parts_that_leave_enough_of_every_cell_are_shown() -> None:
    whole = {"010": 0.5, "011": 0.3, "120": 0.2}
    made = build_release([table(whole), of_region("north", whole, 4000)], policy(), ISSUED)
    assert all("u" not in shown(made, index).values() for index in (0, 1))


def test_many_exposed_cells_of_what_is_left_take_one_cell_each() -> None:
    """More than the careful rule is for, by the faster one."""
    names = [f"{number:03}" for number in range(100)]
    whole = dict.fromkeys(names, 0.01) | {"big": 0.0}
    north = dict.fromkeys(names, 0.025)
    rules = policy(min_low=0.005)
    made = build_release(
        [table(whole, 0.0005), of_region("north", north, 4000, error=0.0005)], rules, ISSUED
    )
    hidden = [[shown(made, index)[name] == "u" for name in names] for index in (0, 1)]
    assert np.array(hidden).sum(axis=0).tolist() == [1] * 100


def test_a_number_that_was_revised_away_is_still_known() -> None:
    """120 is hidden now; its earlier number, 121 of now and the sum 1 would give 130."""
    rules = policy(min_low=0.09, on_change="revise")
    shares = {"010": 0.5, "011": 0.3, "120": 0.099, "121": 0.097, "130": 0.004}
    first = build_release([table(shares, complete=True)], rules, ISSUED)
    assert [cell for cell, value in shown(first).items() if value == "u"] == ["121", "130"]
    swapped = table({**shares, "120": 0.097, "121": 0.099}, complete=True)
    second = build_release([swapped], rules, ISSUED, earlier=[again(first)])
    assert [cell for cell, value in shown(second).items() if value == "u"] == ["120", "121", "130"]
    third = build_release([swapped], rules, ISSUED, earlier=[again(first), again(second)])
    assert shown(third) == shown(second)


@dataclass
class World:
    """Persons by region and cell, and the releases of tables of them."""

    cells: tuple[str, ...]
    counts: dict[str, np.ndarray]
    releases: list[Release]

    def regions(self, name: str | None) -> list[str]:
        return list(self.counts) if name is None else [name]

    def size(self, name: str | None) -> int:
        return sum(int(self.counts[region].sum()) for region in self.regions(name))

    def share(self, name: str | None, members: Sequence[str]) -> float:
        rows = [self.cells.index(cell) for cell in members]
        return sum(self.counts[one][rows].sum() for one in self.regions(name)) / self.size(name)

    def indicator(self, name: str | None, members: Sequence[str]) -> np.ndarray:
        """(regions * cells,) True for the persons who are counted."""
        own = np.array([region in self.regions(name) for region in self.counts])
        chosen = np.array([cell in members for cell in self.cells])
        return np.outer(own, chosen).ravel().astype(float)

    def facts(self) -> Iterator[tuple[np.ndarray, float, float]]:
        """Who is counted in a published number, half of its rounding in persons, its share."""
        for made in self.releases:
            for one in made.tables:
                if one.reports is None:
                    continue
                name = dict(one.strata).get("region")
                rows = {cell: one.members.get(cell, (cell,))
                        for cell, kind in zip(one.cells, one.kinds, strict=True)
                        if kind != "total"}  # fmt: skip
                every = [cell for members in rows.values() for cell in members]
                assert len(set(every)) == len(every)
                half = float(made.policy.rounding) / 2 * self.size(name)
                for cell, symbol, value in zip(one.cells, one.symbols, one.estimate, strict=True):
                    if not symbol:
                        members = rows.get(cell, every)
                        assert abs(value - self.share(name, members)) < 0.0006
                        yield self.indicator(name, members), half, value
                if one.complete:
                    yield self.indicator(name, every), 1e-9, 1.0

    def is_secret(self, name: str | None, cell: str) -> bool:
        """Whether no release shows it, and no policy of them would."""
        lenient = min(made.policy.min_low for made in self.releases)
        visible = any(
            cell == one_cell and not symbol
            for made in self.releases
            for one in made.tables
            if one.reports is not None and dict(one.strata).get("region") == name
            for one_cell, symbol in zip(one.cells, one.symbols, strict=True)
        )
        few = self.size(name) < self.releases[0].policy.min_reports
        return not visible and (few or self.share(name, [cell]) - 1.96 * ERROR < lenient)


def determined(equations: np.ndarray, halves: np.ndarray, wanted: np.ndarray) -> float:
    """Width of the narrowest interval that sums of equations give of a sum of unknowns."""
    weights = np.linalg.lstsq(equations.T, wanted, rcond=None)[0]
    if abs(equations.T @ weights - wanted).max() > 1e-7:
        return np.inf
    both = np.hstack([equations.T, -equations.T])
    found = linprog(np.concatenate([halves, halves]), A_eq=both, b_eq=wanted, bounds=(0, None))
    return 2 * float(found.fun)


def exposed(world: World) -> list[str]:
    """What is secret, and known more finely than the lowest floor."""
    facts = list(world.facts())
    if not facts:
        return []
    equations, halves = np.array([one[0] for one in facts]), np.array([one[1] for one in facts])
    floor = min(made.policy.min_low for made in world.releases)
    return [
        f"{name} {cell}: {world.share(name, [cell]):.4f}"
        for name in ([None, *world.counts] if len(world.counts) > 1 else [None])
        for cell in world.cells
        if world.is_secret(name, cell)
        and determined(equations, halves, world.indicator(name, [cell])) / world.size(name) < floor
    ]


def random_world(seed: int) -> World:
    """Two or three releases in a row, of random tables by random policies."""
    rng = np.random.default_rng(seed)
    cells = LEAVES[: rng.integers(3, len(LEAVES) + 1)]
    regions = ["n", "s", "w"][: rng.integers(1, 4)]
    sizes = rng.choice([500, 1500, 4000, 6000], len(regions))
    spread = np.full(len(cells), rng.choice([0.3, 1.0, 3.0]))
    drawn = [np.round(rng.dirichlet(spread) * size) for size in sizes]
    counts = dict(zip(regions, drawn, strict=True))
    world = World(cells, counts, [])
    whole, listed = bool(rng.random() < 0.5), bool(rng.random() < 0.7)
    rules = random_policy(rng)
    for _ in range(rng.integers(2, 4)):
        rules = random_policy(rng) if rng.random() < 0.7 else rules
        tables = random_tables(world, rng, complete=whole, listed=listed)
        try:
            made = build_release(tables, rules, ISSUED, earlier=world.releases)
        except PublicationError:
            continue  # refused: nothing is published
        world.releases.append(again(made))
    return world


def random_policy(rng: np.random.Generator) -> ReleasePolicy:
    return policy(
        min_low=float(rng.choice([0.02, 0.05, 0.1])),
        roll_up=ROLL_UPS[rng.integers(len(ROLL_UPS))],
        total=bool(rng.random() < 0.4),
        on_change=str(rng.choice(["keep", "keep", "revise"])),
    )


def random_tables(
    world: World, rng: np.random.Generator, *, complete: bool, listed: bool
) -> list[CellTable]:
    """Some of the tables, in a random order, sometimes without a cell."""
    names = [None, *world.counts] if len(world.counts) > 1 else [None]
    dropped = rng.choice(world.cells) if rng.random() < 0.2 else ""
    cells = [cell for cell in world.cells if cell != dropped]
    chosen = [
        table(
            {cell: world.share(name, [cell]) for cell in cells},
            ERROR,
            strata=() if name is None else (("region", name),),
            num_reports=world.size(name),
            complete=complete and not dropped,
            listed=listed,
        )
        for name in names
        if rng.random() < 0.7
    ]
    return [chosen[place] for place in rng.permutation(len(chosen))]


@pytest.mark.parametrize("start", [0, 1950])
def test_no_withheld_cell_is_determined_by_releases_in_a_row(start: int) -> None:
    found = {seed: told for seed in range(start, start + 100)
             if (told := exposed(random_world(seed)))}  # fmt: skip
    assert not found
