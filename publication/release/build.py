"""`build_release`: from decoded tables and a policy to what is published. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
from scipy.special import ndtri

from publication.aggregation import sum_error
from publication.errors import PolicyError, ReleaseError
from publication.k_anonymity import Hierarchy
from publication.release.earlier import Earlier, refuse_in_rows
from publication.release.merging import pool_rare
from publication.release.policy import ReleasePolicy, check_days
from publication.release.rounding import round_down, round_nearest, round_up
from publication.release.strata import across_windows, families, withheld_parts
from publication.release.suppression import suppress_complements
from publication.release.tables import CellTable, InRows, ReleasedTable, TableKey
from publication.release.windows import Window, admit_windows
from publication.typing import Booleans, Floats


@dataclass(frozen=True)
class Release:
    """What is published: tables, the policy that made them, and the day of issue.

    earlier: digests of the manifests that it is consistent with.  notes: for its reader.
    digest: SHA-256 of its own manifest, "" before it is written.
    rows: what is published in synthetic rows, which stand in files of their own.
    """

    policy: ReleasePolicy
    issued: date
    tables: tuple[ReleasedTable, ...]
    earlier: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    digest: str = ""
    rows: tuple[InRows, ...] = ()


def build_release(
    decodings: Sequence[CellTable],
    policy: ReleasePolicy,
    issued: date,
    *,
    earlier: Sequence[Release] = (),
    hierarchies: Mapping[str, Hierarchy] | None = None,
) -> Release:
    """Apply a policy to decoded tables.

    Steps: what the policy does not allow is refused; rare values are pooled; tables of few
    reports, windows whose difference tells of few, and parts whose sum does, are withheld; numbers
    that earlier releases show stay as they are; the others are rounded, and suppressed where the
    lower end is too small; then complements, so that no suppressed number can be computed.

    Args:
        decodings: tables, in the order in which they are to stand.
        policy: of the release.
        issued: day of issue, by which windows are judged to be sealed.
        earlier: releases of the same owner, oldest first. All that overlap must be given: only
            against those is the difference judged.
        hierarchies: trees for metrics whose roll-up names none.

    Returns:
        The release.

    Raises:
        PolicyError: a stratum, day or unsealed window that the policy does not allow.
        ReleaseError: the same table twice; numbers that cannot be protected, or have changed; days
            that were published in rows.
        TableError: values that are not in their hierarchy.
    """
    _check_sources(decodings, policy, issued)
    for table in decodings:
        refuse_in_rows(earlier, table.metric, table.first_day, table.last_day)
    known = Earlier.of(earlier)
    pooled = [_pooled(table, policy, hierarchies or {}) for table in decodings]
    withheld = _withheld(pooled, policy, known)
    tables = [
        _withhold(table, withheld[table.key])
        if table.key in withheld
        else _shown(table, policy, known)
        for table in pooled
    ]
    tables = suppress_complements(tables, known.tables, policy, known.seen)
    return Release(policy, issued, tuple(tables), known.digests, _notes(tables, known))


def _check_sources(decodings: Sequence[CellTable], policy: ReleasePolicy, issued: date) -> None:
    """Raise PolicyError or ReleaseError for what may not be published at all."""
    keys = [table.key for table in decodings]
    if len(set(keys)) != len(keys):
        twice = next(table.name for table in decodings if keys.count(table.key) > 1)
        raise ReleaseError(f"{twice}: given twice")
    for table in decodings:
        strange = [name for name, _ in table.strata if name not in policy.strata]
        if strange:
            raise PolicyError(
                f"{table.name}: the policy does not publish the stratum {strange[0]!r}; it has "
                f"{list(policy.strata)}"
            )
        check_days(policy, table.name, table.first_day, table.last_day, issued)


def _pooled(
    table: CellTable, policy: ReleasePolicy, hierarchies: Mapping[str, Hierarchy]
) -> CellTable:
    """Rare values pooled; then dropped, where even the name of a rare value is not shown."""
    rule = policy.roll_up.get(table.metric)
    if rule is not None:
        table = pool_rare(table, rule, _is_large(table, policy), hierarchies.get(table.metric))
    if table.listed:
        return table
    seen = np.flatnonzero(_is_large(table, policy))
    columns: dict[str, Any] = {name: getattr(table, name)[seen] for name in _COLUMNS}
    cells = [table.cells[i] for i in seen.tolist()]
    detected = table.detected[seen]
    members = {cell: table.members[cell] for cell in cells if cell in table.members}
    return replace(
        table,
        cells=cells,
        detected=detected,
        members=members,
        complete=False,
        unbiased=None,
        **columns,
    )


def _is_large(table: CellTable, policy: ReleasePolicy) -> Booleans:
    """(n,) True for what may be shown by itself."""
    large: Booleans = table.detected & (round_down(table.low, policy.rounding) >= policy.min_low)
    return large


_COLUMNS = ("estimate", "std_error", "low", "high")


def _withheld(
    tables: Sequence[CellTable], policy: ReleasePolicy, known: Earlier
) -> dict[TableKey, str]:
    """The symbol of each table that is withheld as a whole."""
    few, window = policy.symbol("few_reports"), policy.symbol("window")
    small = (table for table in tables if table.num_reports < policy.min_reports)
    withheld = {table.key: few for table in small if table.key not in known.reports}
    by_series: dict[tuple[object, ...], list[CellTable]] = defaultdict(list)
    for table in tables:
        if table.key not in withheld:
            by_series[table.metric, table.strata].append(table)
    for series in by_series.values():
        flags = admit_windows(
            [Window(one.first_day, one.last_day, one.num_reports) for one in series],
            known.windows(series[0].metric, series[0].strata),
            policy.min_reports,
            by_reports=policy.overlap == "by_reports",
        )
        withheld |= {one.key: window for one, good in zip(series, flags, strict=True) if not good}
    open_ = [table.key for table in tables if table.key not in withheld]
    withheld |= dict.fromkeys(across_windows(open_, known.reports), window)
    reports = dict(known.reports)
    reports |= {one.key: one.num_reports for one in tables if one.key not in withheld}
    new = {one.key for one in tables} - known.reports.keys()
    parts = withheld_parts(
        families(reports), reports, new, policy.min_reports, policy.reports_rounding - 1
    )
    return withheld | dict.fromkeys(parts & new, few)


def _withhold(table: CellTable, symbol: str) -> ReleasedTable:
    """A table of which nothing but its being withheld is said."""
    none = np.zeros(0)
    return ReleasedTable(
        *table.key, None, table.level, (), (), none, none, none, none, (), withheld=symbol
    )


def _shown(table: CellTable, policy: ReleasePolicy, known: Earlier) -> ReleasedTable:
    """Rounded, with a symbol where the lower end is too small, and consistent with before."""
    if policy.total and len(table.cells):
        table, kinds = _with_total(table)
    else:
        kinds = tuple("merged" if cell in table.members else "cell" for cell in table.cells)
    step = policy.rounding
    low = round_down(table.low, step)
    hidden = ~_is_large(table, policy)
    symbol = policy.symbol("low_interval")
    released = ReleasedTable(
        *table.key,
        table.num_reports // policy.reports_rounding * policy.reports_rounding,
        table.level,
        tuple(table.cells),
        kinds,
        _visible(round_nearest(table.estimate, step), hidden),
        _visible(round_up(table.std_error, step), hidden),
        _visible(low, hidden),
        _visible(round_up(table.high, step), hidden),
        tuple(symbol if one else "" for one in hidden.tolist()),
        table.complete,
        "",
        table.shapes,
        table.members,
    )
    return known.reconcile(released, policy)


TOTAL = "(total)"


def _with_total(table: CellTable) -> tuple[CellTable, tuple[str, ...]]:
    """The table with a last row for the sum of all cells that it lists, shown or not."""
    if TOTAL in table.cells:
        raise PolicyError(f"{table.name}: a value is named {TOTAL}; publish without the total")
    total, error = float(table.estimate.sum()), sum_error(table.std_error, table.max_correlation)
    half = -float(ndtri((1 - table.level) / 2)) * error
    kinds = tuple("merged" if cell in table.members else "cell" for cell in table.cells)
    return (
        replace(
            table,
            cells=[*table.cells, TOTAL],
            estimate=np.append(table.estimate, total),
            std_error=np.append(table.std_error, error),
            low=np.append(table.low, total - half),
            high=np.append(table.high, total + half),
            detected=np.append(table.detected, True),
            unbiased=None,
        ),
        (*kinds, "total"),
    )


def _visible(values: Floats, hidden: Booleans) -> Floats:
    return np.where(hidden, np.nan, values)


def _notes(tables: Sequence[ReleasedTable], known: Earlier) -> tuple[str, ...]:
    """What a reader is told beside the numbers."""
    notes = [
        "Estimates come from reports that each device randomised before sending; shares are of the "
        "reports of a table. A merged row holds what of a group is not shown by itself."
    ]
    again = sum(1 for table in tables if table.key in known.reports)
    if again:
        notes.append(f"{again} tables stand in an earlier release, too; see its manifest.")
    return tuple(notes)
