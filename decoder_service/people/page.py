"""Pages for sign-in and sessions, and for admins: keys, identities and the audit log."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import StringConstraints
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from decoder_service.jobs.specs import StrictModel
from decoder_service.people.access import MAX_NAME, NewKey, shown_key
from decoder_service.people.oidc import BACK, PROXY, Provider, claimed_by_proxy
from decoder_service.people.permissions import Claimed, Role
from decoder_service.shell.database import shown
from decoder_service.shell.errors import NoGroupError, RoleError, ServiceError
from decoder_service.shell.requests import (
    Flag,
    GuardedRoute,
    Limit,
    Me,
    Service,
    check_origin,
    cookie_name,
    service_of,
    set_session,
    status_of,
    without_key,
)
from decoder_service.shell.web import Form, Visit, add_form, page_router, parsed, redirect, render
from rappor_server.errors import AuthenticationError, NotFoundError

api = APIRouter(tags=["sessions"], route_class=GuardedRoute)
admin = APIRouter(prefix="/v1", tags=["admin"], route_class=GuardedRoute)
pages = page_router()
MAX_AUDIT = 500
Text = Annotated[str, StringConstraints(max_length=MAX_NAME)]


@api.get("/v1/session", operation_id="getSession")
def get_session(person: Me) -> dict[str, Any]:
    """Return who is signed in."""
    return {"name": person.name, "role": person.role.value, "key_id": person.key_id}


@api.get("/v1/usage", operation_id="getUsage")
def get_usage(service: Service, person: Me) -> dict[str, Any]:
    """Return your stored bytes, your queued and running jobs, and the limits of your role."""
    return service.access.usage(person)


@pages.get("/")
@without_key
def home() -> Response:
    """Redirect to the metrics, the start page."""
    return redirect("/metrics")


@pages.get("/sign-in")
@without_key
async def form(request: Request, next: str = "", left: bool = False) -> Response:
    """Show the page that asks for a key, unless a trusted proxy names the person.

    `left` means that someone has just signed out here, but not from their provider or proxy."""
    provider, leave = service_of(request).provider, None
    try:
        claimed = claimed_by_proxy(request, service_of(request).settings)
    except (AuthenticationError, RoleError) as error:
        return await _refused(request, PROXY, error)
    if claimed is not None and not left:
        return await _entered(request, PROXY, claimed, next)
    if provider is not None and left:
        public = (service_of(request).settings.public_url or "").rstrip("/")
        leave = await provider.leave_url(f"{public}/sign-in")
    return _sign_in_page(request, local_address(next), leave=leave, again=claimed is not None)


@pages.post("/sign-in")
@without_key
def enter(request: Request, form: Form) -> Response:
    """Create a session, and redirect to the page that the person wanted."""
    there = local_address(form.text("next"))
    answer = redirect("/metrics")
    if there:
        answer.headers["location"] = there
    check_origin(request, may_be_missing=True)
    try:
        token = service_of(request).access.sign_in(form.text("key"))
    except AuthenticationError as error:
        return _sign_in_page(request, there, 401, problem=str(error))
    set_session(request, answer, token)
    return answer


@pages.post("/sign-out")
def leave(request: Request, person: Me, form: Form) -> Response:
    """End the session."""
    del form
    answer = redirect("/sign-in", left="" if person.key_id else "1")
    token = request.cookies.get(cookie_name(request))
    if token is not None:  # even for a request with a key, because the cookie is removed
        service_of(request).access.sign_out(person, token)
    set_session(request, answer, "", seconds=0)
    return answer


def _sign_in_page(request: Request, there: str, status: int = 200, **context: Any) -> Response:
    provider = service_of(request).provider
    host = "" if provider is None else provider.host
    return render(
        request, "sign_in.html.j2", None, status,
        **{"problem": "", "leave": None, "again": False} | context, next=there, provider=host,
    )  # fmt: skip


def local_address(address: str) -> str:
    """Return a URL path on this service, or "", so that a link cannot redirect to another site."""
    plain = address.isascii() and address.isprintable() and "\\" not in address
    return address if plain and address.startswith("/") and not address.startswith("//") else ""


@pages.get("/sign-in/provider")
@without_key
async def begin(request: Request, next: str = "") -> Response:
    """Redirect the browser to the provider, with a cookie that is required on its return."""
    answer = redirect("/sign-in")
    answer.headers["location"] = await _provider(request).begin(request, local_address(next))
    answer.headers["referrer-policy"] = "no-referrer"
    return answer


@pages.get(BACK)
@without_key
async def back(request: Request) -> Response:
    """Create a session for a person who returns from the provider."""
    provider = _provider(request)
    try:
        claimed, there = await provider.finish(request)
    except (AuthenticationError, RoleError) as error:
        return await _refused(request, provider.issuer, error)
    return await _entered(request, provider.issuer, claimed, there)


async def _refused(request: Request, issuer: str, error: ServiceError) -> Response:
    if isinstance(error, NoGroupError):
        await run_in_threadpool(service_of(request).access.forget_role, issuer, error.subject)
    return _sign_in_page(request, "", status_of(error), problem=str(error))


async def _entered(request: Request, issuer: str, claimed: Claimed, there: str) -> Response:
    """Create a session for a person whom a provider or proxy names.

    The page itself redirects: an HTTP redirect would belong to the provider's navigation, for which
    a browser does not send the session's strict cookie."""
    access = service_of(request).access
    try:
        person, token = await run_in_threadpool(access.sign_in_claimed, issuer, claimed)
    except AuthenticationError as error:
        return await _refused(request, issuer, error)
    answer = render(request, "signed_in.html.j2", person, there=local_address(there) or "/metrics")
    set_session(request, answer, token)
    return answer


