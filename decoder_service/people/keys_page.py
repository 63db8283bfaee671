"""The pages of keys and of the audit log, for admins."""

from __future__ import annotations

import json

from starlette.responses import Response

from decoder_service.people.access import NewKey
from decoder_service.people.permissions import Role
from decoder_service.shell.errors import RequestError
from decoder_service.shell.requests import Me, Service
from decoder_service.shell.web import Form, Visit, redirect
from decoder_service.shell.web import router as new_router

MOST_AUDIT = 500
router = new_router()


@router.get("/keys")
def keys(visit: Visit) -> Response:
    """The page of all keys, without their secrets."""
    return _shown(visit)


@router.post("/keys")
def create(visit: Visit, form: Form) -> Response:
    """Make a key; only this page shows its text."""
    role = form.text("role")
    if role not in set(Role):
        raise RequestError(f"role {role[:20]!a} is not one of {', '.join(Role)}")
    access = visit.service.access
    made = access.create_key(visit.person, form.text("name"), Role(role), form.text("label"))
    return _shown(visit, made)


@router.post("/keys/{key_id}/revoke")
def revoke(service: Service, person: Me, key_id: str, form: Form) -> Response:
    """Revoke a key."""
    if not form.text("sure"):
        raise RequestError("tick the box beside Revoke: a revoked key never holds again")
    service.access.revoke_key(person, key_id)
    return redirect("/keys")


@router.post("/keys/people/{person_id}")
def keep_out(service: Service, person: Me, person_id: str, form: Form) -> Response:
    """Keep a person of the identity provider out, or let them in again."""
    service.access.keep_out(person, person_id, bool(form.text("out")))
    return redirect("/keys")


def _shown(visit: Visit, made: NewKey | None = None) -> Response:
    access = visit.service.access
    return visit.render(
        "keys.html.j2",
        200 if made is None else 201,
        rows=access.list_keys(visit.person),
        identities=access.list_identities(visit.person),
        roles=list(Role),
        made=made,
    )


@router.get("/audit")
def audit(visit: Visit, q: str = "") -> Response:
    """The latest acts of people, newest first."""
    rows = visit.service.access.read_audit(visit.person, MOST_AUDIT)
    shown = [
        (row, ", ".join(f"{name} {value}" for name, value in json.loads(row.detail).items()))
        for row in rows
    ]
    wanted = q.casefold()
    found = [(row, text) for row, text in shown
             if wanted in f"{row.actor} {row.act} {text}".casefold()]  # fmt: skip
    return visit.render("audit.html.j2", rows=found, q=q, most=MOST_AUDIT)
