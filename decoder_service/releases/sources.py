"""Building, comparing, checking and signing releases with `disclosure.release`."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from decoder.kinds.interface import DECODERS, decoder_of
from decoder_service.jobs.specs import ReleaseSource
from decoder_service.people.permissions import Act, Person, own_results, visible_results
from decoder_service.results.rules import RELEASE_FILES, RESULT_FILES
from decoder_service.shell.database import changed, total, visible_row
from decoder_service.shell.errors import QuotaError
from decoder_service.shell.models import (
    ReleaseRow,
    ReleaseState,
    ResultRow,
    release_files,
    release_metrics,
)
from disclosure.errors import PublicationError
from disclosure.release import (
    Release,
    ReleasePolicy,
    build_release,
    compare_releases,
    key_id,
    load_private_key,
    policy_changes,
    policy_of_text,
    read_release,
    read_source,
    sign_manifest,
    write_release,
)
from disclosure.release.files import MANIFEST, SIGNATURE
from rappor_server.errors import ConflictError, RequestError, SettingsError

Files = Mapping[str, bytes]  # By name
Source = tuple[str, Files, Mapping[str, str]]  # A result's id and files, and its reports' strata
MAX_SOURCE_BYTES = 64 << 20  # The size limit for the files of all results in a release
ACTS = {
    ReleaseState.APPROVED: "approve",
    ReleaseState.REJECTED: "reject",
    ReleaseState.WITHDRAWN: "withdraw",
}
_IS_APPROVED = ReleaseRow.state == ReleaseState.APPROVED


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference between two releases, for the person who approves the newer one.

    Attributes:
        policy: The old and the new value of each policy key that differs.
        rows: The changes. Each has its kind (`change`), its `table`, its `cell` ("" for a whole
            table), and the numbers `before` and `after` as text.
        symbols: The meaning of each symbol that replaces a number in `rows`.
    """

    policy: Mapping[str, tuple[Any, Any]]
    rows: Sequence[Mapping[str, str]]
    symbols: Mapping[str, str] = field(default_factory=dict)


class ReleasePublisher:
    """The builder, comparer and signer of releases.

    `key` is the file of the private key that signs approved releases; None leaves them unsigned.
    Raises SettingsError if the key is unusable."""

    def __init__(self, key: Path | None = None) -> None:
        try:
            self._key = None if key is None else load_private_key(key)
        except PublicationError as error:
            raise SettingsError(f"setting release_key: {error}") from error

    @property
    def key_id(self) -> str:
        """Return the SHA-256 (hex) of the public key that manifests name; "" if there is no key."""
        return "" if self._key is None else key_id(self._key.public_key())

    def sign(self, manifest: bytes) -> Files:
        """Return the signature file for a manifest, or no file if there is no key.

        `rappor release build --signing-key` writes the same file."""
        return {} if self._key is None else {SIGNATURE: sign_manifest(self._key, manifest) + b"\n"}

    def build(
        self, sources: Sequence[Source], policy: str, issued: date, earlier: Sequence[Files]
    ) -> tuple[Files, ReleasePolicy]:
        """Build a release by applying a policy to the tables of results.

        Args:
            sources: The results, in the order of their tables.
            policy: The text of a release.toml.
            issued: The day on which windows must be sealed.
            earlier: The files of the releases with which the numbers must be consistent, oldest
                first.

        Returns:
            The files of the release, and its policy.

        Raises:
            RequestError: The policy does not allow the release, or a source cannot be used.
        """
        with _folder() as folder:
            rules = policy_of_text(policy)
            tables = [
                table
                for result, files, strata in sources
                for table in read_source(_written(files, folder / result), dict(strata))
            ]
            release = build_release(tables, rules, issued, earlier=_read(earlier, folder))
            write_release(release, folder / "made", key_id=self.key_id)
            return {path.name: path.read_bytes() for path in (folder / "made").iterdir()}, rules

    def compare(self, old: Files | None, new: Files) -> Changes:
        """List what a release adds to, changes in or removes from an older release, or from none.

        The rows of a new table are also listed one by one, because they need approval. Raises
        RequestError if a release is unreadable."""
        with _folder() as folder:
            releases = _read([new] if old is None else [old, new], folder)
        later = releases[-1]
        first = releases[0] if old is not None else Release(later.policy, later.issued, ())
        return Changes(policy_changes(first, later), list(_rows(first, later)))


