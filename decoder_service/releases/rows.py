"""Statements on releases. A release is inserted once, decided once, and never changed after
that."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from enum import StrEnum

from sqlalchemy import ColumnElement, func, insert, select, update
from sqlalchemy.orm import Session

from decoder_service.results.rows import RELEASE_FILES
from decoder_service.shell.database import changed, save
from decoder_service.shell.models import ReleaseRow, release_files, release_metrics

_DESCRIPTION = "datapackage.json"  # the file that says what columns and symbols mean


class ReleaseState(StrEnum):
    """The states of a release. All but the first are final."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


_IS_APPROVED = ReleaseRow.state == ReleaseState.APPROVED


def load_releases(
    db: Session, which: ColumnElement[bool], limit: int, offset: int = 0
) -> list[ReleaseRow]:
    """Releases, newest first."""
    newest = select(ReleaseRow).where(which).order_by(ReleaseRow.created.desc(), ReleaseRow.id)
    return list(db.scalars(newest.limit(limit).offset(offset)))


def save_release(
    db: Session, row: ReleaseRow, files: Mapping[str, bytes], numbers: Mapping[str, int]
) -> None:
    """Insert a release with its files. numbers: by metric, its place among the approved ones."""
    save(db, row)
    row.stored = RELEASE_FILES.save(db, row.id, files) + len(row.difference)
    db.flush()
    for metric, number in numbers.items():
        db.execute(
            insert(release_metrics).values(
                release_id=row.id, metric=metric, number=number, approved=False
            )
        )


def add_files(db: Session, release_id: str, files: Mapping[str, bytes]) -> None:
    """Insert the files that an approval adds, in its transaction."""
    more = ReleaseRow.stored + RELEASE_FILES.save(db, release_id, files)
    db.execute(update(ReleaseRow).where(ReleaseRow.id == release_id).values(stored=more))


def decide(
    db: Session, release_id: str, state: ReleaseState, person: str, reason: str, at: float
) -> bool:
    """Decide a proposed release by one guarded UPDATE; return False if it is not to be decided.

    A release is withdrawn by who proposed it, and approved or rejected by anybody else: `person`
    is the id that all keys and sessions of one person share.  An approval that another one came
    before violates an index.
    """
    mine = ReleaseRow.proposer == person
    allowed = mine if state == ReleaseState.WITHDRAWN else ~mine
    proposed = ReleaseRow.state == ReleaseState.PROPOSED
    statement = update(ReleaseRow).where(ReleaseRow.id == release_id, proposed, allowed)
    values = {"state": state.value, "reviewer": person, "reason": reason, "decided": at}
    if changed(db, statement.values(values)) != 1:
        return False
    if state == ReleaseState.APPROVED:
        own = release_metrics.c.release_id == release_id
        db.execute(update(release_metrics).where(own).values(approved=True))
    elif state == ReleaseState.WITHDRAWN:  # its files take no room; their digests stay
        _delete_files(db, ReleaseRow.id == release_id)
    return True


def delete_rejected(db: Session, before: float) -> int:
    """Delete the files of releases that were rejected before a time; how many releases.

    Their rows, and the digests of their files, stay.
    """
    old = (ReleaseRow.state == ReleaseState.REJECTED) & (ReleaseRow.decided < before)
    return _delete_files(db, old & (ReleaseRow.stored > 0))


def _delete_files(db: Session, which: ColumnElement[bool]) -> int:
    own = release_files.c.release_id.in_(select(ReleaseRow.id).where(which))
    db.execute(update(release_files).where(own).values(content=b""))
    return changed(db, update(ReleaseRow).where(which).values(stored=0))


def last_approved(db: Session, name: str) -> tuple[str | None, int]:
    """The last approved release of a name, and its number; (None, 0) where there is none."""
    which = select(ReleaseRow.id, ReleaseRow.number).where(_IS_APPROVED, ReleaseRow.name == name)
    row = db.execute(which.order_by(ReleaseRow.number.desc()).limit(1)).first()
    return (None, 0) if row is None else (row[0], row[1])


def approved_numbers(db: Session, metrics: Iterable[str]) -> dict[str, int]:
    """For each metric, the number of approved releases that contain it."""
    columns, wanted = release_metrics.c, list(metrics)
    statement = (
        select(columns.metric, func.max(columns.number))
        .where(columns.approved, columns.metric.in_(wanted))
        .group_by(columns.metric)
    )
    found = {str(metric): int(number) for metric, number in db.execute(statement)}
    return {metric: found.get(metric, 0) for metric in wanted}


def approved_of(db: Session, metrics: Iterable[str]) -> list[str]:
    """The approved releases of any of these metrics, of every name, oldest first."""
    columns = release_metrics.c
    own = select(columns.release_id).where(columns.approved, columns.metric.in_(list(metrics)))
    statement = select(ReleaseRow.id).where(ReleaseRow.id.in_(own))
    ordered = statement.order_by(ReleaseRow.decided, ReleaseRow.created, ReleaseRow.id)
    return list(db.scalars(ordered))


def numbers_of(db: Session, release_id: str) -> dict[str, int]:
    """For each metric, the number that a release would have among the approved ones."""
    columns = release_metrics.c
    statement = select(columns.metric, columns.number).where(columns.release_id == release_id)
    return {str(metric): int(number) for metric, number in db.execute(statement)}


def held_by(db: Session, person: str) -> tuple[int, int]:
    """Number of a person's proposals that wait, and the bytes of their releases that are not
    approved."""
    mine = ReleaseRow.proposer == person
    waiting = select(func.count()).where(mine, ReleaseRow.state == ReleaseState.PROPOSED)
    size = select(func.coalesce(func.sum(ReleaseRow.stored), 0)).where(mine, ~_IS_APPROVED)
    count, total = (db.execute(one).scalar_one() for one in (waiting, size))
    return int(count), int(total)


def load_difference(db: Session, release_id: str) -> bytes:
    """The JSON of a difference."""
    statement = select(ReleaseRow.difference).where(ReleaseRow.id == release_id)
    return zlib.decompress(db.execute(statement).scalar_one())


def load_symbols(db: Session, release_id: str) -> dict[str, str]:
    """The meaning of each symbol that the release shows in place of a number; {} where it is
    withdrawn."""
    described = RELEASE_FILES.read(db, release_id, _DESCRIPTION)
    meanings: dict[str, str] = json.loads(described).get("symbols", {}) if described else {}
    return meanings
