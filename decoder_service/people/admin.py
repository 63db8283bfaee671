"""Keys, identities and the audit log, for admins: the API and the pages."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import StringConstraints
from starlette.responses import Response

from decoder_service.jobs.specs import StrictModel
from decoder_service.people.access import NewKey, shown_key
from decoder_service.people.permissions import Role
from decoder_service.shell.errors import RequestError
from decoder_service.shell.operations import shown
from decoder_service.shell.requests import GuardedRoute, Limit, Me, Service
from decoder_service.shell.web import Form, Visit, check_sure, page_router, redirect

api = APIRouter(prefix="/v1", tags=["admin"], route_class=GuardedRoute)
pages = page_router()
MOST_AUDIT = 500
Name = Annotated[str, StringConstraints(max_length=200)]


class NewKeySpec(StrictModel):
    """A key of a person, who is made with the first one."""

    name: Name
    role: Role
    label: Name = ""


class KeepOut(StrictModel):
    """Whether a person may not sign in."""

    out: bool


@api.get("/keys", operation_id="listKeys")
def list_keys(service: Service, person: Me) -> dict[str, Any]:
    """All keys, without their secrets."""
    return {"keys": [shown_key(row) for row in service.access.list_keys(person)]}


@api.post("/keys", operation_id="createKey", status_code=201)
def create_key(service: Service, person: Me, body: NewKeySpec) -> dict[str, Any]:
    """Make a key; only this answer shows it whole."""
    made = service.access.create_key(person, body.name, body.role, body.label)
    return {"key_id": made.key_id, "name": made.name, "role": made.role, "key": made.text}


@api.post("/keys/{key_id}/revoke", operation_id="revokeKey")
def revoke_key(service: Service, person: Me, key_id: str) -> dict[str, Any]:
    """Make a key worthless, and end its sessions."""
    service.access.revoke_key(person, key_id)
    return {"revoked": key_id}


@api.get("/identities", operation_id="listIdentities")
def list_identities(service: Service, person: Me) -> dict[str, Any]:
    """Who signs in through the identity provider."""
    names = "issuer subject person_id role created seen revoked"
    rows = service.access.list_identities(person)
    return {"identities": [shown(row, names) | {"name": row.person.name} for row in rows]}


@api.post("/identities/{person_id}/keep-out", operation_id="keepOut")
def keep_out(service: Service, person: Me, person_id: str, body: KeepOut) -> dict[str, Any]:
    """Keep a person of the identity provider out and end their sessions, or let them in again."""
    service.access.keep_out(person, person_id, body.out)
    return {"person_id": person_id, "out": body.out}


@api.get("/audit", operation_id="readAudit")
def read_audit(
    service: Service, person: Me, limit: Annotated[Limit, Query()] = 100
) -> dict[str, Any]:
    """The latest acts of people, newest first."""
    rows = service.access.read_audit(person, limit)
    return {
        "entries": [
            shown(row, "at actor key_id act") | {"detail": json.loads(row.detail)} for row in rows
        ]
    }


@pages.get("/keys")
def keys(visit: Visit) -> Response:
    """The page of all keys, without their secrets."""
    return _shown(visit)


@pages.post("/keys")
def create(visit: Visit, form: Form) -> Response:
    """Make a key; only this page shows its text."""
    role = form.text("role")
    if role not in set(Role):
        raise RequestError(f"role {role[:20]!a} is not one of {', '.join(Role)}")
    access = visit.service.access
    made = access.create_key(visit.person, form.text("name"), Role(role), form.text("label"))
    return _shown(visit, made)


@pages.post("/keys/{key_id}/revoke")
def revoke(service: Service, person: Me, key_id: str, form: Form) -> Response:
    """Revoke a key."""
    check_sure(form, "Revoke: a revoked key never holds again")
    service.access.revoke_key(person, key_id)
    return redirect("/keys")


@pages.post("/keys/people/{person_id}")
def bar(service: Service, person: Me, person_id: str, form: Form) -> Response:
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


@pages.get("/audit")
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
