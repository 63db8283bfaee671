"""The audit of published releases: what a reader can compute that a policy promises to hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disclosure.release.inference.facts import TableVersion
from disclosure.release.inference.protection import InferredNumber, protect

if TYPE_CHECKING:
    from disclosure.release.build import Release


@dataclass(frozen=True)
class Audit:
    """The result of an audit. findings: numbers known too well. tables, rows, hidden: counts
    over all releases, each table once.

    widened: numbers that contradict others, and were taken less exactly.
    """

    findings: tuple[InferredNumber, ...]
    tables: int
    rows: int
    hidden: int
    widened: int


def audit_releases(releases: Sequence[Release]) -> Audit:
    """Judge what the tables of several releases tell together, each by its own policy.

    Args:
        releases: oldest first.
    """
    made = protect(
        TableVersion(table, release.policy, is_draft=False)
        for release in releases
        for table in release.tables
    )
    tables = made.tables.values()
    return Audit(
        tuple(made.findings),
        len(tables),
        sum(len(table.cells) for table in tables),
        sum(int(table.hidden.sum()) + (table.reports is None) for table in tables),
        made.widened,
    )
