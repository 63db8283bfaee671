"""Releases: propose, look at the difference, approve or reject, download."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import Response

from decoder_service.jobs.api import Limit, Offset
from decoder_service.jobs.specs import NewRelease, Note, StrictModel
from decoder_service.people.permissions import Person
from decoder_service.releases.rows import ReleaseState
from decoder_service.releases.sources import sees_review
from decoder_service.results.api import FILE_POLICY
from decoder_service.results.rules import media_type
from decoder_service.shell.clock import text_of
from decoder_service.shell.guard import GuardedRoute
from decoder_service.shell.models import ReleaseRow
from decoder_service.shell.requests import Me, Service

router = APIRouter(prefix="/v1/releases", tags=["releases"], route_class=GuardedRoute)


class ReleaseDecision(StrictModel):
    """Why a release is approved or rejected."""

    reason: Note


class ReleaseWithdrawal(StrictModel):
    """Why a release is withdrawn, if anything is to be said."""

    reason: Note = ""


@router.get("", operation_id="listReleases")
def list_releases(
    service: Service,
    person: Me,
    state: ReleaseState | None = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Releases that you may see, newest first: approved ones, your own, all of who approves."""
    found = service.releases.all(person, state=state, limit=limit, offset=offset)
    return {"releases": [shown_release(row, person) for row in found]}


@router.post("", operation_id="proposeRelease", status_code=201)
def propose(service: Service, person: Me, body: NewRelease) -> dict[str, Any]:
    """Build a release from results of yours, for another person to approve."""
    return shown_release(service.releases.propose(person, body), person)


@router.get("/{release_id}", operation_id="getRelease")
def get_release(service: Service, person: Me, release_id: str) -> dict[str, Any]:
    """A release and its files. signed: by the service's key, when it was approved.

    For who proposed or may approve it: what became of its results (`sources`), and whether the
    proposer still has a key (`proposer_holds`).
    """
    view = service.releases.view(person, release_id)
    shown = shown_release(view.row, person, view.stale)
    if view.review:
        shown["sources"] = [asdict(one) for one in view.sources]
        shown["proposer_holds"] = view.proposer_holds
    return shown | {"files": [asdict(file) for file in view.files], "signed": view.signed}


@router.get("/{release_id}/difference", operation_id="getReleaseDifference")
def get_difference(service: Service, person: Me, release_id: str) -> dict[str, Any]:
    """How it differs from the last release of its name that was approved."""
    found = service.releases.difference(person, release_id)
    return {"policy": found.policy, "changes": found.rows}


@router.get("/{release_id}/files/{name}", operation_id="getReleaseFile")
def get_file(
    service: Service, person: Me, release_id: str, name: Annotated[str, Path(max_length=64)]
) -> Response:
    """A file of a release, the bytes that its manifest names."""
    content = service.releases.file(person, release_id, name)
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": FILE_POLICY,
    }
    return Response(content, media_type=media_type(name), headers=headers)


@router.post("/{release_id}/approve", operation_id="approveRelease")
def approve(service: Service, person: Me, release_id: str, body: ReleaseDecision) -> dict[str, Any]:
    """Publish what another person proposed; it is settled for good."""
    decide = service.releases.decide
    row = decide(person, release_id, ReleaseState.APPROVED, body.reason)
    return shown_release(row, person)


@router.post("/{release_id}/reject", operation_id="rejectRelease")
def reject(service: Service, person: Me, release_id: str, body: ReleaseDecision) -> dict[str, Any]:
    """Refuse what another person proposed; it is settled for good."""
    decide = service.releases.decide
    row = decide(person, release_id, ReleaseState.REJECTED, body.reason)
    return shown_release(row, person)


@router.post("/{release_id}/withdraw", operation_id="withdrawRelease")
def withdraw(
    service: Service, person: Me, release_id: str, body: ReleaseWithdrawal
) -> dict[str, Any]:
    """Take back what you proposed, before it is settled; its files are deleted."""
    decide = service.releases.decide
    row = decide(person, release_id, ReleaseState.WITHDRAWN, body.reason)
    return shown_release(row, person)


def shown_release(row: ReleaseRow, person: Person, stale: bool = False) -> dict[str, Any]:
    """A release as it may be listed; how it came to be, for who proposed or may approve it."""
    public = ("id", "name", "number", "state", "owner", "audience", "issued", "digest")
    shown: dict[str, Any] = {name: getattr(row, name) for name in public}
    shown["created"] = text_of(row.created)
    shown["decided"] = None if row.decided is None else text_of(row.decided)
    if not sees_review(person, row):
        return shown
    review = ("note", "reason", "changes", "base", "policy")
    return {
        **shown,
        **{name: getattr(row, name) for name in review},
        "sources": json.loads(row.sources),
        "stale": stale,
        "proposer": row.proposed_by.name,
        "reviewer": None if row.decided_by is None else row.decided_by.name,
    }