def _provider(request: Request) -> Provider:
    provider = service_of(request).provider
    if provider is None:
        raise NotFoundError("no identity provider is set up here; sign in with a key")
    return provider


class NewKeySpec(StrictModel):
    """A key for a person, who is created with the first key."""

    name: Text
    role: Role
    label: Text = ""


@admin.get("/keys", operation_id="listKeys")
def list_keys(service: Service, person: Me) -> dict[str, Any]:
    """List all keys, without their secrets."""
    return {"keys": [shown_key(row) for row in service.access.list_keys(person)]}


@admin.post("/keys", operation_id="createKey", status_code=201)
def create_key(service: Service, person: Me, body: NewKeySpec) -> dict[str, Any]:
    """Create a key; only this response contains it."""
    key = service.access.create_key(person, body.name, body.role, body.label)
    return {"key_id": key.key_id, "name": key.name, "role": key.role, "key": key.text}


@admin.post("/keys/{key_id}/revoke", operation_id="revokeKey")
def revoke_key(service: Service, person: Me, key_id: str) -> dict[str, Any]:
    """Revoke a key and end its sessions."""
    service.access.revoke_key(person, key_id)
    return {"revoked": key_id}


@admin.get("/identities", operation_id="listIdentities")
def list_identities(service: Service, person: Me) -> dict[str, Any]:
    """List the people who sign in through the identity provider."""
    names = "issuer subject person_id role created seen revoked"
    rows = service.access.list_identities(person)
    return {"identities": [shown(row, names) | {"name": row.person.name} for row in rows]}


@admin.post("/identities/{person_id}/keep-out", operation_id="keepOut")
def keep_out(service: Service, person: Me, person_id: str, out: Flag) -> dict[str, Any]:
    """Block a person from the identity provider and end their sessions, or unblock the person."""
    service.access.keep_out(person, person_id, out)
    return {"person_id": person_id, "out": out}


@admin.get("/audit", operation_id="readAudit")
def read_audit(
    service: Service, person: Me, limit: Annotated[Limit, Query()] = 100
) -> dict[str, Any]:
    """List users' most recent actions, newest first."""
    rows = service.access.read_audit(person, limit)
    return {
        "entries": [
            shown(row, "at actor key_id act") | {"detail": json.loads(row.detail)} for row in rows
        ]
    }


@pages.get("/keys")
def keys(visit: Visit) -> Response:
    """Show the page of all keys, without their secrets."""
    return _shown(visit)


@pages.post("/keys")
def create(visit: Visit, form: Form) -> Response:
    """Create a key; only this page shows its text."""
    spec = parsed(NewKeySpec, {name: form.text(name) for name in NewKeySpec.model_fields})
    access = visit.service.access
    return _shown(visit, access.create_key(visit.person, spec.name, spec.role, spec.label))


add_form(
    pages,
    "/keys/{key_id}/revoke",
    revoke_key,
    back="/keys",
    sure="Revoke: a revoked key is never valid again",
)
add_form(pages, "/keys/people/{person_id}", keep_out, back="/keys")


def _shown(visit: Visit, key: NewKey | None = None) -> Response:
    access = visit.service.access
    return visit.render(
        "keys.html.j2",
        200 if key is None else 201,
        rows=access.list_keys(visit.person),
        identities=access.list_identities(visit.person),
        roles=list(Role),
        made=key,
    )


@pages.get("/audit")
def audit(visit: Visit) -> Response:
    """Show users' most recent actions, newest first."""
    rows = [
        (row, ", ".join(f"{name} {value}" for name, value in json.loads(row.detail).items()))
        for row in visit.service.access.read_audit(visit.person, MAX_AUDIT)
    ]
    return visit.render("audit.html.j2", rows=rows, most=MAX_AUDIT)