def _rows(old: Release, new: Release) -> Iterator[dict[str, str]]:
    none = np.zeros(0)
    columns: dict[str, Any] = dict.fromkeys(("estimate", "std_error", "low", "high"), none)
    tables = {table.name: table for table in new.tables}
    for difference in compare_releases(old, new):
        yield asdict(difference)
        if difference.change == "new table":
            table = tables[difference.table]
            empty = replace(table, cells=(), kinds=(), symbols=(), **columns)
            before, after = (replace(new, tables=(each,)) for each in (empty, table))
            yield from map(asdict, compare_releases(before, after))


def _read(releases: Sequence[Files], folder: Path) -> list[Release]:
    return [
        read_release(_written(files, folder / f"release-{number}"))
        for number, files in enumerate(releases)
    ]


def _written(files: Files, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / Path(name).name).write_bytes(content)
    return folder


@contextmanager
def _folder() -> Iterator[Path]:
    """Yield a temporary folder, whose name is removed from error messages."""
    with TemporaryDirectory(prefix="rappor-release-") as name:
        try:
            yield Path(name)
        except PublicationError as error:
            raise RequestError(str(error).replace(f"{name}{os.sep}", "")) from error


def load_sources(
    db: Session, person: Person, chosen: Sequence[ReleaseSource]
) -> tuple[list[Source], list[str]]:
    """Return the files of a person's own results, and the metrics of the results.

    Raises NotFoundError, RequestError and QuotaError."""
    published = published_files()
    sources, metrics, rest = list[Source](), set[str](), MAX_SOURCE_BYTES
    if len({item.result for item in chosen}) < len(chosen):
        raise RequestError("a result is repeated")
    for item in chosen:
        row = visible_row(db, ResultRow, own_results(person), item.result)
        if row.kind not in published or row.operation != "decode":
            raise RequestError(
                f"result {item.result}: a {row.operation} of kind {row.kind} is not "
                f"released; a decode of kind {' or '.join(published)} is"
            )
        names = published[row.kind]
        rest -= sum(file.size for file in RESULT_FILES.list(db, item.result) if file.name in names)
        if rest < 0:
            raise QuotaError(f"the results are larger than {MAX_SOURCE_BYTES:,} bytes together")
        sources.append((item.result, RESULT_FILES.all(db, item.result, names), item.strata))
        metrics.add(row.metric)
    return sources, sorted(metrics)


def published_files() -> dict[str, tuple[str, ...]]:
    """Return, by metric kind, the files from which releases are made; some kinds have none."""
    return {name: files for name in DECODERS if (files := decoder_of(name).published)}


def approved_before(db: Session, metrics: Sequence[str]) -> list[Files]:
    """Return the files of the approved releases that are linked to metrics, oldest first.

    A release is linked if it shares a metric with `metrics` or with another linked release,
    regardless of its name, because published numbers stay known."""
    columns, names = release_metrics.c, set(metrics)
    while True:
        query = select(columns.release_id).where(columns.approved, columns.metric.in_(list(names)))
        oldest = select(ReleaseRow.id).where(ReleaseRow.id.in_(query)).order_by(
            ReleaseRow.decided, ReleaseRow.created, ReleaseRow.id
        )  # fmt: skip
        ids = list(db.scalars(oldest))
        linked = names.union(*(numbers_of(db, release) for release in ids))
        if linked == names:
            return [RELEASE_FILES.all(db, release) for release in ids]
        names = linked


