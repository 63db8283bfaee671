"""Rules for decisions about a release, and the files that an approval adds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from sqlalchemy.orm import Session

from decoder_service.people.permissions import Act, Person
from decoder_service.releases.publishing import Files, ReleasePublisher
from decoder_service.releases.rows import ReleaseState
from decoder_service.releases.sources import files_of
from decoder_service.results.files import RELEASE_FILES
from decoder_service.shell.errors import ConflictError, RoleError
from decoder_service.shell.models import ReleaseRow
from disclosure.release.files import MANIFEST

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
