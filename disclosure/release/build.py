"""`build_release`: a release from decoded tables and a policy, without side effects."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any

import numpy as np
from pydantic import Field, with_config
from scipy.special import ndtri

from disclosure.anonymize import Hierarchy
from disclosure.errors import PolicyError, ReleaseError
from disclosure.files import LENIENT
from disclosure.release.earlier import (
    check_chain,
    published_tables,
    reconcile,
    refuse_in_rows,
)
from disclosure.release.inference.facts import PublicTable, TableVersion
from disclosure.release.inference.protection import InferredNumber, Protected, protect
from disclosure.release.policy import ReleasePolicy, check_days, check_spelling
from disclosure.release.pooling import pool_rare, sum_error
from disclosure.release.tables import (
    NUMBERS,
    PARTITION,
    CellTable,
    InRows,
    ReleasedTable,
    TableKey,
    round_down,
    round_nearest,
    round_up,
)


@with_config(LENIENT)
@dataclass(frozen=True)
class Release:
    """A publication, with its tables, policy and day of issue."""

    policy: ReleasePolicy
    issued: date
    tables: tuple[ReleasedTable, ...]
    earlier: tuple[str, ...] = ()  # Digests of the earlier manifests with which it is consistent
    notes: tuple[str, ...] = ()  # Notes for the release's readers
    # SHA-256 of its manifest, "" before it is written
    digest: Annotated[str, Field(exclude=True)] = ""
    rows: tuple[InRows, ...] = ()  # Days published as synthetic rows, which have separate files


def build_release(
    decodings: Sequence[CellTable],
    policy: ReleasePolicy,
    issued: date,
    *,
    earlier: Sequence[Release] = (),
    hierarchies: Mapping[str, Hierarchy] | None = None,
) -> Release:
    """Create a release by applying a policy to decoded tables.

    Requests that the policy does not allow are rejected, rare values are pooled, and tables with
    few reports are withheld. Numbers in earlier releases are unchanged; other numbers are rounded,
    and suppressed if the lower end is too small. Then more numbers are suppressed, until no reader
    can infer hidden numbers from all public data (`disclosure.release.inference`).

    Args:
        decodings: The tables, in release order.
        policy: The policy of the release.
        issued: The day of issue, on which windows must be sealed.
        earlier: Earlier releases of the same owner, oldest first, each with all releases that it
            was built on.
        hierarchies: The trees for metrics whose roll-up names none.

    Returns:
        The release. Its notes state whether earlier releases already reveal something.

    Raises:
        PolicyError: The policy does not allow a stratum, day or unsealed window.
        ReleaseError: A table is given twice, an earlier release is missing on which a given release
            was built, numbers have changed, or days were published as rows.
        TableError: Values are not in their hierarchy.
    """
    digests = check_chain(earlier)
    _check_sources(decodings, policy, issued, earlier)
    for table in decodings:
        refuse_in_rows(earlier, table.metric, table.first_day, table.last_day)
    before = published_tables(earlier)
    widened = [_with_errors_of_shown_reports(table, policy) for table in decodings]
    pooled = [_pooled(table, policy, hierarchies or {}) for table in widened]
    draft = [
        withhold(table.key, table.level, policy)
        if not policy.has_enough(table.num_reports) and table.key not in before
        else reconcile(_as_released(table, policy), before.get(table.key), policy)
        for table in pooled
    ]
    versions = [TableVersion(table, policy, is_draft=True) for table in draft]
    judged = protect([*_versions(earlier), *versions])
    tables = tuple(_hidden_as(table, judged.tables[table.key], policy) for table in draft)
    again = sum(table.key in before for table in tables)
    return Release(policy, issued, tables, digests, _notes(tables, again, judged))


def _check_sources(
    decodings: Sequence[CellTable],
    policy: ReleasePolicy,
    issued: date,
    earlier: Sequence[Release],
) -> None:
    """Raise PolicyError or ReleaseError if a table may not be published at all."""
    keys = [table.key for table in decodings]
    if len(set(keys)) != len(keys):
        twice = next(table.name for table in decodings if keys.count(table.key) > 1)
        raise ReleaseError(f"{twice}: given twice")
    for table in decodings:
        for name, _ in table.strata:
            policy.check_stratum(table.name, name)
        if table.metric in policy.roll_up and PARTITION in dict(table.strata):
            raise PolicyError(
                f"{table.name}: flows are already summed by zone; remove roll_up.{table.metric}"
            )
        policy.with_outer(table.strata)
        check_days(policy, table.name, table.first_day, table.last_day, issued)
    every = [table.strata for release in earlier for table in release.tables]
    every += [table.strata for table in decodings]
    for name in policy.strata:
        check_spelling(value for strata in every for key, value in strata if key == name)


def _with_errors_of_shown_reports(table: CellTable, policy: ReleasePolicy) -> CellTable:
    """Increase errors to match the shown number of reports, which is rounded down.

    A standard error is a public constant divided by the root of the number of reports, so an exact
    error would reveal the rounded or withheld number."""
    rounded = max(policy.rounded_reports(table.num_reports), 1)
    wider = max(math.sqrt(table.num_reports / rounded), 1.0)
    return replace(
        table,
        std_error=table.std_error * wider,
        low=table.estimate - (table.estimate - table.low) * wider,
        high=table.estimate + (table.high - table.estimate) * wider,
    )


def _pooled(
    table: CellTable, policy: ReleasePolicy, hierarchies: Mapping[str, Hierarchy]
) -> CellTable:
    """Pool rare values, or drop them if even their names may not be shown."""
    rule = policy.roll_up.get(table.metric)
    if rule is not None:
        alone = policy.stand_alone(table.detected, table.low)
        table = pool_rare(table, rule, alone, hierarchies.get(table.metric))
    if table.listed:
        return table
    rows = np.flatnonzero(policy.stand_alone(table.detected, table.low))
    columns: dict[str, Any] = {name: getattr(table, name)[rows] for name in (*NUMBERS, "detected")}
    cells = [table.cells[i] for i in rows.tolist()]
    members = {cell: table.members[cell] for cell in cells if cell in table.members}
    return replace(table, cells=cells, members=members, complete=False, unbiased=None, **columns)


def _as_released(table: CellTable, policy: ReleasePolicy) -> ReleasedTable:
    """Round the numbers, and replace them with a symbol if the lower end is too small."""
    kinds = ["merged" if cell in table.members else "cell" for cell in table.cells]
    if policy.total and len(table.cells):
        table, kinds = _with_total(table), [*kinds, "total"]
    step, symbol = policy.rounding, policy.symbol("low_interval")
    hidden = ~policy.stand_alone(table.detected, table.low)
    return ReleasedTable(
        *table.key,
        policy.rounded_reports(table.num_reports),
        table.level,
        tuple(table.cells),
        tuple(kinds),
        np.where(hidden, np.nan, round_nearest(table.estimate, step)),
        np.where(hidden, np.nan, round_up(table.std_error, step)),
        np.where(hidden, np.nan, round_down(table.low, step)),
        np.where(hidden, np.nan, round_up(table.high, step)),
        tuple(symbol if flag else "" for flag in hidden.tolist()),
        complete=table.complete,
        shapes=table.shapes,
        members=table.members if table.listed else {},
        held={cell: len(parts) for cell, parts in table.members.items()},
    )


TOTAL = "(total)"


def _with_total(table: CellTable) -> CellTable:
    """Add a last row for the sum of all listed cells, shown or not."""
    if TOTAL in table.cells:
        raise PolicyError(f"{table.name}: a value is named {TOTAL}; publish without the total")
    squares, linear = float((table.std_error**2).sum()), float(table.std_error.sum())
    total = float(table.estimate.sum())
    error = float(sum_error(squares, linear, table.max_correlation))
    half = -float(ndtri((1 - table.level) / 2)) * error
    return replace(
        table,
        cells=[*table.cells, TOTAL],
        estimate=np.append(table.estimate, total),
        std_error=np.append(table.std_error, error),
        low=np.append(table.low, total - half),
        high=np.append(table.high, total + half),
        detected=np.append(table.detected, True),
        unbiased=None,
    )


def withhold(key: TableKey, level: float, policy: ReleasePolicy) -> ReleasedTable:
    """Return the published form of a withheld table: its key and symbol, without numbers."""
    none = np.zeros(0)
    symbol = policy.symbol("few_reports")
    return ReleasedTable(*key, None, level, (), (), none, none, none, none, (), withheld=symbol)


def _versions(releases: Iterable[Release]) -> list[TableVersion]:
    return [
        TableVersion(table, release.policy, is_draft=False)
        for release in releases
        for table in release.tables
    ]


def _hidden_as(table: ReleasedTable, public: PublicTable, policy: ReleasePolicy) -> ReleasedTable:
    """Return a draft table with the suppressions that `public`, its protected form, has."""
    if table.reports is None:
        return table
    if public.reports is None:
        return withhold(table.key, table.level, policy)
    rows = table.rows()
    none: dict[str, Any] = dict.fromkeys(NUMBERS, np.nan)
    none["symbol"] = policy.symbol("low_interval")
    hidden = {cell for cell, row in zip(public.cells, public.hidden, strict=True) if row}
    gone = {cell: row._replace(**none) for cell, row in rows.items()
            if cell in hidden and not row.symbol}  # fmt: skip
    return table.with_rows(rows | gone) if gone else table


def _notes(tables: Sequence[ReleasedTable], again: int, judged: Protected) -> tuple[str, ...]:
    """Return notes for readers; `again` is the number of tables in earlier releases."""
    notes = [
        "Estimates come from reports that each device randomized before sending; shares are of the "
        "reports of a table. A merged row is the part of a group that is not shown separately."
    ]
    if any(PARTITION in dict(table.strata) for table in tables):
        notes.append("A row between zones is the sum of all rows between their cells.")
    if again:
        notes.append(f"{again} tables are in an earlier release, too; see its manifest.")
    if judged.findings:
        notes.append(
            f"{len(judged.findings)} suppressed numbers can be inferred more closely than the "
            "policy allows, because of earlier releases, which cannot be retracted; rappor "
            "release audit names them."
        )
    if judged.widened:
        notes.append(
            f"{judged.widened} numbers contradict others by more than rounding, because tables "
            "are decoded separately; the inference check used wider bounds for them."
        )
    return tuple(notes)


@dataclass(frozen=True)
class Audit:
    """The result of an audit, with counts over all releases, each table once."""

    findings: tuple[InferredNumber, ...]  # Numbers that are known too precisely
    tables: int
    rows: int
    hidden: int
    widened: int  # The count of contradictory numbers, which were treated as less exact


def audit_releases(releases: Sequence[Release]) -> Audit:
    """Evaluate what several releases (oldest first) reveal together, each by its own policy."""
    judged = protect(_versions(releases))
    tables = judged.tables.values()
    return Audit(
        tuple(judged.findings),
        len(tables),
        sum(len(table.cells) for table in tables),
        sum(int(table.hidden.sum()) + (table.reports is None) for table in tables),
        judged.widened,
    )
