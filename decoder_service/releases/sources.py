"""What a release is made of, what it is built on, and what is checked before it is approved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy.orm import Session

from decoder.kinds.interface import DECODERS, decoder_of
from decoder_service.jobs.specs import ReleaseSource
from decoder_service.people.permissions import Act, Person, own_results, visible_results
from decoder_service.releases import rows
from decoder_service.releases.publishing import Files, ReleasePublisher, SourceTables
from decoder_service.releases.rows import ReleaseState
from decoder_service.results.rows import RELEASE_FILES, RESULT_FILES, load_results
from decoder_service.shell.database import visible_row
from decoder_service.shell.errors import ConflictError, QuotaError, RequestError, RoleError
from decoder_service.shell.models import ReleaseRow, ResultRow
from disclosure.release.files import MANIFEST

MAX_SOURCE_BYTES = 64 << 20  # of the files of all results of a release


@dataclass(frozen=True, slots=True)
class SourceState:
    """A result that a release is made of, as it is now.

    strata: what its reports were filtered by.  is_there: whether one may see it; otherwise it was
    deleted or given up.  superseded_by: a later decoder's result from the same inputs, if one may
    see it.
    """

    result: str
    strata: Mapping[str, str]
    is_there: bool
    superseded_by: str | None


@dataclass(frozen=True, slots=True)
class Before:
    """What a release is built on. earlier: files of the approved ones of its metrics.

    base: the last one of its name.  number, numbers: its place among those of its name, and of
    each of its metrics.
    """

    earlier: list[Files]
    base: str | None
    base_files: Files | None
    number: int
    numbers: dict[str, int]


def offered_results(db: Session, person: Person, limit: int) -> list[ResultRow]:
    """Results of one's own that a release can be made of, newest first."""
    which = (
        own_results(person) & ResultRow.kind.in_(_published()) & (ResultRow.operation == "decode")
    )
    return load_results(db, which, limit)


def load_sources(
    db: Session, person: Person, asked: Sequence[ReleaseSource]
) -> tuple[list[SourceTables], list[str]]:
    """The files of results that are one's own, and the metrics that they are of.

    Raises NotFoundError, RequestError, QuotaError.
    """
    published = _published()
    found, metrics, left = [], set[str](), MAX_SOURCE_BYTES
    if len({one.result for one in asked}) < len(asked):
        raise RequestError("a result stands there twice")
    for one in asked:
        row = visible_row(db, ResultRow, own_results(person), one.result)
        if row.kind not in published or row.operation != "decode":
            raise RequestError(
                f"result {one.result}: a {row.operation} of kind {row.kind} is not "
                f"released; a decode of kind {' or '.join(published)} is"
            )
        names = published[row.kind]
        listed = [file for file in RESULT_FILES.list(db, one.result) if file.name in names]
        left -= sum(file.size for file in listed)
        if left < 0:
            raise QuotaError(f"the results are larger than {MAX_SOURCE_BYTES:,} bytes together")
        files = {file.name: RESULT_FILES.read(db, one.result, file.name) or b""
                 for file in listed}  # fmt: skip
        found.append(SourceTables(one.result, files, one.strata))
        metrics.add(row.metric)
    return found, sorted(metrics)


def _published() -> dict[str, tuple[str, ...]]:
    """The files that a release is made of, by the kinds of metric that have such."""
    return {name: files for name in DECODERS if (files := decoder_of(name).published)}


def approved_before(db: Session, name: str, metrics: Sequence[str]) -> Before:
    """What the next release of `name`, of these metrics, is built on.

    The approved releases that share a metric with it, or with one that does, whatever their names:
    whatever was published stays known. Beside them the last one of the same name, and the numbers
    that the next release has, of its name and of each metric.
    """
    base, count = rows.last_approved(db, name)
    numbers = rows.approved_numbers(db, metrics)
    return Before(
        [files_of(db, one) for one in _chain_of(db, metrics)],
        base,
        None if base is None else files_of(db, base),
        count + 1,
        {metric: number + 1 for metric, number in numbers.items()},
    )


def _chain_of(db: Session, metrics: Sequence[str]) -> list[str]:
    """Approved releases that share a metric with these, or with one that does; oldest first."""
    known = set(metrics)
    while True:
        found = rows.approved_of(db, known)
        linked = known.union(*(rows.numbers_of(db, one) for one in found))
        if linked == known:
            return found
        known = linked


