"""Releases: proposed from results, approved by a second person, then seen by all."""

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

MAX_WAITING = 20  # of a person
_MAX_POLICY_WORDS = 500
_DESCRIPTION = "datapackage.json"  # the file that says what columns and symbols mean


@dataclass(frozen=True, slots=True)
class ReleaseView:
    """A release as one person sees it. review: whether they see how it came to be.  stale: whether
    a release was approved that this proposal was not built on.  sources: what became of its
    results.  proposer_holds: whether the proposer has a valid key, or signed in lately."""

    row: ReleaseRow
    review: bool
    files: Sequence[Any]
    stale: bool
    sources: list[dict[str, Any]]
    proposer_holds: bool

    @property
    def signed(self) -> bool:
        """Whether the service's key signed it, when it was approved."""
        return any(file.name == SIGNATURE for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases(Resources[ReleaseRow]):
    """Operations on releases. Each checks the person's role, and shows only what the person may
    see."""

    model = ReleaseRow
    visible = visible_releases
    act = Act.READ
    order = (ReleaseRow.created.desc(), ReleaseRow.id)
    publisher: ReleasePublisher
    building: Lock = field(default_factory=Lock)  # one at a time: it takes seconds and memory

    def view(self, person: Person, release_id: str) -> ReleaseView:
        """Return a release with its files and, for those who see the review, what became of it
        since. Raises as `get`."""
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
        """Return the bytes of a file; the read is audited. Raises as `get`."""
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
        """Return the difference between a release and the last approved one of its name. Raises as
        `get`; it is for the proposer and for who approves."""
        row = self.get(person, release_id)
        if not sees_review(person, row):
            raise NotFoundError(
                f"there is no difference of release {release_id[:40]!a} for you; "
                "who proposed it sees it, and admins"
            )
        with self.database.reading() as db:
            stored = select(ReleaseRow.difference).where(ReleaseRow.id == release_id)
            content = json.loads(zlib.decompress(db.execute(stored).scalar_one()))
            description = RELEASE_FILES.read(db, release_id, _DESCRIPTION)
        symbols = json.loads(description).get("symbols", {}) if description else {}  # or withdrawn
        policy = {name: (old, new) for name, (old, new) in content["policy"].items()}
        return Changes(policy, content["changes"], symbols)

    def offered(self, person: Person, limit: int = 200) -> list[ResultRow]:
        """A person's own results of which a release can be made, newest first. Raises RoleError."""
        require(person, Act.ANALYZE)
        published = ResultRow.kind.in_(published_files()) & (ResultRow.operation == "decode")
        with self.database.reading() as db:
            return load_results(db, own_results(person) & published, limit)

    def propose(self, person: Person, spec: NewRelease) -> ReleaseRow:
        """Build a release from results of one's own, for another person to approve.

        Args:
            person: an analyst or an admin.
            spec: its name, policy and results.

        Returns:
            The release, proposed.

        Raises:
            RoleError, QuotaError.
            RequestError: what cannot be read, or what the policy does not allow.
            NotFoundError: a result that is not one's own.
            UnavailableError: another one is being built.
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
        """Approve or reject what another person proposed, or withdraw one's own proposal, whose
        files are deleted.

        Raises RoleError, NotFoundError, RequestError without a reason, and ConflictError where it
        is settled, or another release was approved that it was not built on.
        """
        require(person, Act.ANALYZE if state is ReleaseState.WITHDRAWN else Act.REVIEW)
        if not reason and state is not ReleaseState.WITHDRAWN:
            raise RequestError("reason '': say why, for the proposer and the audit log")
        with self.database.writing() as db:
            self.access.check_holds(db, person)
            row = self.one(db, person, release_id)
            mine, withdraws = row.proposer == person.id, state == ReleaseState.WITHDRAWN
            if mine and not withdraws:
                raise RoleError("you proposed this release: another person approves or rejects it")
            if withdraws and not mine:
                raise RoleError("another person proposed this release: only they withdraw it")
            if row.state != ReleaseState.PROPOSED:
                raise ConflictError(f"the release is {row.state} already", name=row.name)
            signature: Files = {}
            if state == ReleaseState.APPROVED:
                signature = approval_of(db, self.publisher, row)
            at = self.now()
            try:
                is_done = decide(db, release_id, state, person.id, reason, at)
            except IntegrityError as error:  # another one was approved since it was built
                raise stale(row) from error
            if not is_done:
                raise ConflictError("somebody settled it just now", name=row.name)
            row.stored += RELEASE_FILES.save(db, release_id, signature)
            detail = {"release": release_id, "reason": reason, "digest": row.digest}
            self.access.note(db, person, f"{ACTS[state]}-release", **detail)
            return visible_row(db, ReleaseRow, true(), release_id)

    def _check_room(self, db: Session, person: Person, size: int) -> None:
        waiting, stored = held_by(db, person.id)
        if waiting >= MAX_WAITING:
            raise QuotaError(f"{waiting} releases of yours wait to be approved; withdraw one")
        most = self.settings.max_stored_bytes_of_person
        if stored + size > most:
            raise QuotaError(
                f"your releases that are not approved would hold {stored + size:,} bytes, above "
                f"{most:,}; withdraw one (files of rejected ones are deleted "
                "after keep_rejected_days)"
            )