def source_states(
    db: Session, person: Person, rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return a proposal's `rows` of results, each with `is_there`: whether the person sees it.

    It is false if the result is not visible to the person, was deleted or was given up."""
    named = ResultRow.id.in_([row["result"] for row in rows])
    visible_ids = set(db.scalars(select(ResultRow.id).where(visible_results(person), named)))
    return [{**row, "is_there": row["result"] in visible_ids} for row in rows]


def is_stale(db: Session, row: ReleaseRow) -> bool:
    """Return whether a related release was approved after this release was built."""
    _, count = last_approved(db, row.name)
    numbers = numbers_of(db, row.id)
    now = approved_numbers(db, numbers)
    return row.number <= count or any(numbers[metric] <= now[metric] for metric in numbers)


def sees_review(person: Person, row: ReleaseRow) -> bool:
    """Return whether a person may see the difference, the results and the reason of a release."""
    return person.may(Act.REVIEW) or (person.may(Act.ANALYZE) and person.id == row.proposer)


def stale(row: ReleaseRow) -> ConflictError:
    """Return the error for approving a release for which `is_stale` is true."""
    return ConflictError(
        "another release was approved after this one was built, so this one was not checked "
        "against it; reject this release, and have it proposed again",
        name=row.name,
    )


def approval_of(db: Session, publisher: ReleasePublisher, row: ReleaseRow) -> Files:
    """Return the files that an approval adds to a release, whose proposed files stay unchanged.

    Raises ConflictError if a file changed since the proposal, or if the service's key has changed.
    """
    files = RELEASE_FILES.all(db, row.id)
    digests = {item.name: item.sha256 for item in RELEASE_FILES.list(db, row.id)}
    manifest = files.get(MANIFEST, b"")
    try:
        named = {name: str(file["sha256"]) for name, file in json.loads(manifest)["files"].items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        named = {}  # The manifest is damaged, which the next loop reports
    for name in sorted({*digests, *named}):
        expected = {row.digest} if name == MANIFEST else {named.get(name), digests.get(name)}
        if {sha256(files.get(name, b"")).hexdigest()} != expected:
            raise ConflictError(
                f"file {name!a} is not the proposed one: the database was changed; reject the "
                "release, and have it proposed again",
                name=row.name,
            )
    key = str(json.loads(manifest).get("key", ""))
    if key != publisher.key_id:  # The signature would not match the key that the manifest names
        built, here = (f"key {k[:16]}" if k else "no key" for k in (key, publisher.key_id))
        raise ConflictError(
            f"the release was built for {built}, and this service signs with {here}; reject it, "
            "and have it proposed again",
            name=row.name,
        )
    return publisher.sign(manifest)


def decide(
    db: Session, release_id: str, state: ReleaseState, person: str, reason: str, at: float
) -> bool:
    """Decide a proposed release by one guarded UPDATE; return False if no row was changed.

    Only its proposer withdraws a release, and only another person approves or rejects it. `person`
    is the id that all keys and sessions of one person share. If another release was approved first,
    the UPDATE violates an index."""
    mine = ReleaseRow.proposer == person
    allowed = mine if state == ReleaseState.WITHDRAWN else ~mine
    proposed = ReleaseRow.state == ReleaseState.PROPOSED
    statement = update(ReleaseRow).where(ReleaseRow.id == release_id, proposed, allowed)
    values = {"state": state.value, "reviewer": person, "reason": reason, "decided": at}
    if changed(db, statement.values(values)) != 1:
        return False
    if state == ReleaseState.APPROVED:
        where = release_metrics.c.release_id == release_id
        db.execute(update(release_metrics).where(where).values(approved=True))
    elif state == ReleaseState.WITHDRAWN:  # Its files are emptied; their digests stay
        _delete_files(db, ReleaseRow.id == release_id)
    return True


def delete_rejected(db: Session, before: float) -> int:
    """Delete the files of releases rejected before a time; return the number of releases.

    The rows and the digests of the files stay."""
    old = (ReleaseRow.state == ReleaseState.REJECTED) & (ReleaseRow.decided < before)
    return _delete_files(db, old & (ReleaseRow.stored > 0))


def _delete_files(db: Session, which: ColumnElement[bool]) -> int:
    where = release_files.c.release_id.in_(select(ReleaseRow.id).where(which))
    db.execute(update(release_files).where(where).values(content=b""))
    return changed(db, update(ReleaseRow).where(which).values(stored=0))


def last_approved(db: Session, name: str) -> tuple[str | None, int]:
    """Return the last approved release of this name, and its number, or (None, 0)."""
    which = select(ReleaseRow.id, ReleaseRow.number).where(_IS_APPROVED, ReleaseRow.name == name)
    row = db.execute(which.order_by(ReleaseRow.number.desc()).limit(1)).first()
    return (None, 0) if row is None else (row[0], row[1])


def approved_numbers(db: Session, metrics: Iterable[str]) -> dict[str, int]:
    """Return, for each metric, the number of approved releases that contain it."""
    columns, names = release_metrics.c, list(metrics)
    statement = (
        select(columns.metric, func.max(columns.number))
        .where(columns.approved, columns.metric.in_(names))
        .group_by(columns.metric)
    )
    numbers = {str(metric): int(number) for metric, number in db.execute(statement)}
    return {metric: numbers.get(metric, 0) for metric in names}


def numbers_of(db: Session, release_id: str) -> dict[str, int]:
    """Return, for each metric, a release's position among the approved releases that contain it."""
    columns = release_metrics.c
    statement = select(columns.metric, columns.number).where(columns.release_id == release_id)
    return {str(metric): int(number) for metric, number in db.execute(statement)}


def held_by(db: Session, person: str) -> tuple[int, int]:
    """Return a person's number of open proposals, and the bytes of their unapproved releases."""
    mine = ReleaseRow.proposer == person
    proposed = select(func.count()).where(mine, ReleaseRow.state == ReleaseState.PROPOSED)
    sizes = select(func.sum(ReleaseRow.stored)).where(mine, ~_IS_APPROVED)
    return total(db, proposed), total(db, sizes)