def files_of(db: Session, release_id: str) -> Files:
    """The stored files of a release; of one that is deleted no bytes."""
    names = [file.name for file in RELEASE_FILES.list(db, release_id)]
    return {name: RELEASE_FILES.read(db, release_id, name) or b"" for name in names}


def source_states(
    db: Session, person: Person, asked: Sequence[Mapping[str, Any]]
) -> list[SourceState]:
    """The results of a release, as its proposal names them, and what became of them since."""
    seen, found = visible_results(person), []
    for one in asked:
        there = load_results(db, seen & (ResultRow.id == one["result"]), 1)
        later = load_results(db, seen & (ResultRow.supersedes == one["result"]), 1)
        newer = later[0].id if later else None
        found.append(SourceState(one["result"], one["strata"], bool(there), newer))
    return found


def is_stale(db: Session, row: ReleaseRow) -> bool:
    """Whether another one was approved that a release was not built on."""
    _, count = rows.last_approved(db, row.name)
    own = rows.numbers_of(db, row.id)
    now = rows.approved_numbers(db, own)
    return row.number <= count or any(own[metric] <= now[metric] for metric in own)


ACTS = {
    ReleaseState.APPROVED: "approve",
    ReleaseState.REJECTED: "reject",
    ReleaseState.WITHDRAWN: "withdraw",
}


def sees_review(person: Person, row: ReleaseRow) -> bool:
    """Whether a person may see the difference, the results and the reason of a release."""
    return person.may(Act.REVIEW) or (person.may(Act.ANALYSE) and person.id == row.proposer)


def check_may_decide(person: Person, row: ReleaseRow, state: ReleaseState) -> None:
    """Raise RoleError if a person may not decide, ConflictError if the release is decided; the
    UPDATE checks it again."""
    mine = row.proposer == person.id
    if mine and state != ReleaseState.WITHDRAWN:
        raise RoleError("you proposed this release: another person approves or rejects it")
    if not mine and state == ReleaseState.WITHDRAWN:
        raise RoleError("another person proposed this release: only they withdraw it")
    if row.state != ReleaseState.PROPOSED:
        raise ConflictError(f"the release is {row.state} already", name=row.name)


def stale(row: ReleaseRow) -> ConflictError:
    """The error for a release that was not built on all that is approved now."""
    return ConflictError(
        "another release was approved after this one was built, and it was not checked against "
        "that one; reject it, and have it proposed again",
        name=row.name,
    )


def approval_of(db: Session, publisher: ReleasePublisher, row: ReleaseRow) -> Files:
    """The files that an approval adds to a release; the proposed files are unchanged.

    Raises ConflictError for a file that is another one now, or another key.
    """
    files = files_of(db, row.id)
    listed = RELEASE_FILES.list(db, row.id)
    _check_whole(row, files, {one.name: one.sha256 for one in listed})
    return signature_of(publisher, files[MANIFEST], row.name)


def _check_whole(row: ReleaseRow, files: Files, digests: Mapping[str, str]) -> None:
    """Check that what is approved is what was proposed, byte for byte, before it is signed.

    files: as they are stored.  digests: SHA-256 of each, as they were stored with the proposal.

    Raises ConflictError, naming the first file that is another.
    """
    named = _named(files.get(MANIFEST, b""))
    for name in sorted({*digests, *named}):
        known = {row.digest} if name == MANIFEST else {named.get(name), digests.get(name)}
        if {sha256(files.get(name, b"")).hexdigest()} != known:
            raise ConflictError(
                f"file {name!a} is not as it was proposed: the database was changed; reject the "
                "release, and have it proposed again",
                name=row.name,
            )


def _named(manifest: bytes) -> dict[str, str]:
    """SHA-256 of the files that a manifest names; none where it is no manifest."""
    try:
        named = json.loads(manifest)["files"]
        return {name: str(one["sha256"]) for name, one in named.items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def signature_of(publisher: ReleasePublisher, manifest: bytes, name: str) -> Files:
    """The files that signing adds to an approved release; none without a key.

    name: of the release. Raises ConflictError where the manifest names another key than the one
    that is here now: the signature would not be of the key that it promises.
    """
    named = str(json.loads(manifest).get("key", ""))
    if named != publisher.key_id:
        keys = named, publisher.key_id
        built, here = (f"key {one[:16]}" if one else "no key" for one in keys)
        raise ConflictError(
            f"the release was built for {built}, and this service signs with {here}; reject it, "
            "and have it proposed again",
            name=name,
        )
    return publisher.sign(manifest)
