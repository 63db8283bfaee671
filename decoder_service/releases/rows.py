"""Database rows of releases. A release is inserted once, decided once, and never changed after
that."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from decoder_service.results.rows import FileRow, packed_files
from decoder_service.shell.models import people, release_files, release_metrics, releases

_LEVEL = 6  # of zlib
_DESCRIPTION = "datapackage.json"  # the file that says what columns and symbols mean


class ReleaseState(StrEnum):
    """The states of a release. All but the first are final."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """The database row of a release, without its files and its difference.

    number: its place among the approved ones of its name.  proposer, reviewer: ids of people.
    policy: text of release.toml.  sources: JSON.  base: the release that the difference is
    against, None for the first of its name.  changes: how many rows the difference has.
    """

    id: str
    name: str
    number: int
    state: str
    proposer: str
    owner: str
    audience: str
    issued: str
    digest: str
    policy: str
    sources: str
    note: str
    base: str | None
    changes: int
    stored: int
    created: float
    reviewer: str | None = None
    reason: str = ""
    decided: float | None = None
    proposer_name: str = ""
    reviewer_name: str | None = None


_NAMES = {"proposer_name", "reviewer_name"}
_OWN = [releases.c[name] for name in ReleaseRow.__slots__ if name not in _NAMES]
_FILE = [release_files.c[name] for name in FileRow.__slots__]
_IS_APPROVED = releases.c.state == ReleaseState.APPROVED


def load_releases(
    connection: Connection, which: ColumnElement[bool], limit: int, offset: int = 0
) -> list[ReleaseRow]:
    """Releases, newest first."""
    proposer, reviewer = people.alias(), people.alias()
    statement = (
        select(*_OWN, proposer.c.name, reviewer.c.name)
        .join(proposer, proposer.c.id == releases.c.proposer)
        .outerjoin(reviewer, reviewer.c.id == releases.c.reviewer)
        .where(which)
        .order_by(releases.c.created.desc(), releases.c.id)
    )
    return [
        ReleaseRow(*list(row)) for row in connection.execute(statement.limit(limit).offset(offset))
    ]


def save_release(
    connection: Connection,
    row: ReleaseRow,
    difference: bytes,
    files: Mapping[str, bytes],
    numbers: Mapping[str, int],
) -> None:
    """Insert a release with its files. numbers: by metric, its place among the approved ones."""
    packed = packed_files("release_id", row.id, files)
    compressed = zlib.compress(difference, _LEVEL)
    values = {name: getattr(row, name) for name in row.__slots__ if name not in _NAMES}
    values |= {
        "difference": compressed,
        "stored": sum(len(one["content"]) for one in packed) + len(compressed),
    }
    connection.execute(insert(releases).values(values))
    if packed:
        connection.execute(insert(release_files), packed)
    for metric, number in numbers.items():
        insert_metric = insert(release_metrics).values(
            release_id=row.id, metric=metric, number=number, approved=False
        )
        connection.execute(insert_metric)


def add_files(connection: Connection, release_id: str, files: Mapping[str, bytes]) -> None:
    """Insert the files that an approval adds, in its transaction."""
    packed = packed_files("release_id", release_id, files)
    if packed:
        connection.execute(insert(release_files), packed)
        more = releases.c.stored + sum(len(one["content"]) for one in packed)
        connection.execute(update(releases).where(releases.c.id == release_id).values(stored=more))


def decide(
    connection: Connection, row: ReleaseRow, state: ReleaseState, person: str, at: float
) -> bool:
    """Decide a proposed release by one guarded UPDATE; return False if it is not to be decided.

    row: with the reason.  A release is withdrawn by who proposed it, and approved or rejected by
    anybody else: `person` is the id that all keys and sessions of one person share.  An approval
    that another one came before violates an index.
    """
    mine = releases.c.proposer == person
    allowed = mine if state == ReleaseState.WITHDRAWN else ~mine
    proposed = releases.c.state == ReleaseState.PROPOSED
    statement = update(releases).where(releases.c.id == row.id, proposed, allowed)
    values = {"state": state.value, "reviewer": person, "reason": row.reason, "decided": at}
    if connection.execute(statement.values(values)).rowcount != 1:
        return False
    if state == ReleaseState.APPROVED:
        own = release_metrics.c.release_id == row.id
        connection.execute(update(release_metrics).where(own).values(approved=True))
    elif state == ReleaseState.WITHDRAWN:  # its files take no room; their digests stay
        _delete_files(connection, releases.c.id == row.id)
    return True


def delete_rejected(connection: Connection, before: float) -> int:
    """Delete the files of releases that were rejected before a time; how many releases.

    Their rows, and the digests of their files, stay.
    """
    old = (releases.c.state == ReleaseState.REJECTED) & (releases.c.decided < before)
    return _delete_files(connection, old & (releases.c.stored > 0))


def _delete_files(connection: Connection, which: ColumnElement[bool]) -> int:
    chosen = select(releases.c.id).where(which)
    own = release_files.c.release_id.in_(chosen)
    connection.execute(update(release_files).where(own).values(content=b""))
    return int(connection.execute(update(releases).where(which).values(stored=0)).rowcount)


def files_are_deleted(connection: Connection, release_id: str) -> bool:
    """Whether the release's files are deleted: it was withdrawn, or rejected long ago."""
    stored = select(releases.c.stored).where(releases.c.id == release_id)
    return connection.execute(stored).scalar() == 0


