"""`build_release`: from decoded tables and a policy to what is published. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any

import numpy as np
from pydantic import Field, with_config
from scipy.special import ndtri

from disclosure.anonymize import Hierarchy
from disclosure.errors import PolicyError, ReleaseError
from disclosure.files import LENIENT
from disclosure.release.earlier import Earlier, check_chain, refuse_in_rows
from disclosure.release.policy import ReleasePolicy, check_days, check_spelling
from disclosure.release.pooling import pool_rare
from disclosure.release.roll_up import sum_error
from disclosure.release.suppression import Suppressed, suppress_complements, withhold
from disclosure.release.tables import (
    NUMBERS,
    PARTITION,
    CellTable,
    InRows,
    ReleasedTable,
    round_down,
    round_nearest,
    round_up,
)
from disclosure.typing import Booleans, Floats


@with_config(LENIENT)
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
    digest: Annotated[str, Field(exclude=True)] = ""
    rows: tuple[InRows, ...] = ()


def build_release(
    decodings: Sequence[CellTable],
    policy: ReleasePolicy,
    issued: date,
    *,
    earlier: Sequence[Release] = (),
    hierarchies: Mapping[str, Hierarchy] | None = None,
) -> Release:
    """Make a release: apply a policy to decoded tables.

    Steps: what the policy does not allow is refused; rare values are pooled; tables of few reports
    are withheld; numbers that earlier releases show stay as they are; the others are rounded, and
    suppressed where the lower end is too small; then more, until no reader can infer from all that
    is public what is not shown (`disclosure.release.inference`).

    Args:
        decodings: tables, in the order in which they are to stand.
        policy: of the release.
        issued: day of issue, by which windows are judged to be sealed.
        earlier: releases of the same owner, oldest first, each with all that it was built on.
        hierarchies: trees for metrics whose roll-up names none.

    Returns:
        The release. Its notes say so where earlier releases already give something away.

    Raises:
        PolicyError: a stratum, day or unsealed window that the policy does not allow.
        ReleaseError: the same table twice; an earlier release that another one was built on is
            missing; numbers that have changed; days that were published in rows.
        TableError: values that are not in their hierarchy.
    """
    check_chain(earlier)
    _check_sources(decodings, policy, issued, earlier)
    for table in decodings:
        refuse_in_rows(earlier, table.metric, table.first_day, table.last_day)
    known = Earlier.of(earlier)
    widened = [_with_errors_of_shown_reports(table, policy) for table in decodings]
    pooled = [_pooled(table, policy, hierarchies or {}) for table in widened]
    draft = [
        withhold(table.key, table.level, policy)
        if not policy.has_enough(table.num_reports) and table.key not in known.tables
        else _shown(table, policy, known)
        for table in pooled
    ]
    made = suppress_complements(draft, earlier, policy)
    return Release(policy, issued, made.tables, known.digests, _notes(made, known))


def _check_sources(
    decodings: Sequence[CellTable],
    policy: ReleasePolicy,
    issued: date,
    earlier: Sequence[Release],
) -> None:
    """Raise PolicyError or ReleaseError for what may not be published at all."""
    keys = [table.key for table in decodings]
    if len(set(keys)) != len(keys):
        twice = next(table.name for table in decodings if keys.count(table.key) > 1)
        raise ReleaseError(f"{twice}: given twice")
    for table in decodings:
        for name, _ in table.strata:
            policy.check_stratum(table.name, name)
        if table.metric in policy.roll_up and PARTITION in dict(table.strata):
            raise PolicyError(
                f"{table.name}: flows are added up by zones already; leave roll_up.{table.metric} "
                "out"
            )
        policy.with_outer(table.strata)
        check_days(policy, table.name, table.first_day, table.last_day, issued)
    every = [table.strata for release in earlier for table in release.tables]
    every += [table.strata for table in decodings]
    for name in policy.strata:
        check_spelling(value for strata in every for one, value in strata if one == name)


def _with_errors_of_shown_reports(table: CellTable, policy: ReleasePolicy) -> CellTable:
    """The table with errors as of the number of reports that is shown, which is rounded down.

    A standard error goes with one over the root of the number of reports, by constants that are
    public: a fine one would reveal the number that is rounded, or withheld.
    """
    shown = max(policy.rounded_reports(table.num_reports), 1)
    wider = max(math.sqrt(table.num_reports / shown), 1.0)
    return replace(
        table,
        std_error=table.std_error * wider,
        low=table.estimate - (table.estimate - table.low) * wider,
        high=table.estimate + (table.high - table.estimate) * wider,
    )


def _pooled(
    table: CellTable, policy: ReleasePolicy, hierarchies: Mapping[str, Hierarchy]
) -> CellTable:
    """Rare values pooled; then dropped, where even the name of a rare value is not shown."""
    rule = policy.roll_up.get(table.metric)
    if rule is not None:
        alone = policy.stand_alone(table.detected, table.low)
        table = pool_rare(table, rule, alone, hierarchies.get(table.metric))
    if table.listed:
        return table
    seen = np.flatnonzero(policy.stand_alone(table.detected, table.low))
    columns: dict[str, Any] = {name: getattr(table, name)[seen] for name in NUMBERS}
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


def _shown(table: CellTable, policy: ReleasePolicy, known: Earlier) -> ReleasedTable:
    """Rounded, with a symbol where the lower end is too small, and consistent with before."""
    if policy.total and len(table.cells):
        table, kinds = _with_total(table)
    else:
        kinds = tuple("merged" if cell in table.members else "cell" for cell in table.cells)
    step = policy.rounding
    low = round_down(table.low, step)
    hidden = ~policy.stand_alone(table.detected, table.low)
    symbol = policy.symbol("low_interval")
    released = ReleasedTable(
        *table.key,
        policy.rounded_reports(table.num_reports),
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
        table.members if table.listed else {},
        {cell: len(held) for cell, held in table.members.items()},
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


def _notes(made: Suppressed, known: Earlier) -> tuple[str, ...]:
    """Notes for readers, published with the numbers."""
    notes = [
        "Estimates come from reports that each device randomized before sending; shares are of the "
        "reports of a table. A merged row holds what of a group is not shown by itself."
    ]
    if any(PARTITION in dict(table.strata) for table in made.tables):
        notes.append("A row between zones is the sum of all rows between their cells.")
    again = sum(1 for table in made.tables if table.key in known.tables)
    if again:
        notes.append(f"{again} tables stand in an earlier release, too; see its manifest.")
    if made.findings:
        notes.append(
            f"{len(made.findings)} numbers that are not shown can be inferred more closely than "
            "the policy asks, from what earlier releases show and this one cannot take back; "
            "rappor release audit names them."
        )
    if made.widened:
        notes.append(
            f"{made.widened} numbers contradict others by more than rounding, as tables are "
            "decoded one by one; where inference was judged they were taken less exactly."
        )
    return tuple(notes)
