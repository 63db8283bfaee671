"""Suppression of rows and tables until no reader can infer unpublished numbers too precisely."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from heapq import heapify, heappop, heappush
from operator import or_

import numpy as np

from disclosure.release.inference.atoms import Atoms, bits, find_atoms
from disclosure.release.inference.component import (
    REPORTS,
    Component,
    ConeModel,
    model_of,
    one_of_alike,
)
from disclosure.release.inference.facts import (
    PublicTable,
    TableVersion,
    leaves_of_rows,
    public_tables,
)
from disclosure.release.inference.intervals import DisclosureJudge, Exposure
from disclosure.release.inference.single import exposed_rows, protect_single
from disclosure.release.inference.targets import (
    EXACT,
    Target,
    ValueRange,
    hidden_row,
    hidden_shares,
    naming_tables,
    untabled_reports,
    untabled_shares,
    withheld_reports,
)
from disclosure.release.tables import TableKey

_TRIED = 4  # the number of candidate rows that are tried for a target


@dataclass(frozen=True)
class InferredNumber:
    """A number that a reader knows more precisely than its policy promises."""

    table: str  # The name of its table, or of the smallest table in the difference that yields it
    cell: str  # "" for numbers of reports
    low: float  # Lower end of the reader's interval
    high: float
    promised: float  # The width that the policy requires
    published: bool  # A table withholds it; else it is a difference that no table shows


@dataclass
class Protected:
    """The result of protecting a draft."""

    # The tables by key, as they may be published
    tables: dict[TableKey, PublicTable] = field(default_factory=dict)
    # Numbers that no suppression in the draft can hide
    findings: list[InferredNumber] = field(default_factory=list)
    widened: int = 0  # Contradictory numbers, which were treated as less exact


def protect(versions: Iterable[TableVersion]) -> Protected:
    """Suppress rows and withhold tables of the draft until every target is safe.

    Args:
        versions: Every public or planned table, oldest release first.

    Returns:
        What may be shown, and what earlier releases reveal whatever the draft hides.
    """
    judged = Protected()
    for component in components_of(public_tables(versions)):
        if len(component.tables) > 1:
            _Search(component, judged).run()
        elif component.tables[0].reports is not None:
            component.tables[0] = protect_single(component.tables[0])
            judged.findings += _findings_of(component.tables[0])
        judged.tables |= {table.key: table for table in component.tables}
    return judged


def _findings_of(table: PublicTable) -> Iterator[InferredNumber]:
    rows, low, high = exposed_rows(table)
    for row in rows.tolist():
        ends = float(low[row]), float(high[row])
        yield InferredNumber(table.name, table.cells[row], *ends, table.width, published=True)


def components_of(tables: Iterable[PublicTable]) -> Iterator[Component]:
    """Group the tables of one metric that share people and days, directly or through others."""
    by_metric: dict[str, list[PublicTable]] = defaultdict(list)
    for table in tables:
        by_metric[table.key[0]].append(table)
    for several in by_metric.values():
        atoms = find_atoms([table.scope for table in several])
        for members in atoms.components():
            yield _component(several, atoms, members)


def _component(tables: Sequence[PublicTable], atoms: Atoms, members: Sequence[int]) -> Component:
    joined = reduce(or_, (atoms.tables[atom] for atom in members))
    places = {index: place for place, index in enumerate(bits(joined))}
    masks = [sum(1 << places[index] for index in bits(atoms.tables[atom])) for atom in members]
    several = [tables[index] for index in places]
    rows = leaves_of_rows(several) if len(several) > 1 else []
    residual = [atoms.residual[atom] for atom in members]
    rows, alike = one_of_alike(several, rows) if rows else (rows, {})
    return Component(several, masks, rows, residual, alike)


def assume_nobody_left(component: Component) -> None:
    """Assume that the published parts cover a whole completely, if the reports allow it.

    A reader may know that the published regions are all regions, although the tables do not say so;
    this function assumes this stronger reader. `component.empty` marks the atoms to which this may
    apply, and is reduced to the atoms to which it does."""
    residual = component.empty
    component.empty = [False] * len(residual)
    if not any(residual):
        return
    model = model_of(component, [leaf for group in component.leaf_groups() for leaf in group])
    model.cone.widen()
    cost = np.zeros(model.cone.size)  # atoms in fewer tables are preferred as empty
    fewer = [8.0 ** -atom.bit_count() for atom in component.atoms]
    cost[: len(residual)] = np.multiply(residual, fewer) / max(fewer)
    least = model.cone.minimize(cost, (model.cone.scale,))
    if least is not None:
        most = least.point[: len(residual)]
        pairs = zip(residual, most.tolist(), strict=True)
        component.empty = [flag and size <= EXACT for flag, size in pairs]


@dataclass
class _Search:
    """The search for complementary suppressions in one component."""

    component: Component
    judged: Protected
    # Targets that no suppression in the draft can hide, with readers' intervals
    hopeless: dict[Target, ValueRange] = field(default_factory=dict)
    widened: int = 0

    def run(self) -> None:
        """Protect reports, then values by group, then everything, until all targets are safe."""
        component, residual = self.component, list(self.component.empty)
        safe_with: list[bool] | None = None  # the empty atoms for which all targets were safe
        while True:
            component.empty = list(residual)
            assume_nobody_left(component)  # with fewer numbers, more atoms may be empty
            if component.empty == safe_with:
                break
            self.hopeless = {}
            safe_with = None if self._withholds_a_table() else list(component.empty)
        self.judged.widened += self.widened
        self.judged.findings += [
            item for pair in self.hopeless.items() for item in self._findings(*pair)
        ]

    def _withholds_a_table(self) -> bool:
        """Suppress rows as needed; return True if a table was withheld, so all must run again."""
        component = self.component
        reports = [*withheld_reports(component), *untabled_reports(component)]
        of_reports = self._judge([], reports)
        if self._settle(of_reports):
            return True
        targets = self._shares(of_reports)
        groups = component.leaf_groups()
        if len(groups) > 1:
            place = {leaf: number for number, group in enumerate(groups) for leaf in group}
            by_group: dict[int, list[Target]] = defaultdict(list)
            for target in targets:
                by_group[place[min(target.leaves)]].append(target)
            for number, members in by_group.items():
                judge = self._judge(groups[number], members)
                if self._settle(judge):
                    return True
                members[:] = judge.targets
            targets = [x for members in by_group.values() for x in members]
        every = [leaf for group in groups for leaf in group]
        judge = self._judge(every, [*reports, *targets])
        while True:
            before = len(judge.targets)
            if self._settle(judge):
                return True
            judge.add(self._shares(of_reports))  # suppression creates new differences
            if len(judge.targets) == before:
                return False

    def _shares(self, judge: DisclosureJudge) -> list[Target]:
        """Return the shares that no table shows, for groups that certainly contain people."""
        component, naming = self.component, naming_tables(self.component)
        hidden = [
            target
            for table in range(len(component.tables))
            for target in hidden_shares(component, table, naming)
        ]
        untabled = list(untabled_shares(component, naming))
        groups = {target.atoms for target in untabled}
        empty = {atoms for atoms in groups if judge.may_be_empty(atoms)}
        return hidden + [target for target in untabled if target.atoms not in empty]

    def _judge(self, leaves: Sequence[str], targets: Sequence[Target]) -> DisclosureJudge:
        model = model_of(self.component, leaves)
        self.widened = model.cone.widen()
        return DisclosureJudge(model, targets)

    def _settle(self, judge: DisclosureJudge) -> bool:
        """Suppress rows until the targets are safe; suppressed rows become targets.

        The narrowest interval comes first. An earlier interval of a target is a lower bound of the
        current width, so only the first in the queue is solved again. Returns whether a table was
        withheld, which makes it a target, so that all must be tested again."""
        judge.certify()
        while True:
            exposures = filter(None, map(judge.exposure, list(judge.targets)))
            place = {target: number for number, target in enumerate(judge.targets)}
            queue = [(item.width, place[item.target]) for item in exposures
                     if item.target not in self.hopeless]  # fmt: skip
            heapify(queue)
            if not queue:
                return False
            if self._empty(queue, judge):
                return True  # the targets have changed by its reports and new differences

    def _empty(self, queue: list[tuple[float, int]], judge: DisclosureJudge) -> bool:
        """Process the queue; return True if a table was withheld."""
        withheld, tables = False, self.component.tables
        while queue:
            number = heappop(queue)[1]
            target = judge.targets[number]
            is_gone = target.table is not None and tables[target.table].reports is None
            if target.kind == "share" and is_gone:
                continue
            exposed = judge.exposure(target)
            if exposed is None:
                continue
            if not queue or exposed.width <= queue[0][0]:
                before = len(judge.targets)
                withheld |= not self._act(judge, exposed)
                for added in range(before, len(judge.targets)):
                    heappush(queue, (0.0, added))
            if exposed.target not in self.hopeless:
                heappush(queue, (exposed.width, number))
        return withheld

    def _act(self, judge: DisclosureJudge, exposure: Exposure) -> bool:
        """Suppress the most revealing row at the lowest cost; False if a table was withheld."""
        tables = self.component.tables
        row = self._cheapest_row(judge, exposure)
        if row is not None:
            index, cell = row
            tables[index] = tables[index].suppressed([cell])
            judge.model.suppress(index, cell)
            judge.add([hidden_row(self.component, index, cell)])
            return True
        table = self._smallest_table(judge.model, exposure)
        if table is None:
            self.hopeless[exposure.target] = exposure.interval
            return True
        tables[table] = tables[table].withheld()
        self.component.rows[table] = []
        judge.model.withhold(table)
        return False

    def _cheapest_row(self, judge: DisclosureJudge, exposure: Exposure) -> tuple[int, int] | None:
        """Return (table, row) of a suppressible row that bounds the interval, or None.

        The few rows with the fewest people are tried, totals last. The result is the first whose
        suppression makes the target safe, or else the one that widens its interval most."""
        model, tables = judge.model, self.component.tables
        owners = {model.owner[row] for row in exposure.tight.tolist()}
        if exposure.target.kind == "reports" and any(row == REPORTS for _, row in owners):
            return None

        def cost(owner: tuple[int, int]) -> tuple[bool, float, tuple[int, int]]:
            table, row = tables[owner[0]], owner[1]
            return table.kinds[row] == "total", float(table.persons[row]), owner

        loose = [(i, row) for i, row in owners if row >= 0 and tables[i].loose[row]]
        tried = sorted(loose, key=cost)[:_TRIED]
        best, widest = None, -1.0
        for owner in tried if len(tried) > 1 else []:
            rows = model.suppress(*owner)
            interval = judge.interval(exposure.target)
            model.cone.hold(rows, active=True)
            if exposure.target.is_safe(interval):
                return owner
            if interval.high - interval.low > widest:
                best, widest = owner, interval.high - interval.low
        return best or (tried[0] if tried else None)

    def _smallest_table(self, model: ConeModel, exposure: Exposure) -> int | None:
        """Return the smallest table that can be withheld and bounds the interval, or None."""
        tables = self.component.tables
        owners = {model.owner[row][0] for row in exposure.tight.tolist()}
        if exposure.target.table is not None:
            owners.add(exposure.target.table)
        loose = [index for index in owners if tables[index].is_loose]
        return min(loose, key=lambda index: (tables[index].reports or (0.0,), index), default=None)

    def _findings(self, target: Target, interval: ValueRange) -> Iterator[InferredNumber]:
        """Yield a finding for a number, and for each indistinguishable number."""
        tables, table = self.component.tables, target.table
        if table is None:
            first = self.component.atoms[target.atoms[0]]
            around = [index for index in bits(first) if tables[index].reports is not None]
            table = min(around, key=lambda index: len(self.component.atoms_of(index)))
        for cell in self.component.alike.get(target.cell, (target.cell,)):
            yield InferredNumber(
                tables[table].name, cell, *interval, target.width, target.table is not None
            )
