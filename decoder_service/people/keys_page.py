"""The pages of keys and of the audit log, for admins."""

from __future__ import annotations

import json

from fastapi import Request
from starlette.responses import Response

from decoder_service.people.access import NewKey
from decoder_service.people.permissions import Person, Role
from decoder_service.shell.errors import RequestError
from decoder_service.shell.requests import service_of
from decoder_service.shell.web import Form, Reader, redirect, render
from decoder_service.shell.web import router as new_router

MOST_AUDIT = 500
router = new_router()


@router.get("/keys")
def keys(request: Request, person: Reader) -> Response:
    """The page of all keys, without their secrets."""
    return _shown(request, person)


@router.post("/keys")
def create(request: Request, person: Reader, form: Form) -> Response:
    """Make a key; only this page shows its text."""
    role = form.text("role")
    if role not in set(Role):
        raise RequestError(f"role {role[:20]!a} is not one of {', '.join(Role)}")
    access = service_of(request).access
    made = access.create_key(person, form.text("name"), Role(role), form.text("label"))
    return _shown(request, person, made)


@router.post("/keys/{key_id}/revoke")
def revoke(request: Request, person: Reader, key_id: str, form: Form) -> Response:
    """Revoke a key."""
    if not form.text("sure"):
        raise RequestError("tick the box beside Revoke: a revoked key never holds again")
    service_of(request).access.revoke_key(person, key_id)
    return redirect("/keys")


@router.post("/keys/people/{person_id}")
def keep_out(request: Request, person: Reader, person_id: str, form: Form) -> Response:
    """Keep a person of the identity provider out, or let them in again."""
    service_of(request).access.keep_out(person, person_id, bool(form.text("out")))
    return redirect("/keys")


def _shown(request: Request, person: Person, made: NewKey | None = None) -> Response:
    access = service_of(request).access
    return render(
        request,
        "keys.html.j2",
        person,
        200 if made is None else 201,
        rows=access.list_keys(person),
        identities=access.list_identities(person),
        roles=list(Role),
        made=made,
    )


@router.get("/audit")
def audit(request: Request, person: Reader, q: str = "") -> Response:
    """The latest acts of people, newest first."""
    rows = service_of(request).access.read_audit(person, MOST_AUDIT)
    shown = [
        (row, ", ".join(f"{name} {value}" for name, value in json.loads(row.detail).items()))
        for row in rows
    ]
    wanted = q.casefold()
    found = [(row, text) for row, text in shown
             if wanted in f"{row.actor} {row.act} {text}".casefold()]  # fmt: skip
    return render(request, "audit.html.j2", person, rows=found, q=q, most=MOST_AUDIT)