def last_approved(connection: Connection, name: str) -> tuple[str | None, int]:
    """The last approved release of a name, and its number; (None, 0) where there is none."""
    which = select(releases.c.id, releases.c.number).where(_IS_APPROVED, releases.c.name == name)
    row = connection.execute(which.order_by(releases.c.number.desc()).limit(1)).first()
    return (None, 0) if row is None else (str(row[0]), int(row[1]))


def approved_numbers(connection: Connection, metrics: Iterable[str]) -> dict[str, int]:
    """For each metric, the number of approved releases that contain it."""
    columns, wanted = release_metrics.c, list(metrics)
    statement = (
        select(columns.metric, func.max(columns.number))
        .where(columns.approved, columns.metric.in_(wanted))
        .group_by(columns.metric)
    )
    found = {str(metric): int(number) for metric, number in connection.execute(statement)}
    return {metric: found.get(metric, 0) for metric in wanted}


def approved_of(connection: Connection, metrics: Iterable[str]) -> list[str]:
    """The approved releases of any of these metrics, of every name, oldest first."""
    columns = release_metrics.c
    own = select(columns.release_id).where(columns.approved, columns.metric.in_(list(metrics)))
    statement = select(releases.c.id).where(releases.c.id.in_(own))
    ordered = statement.order_by(releases.c.decided, releases.c.created, releases.c.id)
    return [str(row[0]) for row in connection.execute(ordered)]


def numbers_of(connection: Connection, release_id: str) -> dict[str, int]:
    """For each metric, the number that a release would have among the approved ones."""
    columns = release_metrics.c
    statement = select(columns.metric, columns.number).where(columns.release_id == release_id)
    return {str(metric): int(number) for metric, number in connection.execute(statement)}


def held_by(connection: Connection, person: str) -> tuple[int, int]:
    """Number of a person's proposals that wait, and the bytes of their releases that are not
    approved."""
    mine = releases.c.proposer == person
    waiting = select(func.count()).where(mine, releases.c.state == ReleaseState.PROPOSED)
    size = select(func.coalesce(func.sum(releases.c.stored), 0)).where(mine, ~_IS_APPROVED)
    count, total = (connection.execute(one).scalar_one() for one in (waiting, size))
    return int(count), int(total)


def load_difference(connection: Connection, release_id: str) -> bytes:
    """The JSON of a difference."""
    statement = select(releases.c.difference).where(releases.c.id == release_id)
    return zlib.decompress(bytes(connection.execute(statement).scalar_one()))


def load_release_files(connection: Connection, release_id: str) -> list[FileRow]:
    """The files of a release, by name."""
    statement = select(*_FILE).where(release_files.c.release_id == release_id)
    return [FileRow(*row) for row in connection.execute(statement.order_by(release_files.c.name))]


def load_release_file(connection: Connection, release_id: str, name: str) -> bytes | None:
    """The bytes of a release's file; None where there is none, or the release was withdrawn."""
    own = (release_files.c.release_id == release_id, release_files.c.name == name)
    found = connection.execute(select(release_files.c.content).where(*own)).scalar()
    return zlib.decompress(bytes(found)) if found else None


def load_symbols(connection: Connection, release_id: str) -> dict[str, str]:
    """The meaning of each symbol that the release shows in place of a number; {} where it is
    withdrawn."""
    described = load_release_file(connection, release_id, _DESCRIPTION)
    meanings: dict[str, str] = json.loads(described).get("symbols", {}) if described else {}
    return meanings
