"""Releases, which one person proposes from results and a second person approves for all to see."""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import Any

from sqlalchemy import insert, select, true
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from decoder_service.jobs.specs import NewRelease
from decoder_service.people.access import Resources
from decoder_service.people.permissions import Act, Person, own_results, require, visible_releases
from decoder_service.releases.sources import (
    ACTS,
    Changes,
    Files,
    ReleasePublisher,
    approval_of,
    approved_before,
    approved_numbers,
    decide,
    held_by,
    is_stale,
    last_approved,
    load_sources,
    published_files,
    sees_review,
    source_states,
    stale,
)
from decoder_service.results.rules import RELEASE_FILES, load_results
from decoder_service.shell.database import save, visible_row
from decoder_service.shell.errors import QuotaError, RoleError, UnavailableError
from decoder_service.shell.models import ReleaseRow, ReleaseState, ResultRow, release_metrics
from disclosure.release.files import MANIFEST, SIGNATURE
from rappor_core.text import visible
from rappor_server.errors import ConflictError, NotFoundError, RequestError

MAX_WAITING = 20  # Proposals per person
_MAX_POLICY_WORDS = 500
_DESCRIPTION = "datapackage.json"  # The file that explains columns and symbols


@dataclass(frozen=True, slots=True)
class ReleaseView:
    """A release as one person may see it."""

    row: ReleaseRow
    review: bool  # Whether the person sees how the release was made
    files: Sequence[Any]
    stale: bool  # Whether it is proposed, but a related release was approved meanwhile
    sources: list[dict[str, Any]]  # The present state of its results
    proposer_holds: bool  # Whether the proposer still has access

    @property
    def signed(self) -> bool:
        """Return whether the service's key signed the release when it was approved."""
        return any(file.name == SIGNATURE for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases(Resources[ReleaseRow]):
    """The operations on releases, each of which checks the person's role and access."""

    model = ReleaseRow
    visible = visible_releases
    act = Act.READ
    order = (ReleaseRow.created.desc(), ReleaseRow.id)
    publisher: ReleasePublisher
    building: Lock = field(default_factory=Lock)  # One build at a time, to save memory

    def view(self, person: Person, release_id: str) -> ReleaseView:
        """Return a release with its files and, for reviewers and the proposer, its review state.

        Raises the errors of `get`."""
        require(person, Act.READ)
        with self.database.reading() as db:
            row = self.one(db, person, release_id)
            review = sees_review(person, row)
            return ReleaseView(
                row=row,
                review=review,
                files=RELEASE_FILES.list(db, release_id),
                stale=row.state == ReleaseState.PROPOSED and is_stale(db, row),
                sources=source_states(db, person, json.loads(row.sources)) if review else [],
                proposer_holds=self.access.person_of_id(db, row.proposer) is not None,
            )

    def file(self, person: Person, release_id: str, name: str) -> bytes:
        """Return the bytes of a file, and audit the read. Raises the errors of `get`."""
        row = self.get(person, release_id)
        with self.database.writing() as db:
            content = RELEASE_FILES.read(db, release_id, name)
            if content is None and row.stored == 0:
                raise NotFoundError(
                    f"the files of release {release_id} are deleted; propose the release again"
                )
            if content is None:
                raise NotFoundError(
                    f"release {release_id} has no file {name[:70]!a}; "
                    f"GET /v1/releases/{release_id} names them"
                )
            self.access.note(db, person, "read-release", release=release_id, file=name)
        return content

    def difference(self, person: Person, release_id: str) -> Changes:
        """Return the changes from the last approved release of the same name.

        Only the proposer and reviewers may see them. Raises the errors of `get`."""
        row = self.get(person, release_id)
        if not sees_review(person, row):
            raise NotFoundError(
                f"there is no difference for release {release_id[:40]!a} that you may see; "
                "only its proposer and admins see it"
            )
        with self.database.reading() as db:
            stored = select(ReleaseRow.difference).where(ReleaseRow.id == release_id)
            content = json.loads(zlib.decompress(db.execute(stored).scalar_one()))
            description = RELEASE_FILES.read(db, release_id, _DESCRIPTION)
        symbols = json.loads(description).get("symbols", {}) if description else {}  # or withdrawn
        policy = {name: (old, new) for name, (old, new) in content["policy"].items()}
        return Changes(policy, content["changes"], symbols)

    def offered(self, person: Person, limit: int = 200) -> list[ResultRow]:
        """Return a person's own results that can be released, newest first. Raises RoleError."""
        require(person, Act.ANALYZE)
        published = ResultRow.kind.in_(published_files()) & (ResultRow.operation == "decode")
        with self.database.reading() as db:
            return load_results(db, own_results(person) & published, limit)

    def propose(self, person: Person, spec: NewRelease) -> ReleaseRow:
        """Build a release from a person's own results, for a second person to approve.

        Args:
            person: An analyst or an admin.
            spec: The name, the policy and the results of the release.

        Returns:
            The proposed release.

        Raises:
            RoleError: The person may not propose releases.
            QuotaError: The person has too many proposals, or stores too many bytes.
            RequestError: The policy or a result is unreadable, or the policy does not allow a
                result.
            NotFoundError: A result is not the person's own.
            UnavailableError: Another release is being built.
        """
        require(person, Act.ANALYZE)
        if not self.building.acquire(blocking=False):
            raise UnavailableError("another release is being built; try again in a moment")
        try:
            return self._propose(person, spec)
        finally:
            self.building.release()

    def _propose(self, person: Person, spec: NewRelease) -> ReleaseRow:
        with self.database.reading() as db:
            self._check_room(db, person, 0)
            sources, metrics = load_sources(db, person, spec.sources)
            earlier, numbers = approved_before(db, metrics), approved_numbers(db, metrics)
            base, count = last_approved(db, spec.name)
            base_files = None if base is None else RELEASE_FILES.all(db, base)
        issued = self.clock().date()
        files, policy = self.publisher.build(sources, spec.policy, issued, earlier)
        changes = self.publisher.compare(base_files, files)
        content = {"policy": dict(changes.policy), "changes": list(changes.rows)}
        text = json.dumps(content).encode()
        size = sum(map(len, files.values())) + len(text)
        most = self.settings.max_result_bytes
        if size > most:
            raise QuotaError(f"the release would have {size:,} bytes, above {most:,}")
        row = ReleaseRow(
            id=self.new_id(),
            name=spec.name,
            number=count + 1,
            state=ReleaseState.PROPOSED,
            proposer=person.id,
            owner=visible(policy.owner)[:_MAX_POLICY_WORDS],
            audience=visible(policy.audience)[:_MAX_POLICY_WORDS],
            issued=issued.isoformat(),
            digest=sha256(files[MANIFEST]).hexdigest(),
            policy=spec.policy,
            sources=json.dumps([source.model_dump(mode="json") for source in spec.sources]),
            note=spec.note,
            base=base,
            changes=len(changes.rows),
            difference=zlib.compress(text),
            created=self.now(),
        )
        with self.database.writing() as db:
            self._check_room(db, person, size)
            save(db, row)
            row.stored = RELEASE_FILES.save(db, row.id, files) + len(row.difference)
            for metric, number in numbers.items():
                place = {"release_id": row.id, "metric": metric, "number": number + 1}
                db.execute(insert(release_metrics).values(approved=False, **place))
            results = [source.result for source in spec.sources]
            detail = {"release": row.id, "name": row.name, "results": results}
            self.access.note(db, person, "propose-release", **detail, digest=row.digest)
            return visible_row(db, ReleaseRow, true(), row.id)

    def decide(
        self, person: Person, release_id: str, state: ReleaseState, reason: str
    ) -> ReleaseRow:
        """Approve, reject or withdraw a proposed release.

        A person approves or rejects another person's proposal, and withdraws only their own
        proposals, whose files are deleted. Raises RoleError, NotFoundError, RequestError if a
        reason is missing, or ConflictError if the release is already decided or another release was
        approved after it was built."""
        require(person, Act.ANALYZE if state is ReleaseState.WITHDRAWN else Act.REVIEW)
        if not reason and state is not ReleaseState.WITHDRAWN:
            raise RequestError("reason '': give a reason, for the proposer and the audit log")
        with self.database.writing() as db:
            self.access.check_holds(db, person)
            row = self.one(db, person, release_id)
            mine, withdraws = row.proposer == person.id, state == ReleaseState.WITHDRAWN
            if mine and not withdraws:
                raise RoleError("you proposed this release: another person approves or rejects it")
            if withdraws and not mine:
                raise RoleError("another person proposed this release: only they can withdraw it")
            if row.state != ReleaseState.PROPOSED:
                raise ConflictError(f"the release is already {row.state}", name=row.name)
            signature: Files = {}
            if state == ReleaseState.APPROVED:
                signature = approval_of(db, self.publisher, row)
            at = self.now()
            try:
                is_done = decide(db, release_id, state, person.id, reason, at)
            except IntegrityError as error:  # another release was approved after this one was built
                raise stale(row) from error
            if not is_done:
                raise ConflictError("another person has just decided it", name=row.name)
            row.stored += RELEASE_FILES.save(db, release_id, signature)
            detail = {"release": release_id, "reason": reason, "digest": row.digest}
            self.access.note(db, person, f"{ACTS[state]}-release", **detail)
            return visible_row(db, ReleaseRow, true(), release_id)

    def _check_room(self, db: Session, person: Person, size: int) -> None:
        waiting, stored = held_by(db, person.id)
        if waiting >= MAX_WAITING:
            raise QuotaError(f"{waiting} of your releases are waiting for approval; withdraw one")
        most = self.settings.max_stored_bytes_of_person
        if stored + size > most:
            raise QuotaError(
                f"your releases that are not approved would take {stored + size:,} bytes, above "
                f"{most:,}; withdraw one (files of rejected ones are deleted "
                "after keep_rejected_days)"
            )
