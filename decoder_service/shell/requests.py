"""The service, the sender and the browser session of a request, for routes and pages.

A session is a cookie that scripts cannot read (HttpOnly), that other sites do not send
(SameSite=Strict), and that is sent only over https if the service is on https. A write with a
session must come from the service's own pages: its `Origin` is compared."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar, cast

from fastapi import APIRouter, Body, Depends, FastAPI, Query, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import AnyHttpUrl, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from decoder.errors import DecodeError, RemoteError
from decoder_service.people.permissions import Act, Person, require
from decoder_service.shell import errors
from decoder_service.shell.errors import OriginError
from decoder_service.shell.service import DecoderService
from rappor_core.errors import AggregateError, WireFormatError
from rappor_server.errors import AuthenticationError, ConflictError, DiskFullError, SettingsError
from rappor_server.problems import SHARED_RULES, ProblemRule, rule_of
from rappor_server.request_bounds import BodyBounds

COOKIE = "rappor_decoder_session"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_BODY_BYTES = 16 << 10  # Limit for a route that needs no key
_KEY = Depends(HTTPBearer(scheme_name="key", auto_error=False))  # Only for the OpenAPI document
UPLOADS = 2  # Files received or read concurrently; other senders wait
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Limit = Annotated[int, Query(ge=1, le=1000)]
Flag = Annotated[bool, Body(embed=True)]  # The only member of a body
Offset = Annotated[int, Query(ge=0, le=10**9)]
DISK_FULL = (
    "the disk of the service's database is full: nothing can be changed or deleted, nor read if "
    "the read is audited; an operator frees space (moves backups away, or enlarges the disk), and "
    "then unneeded data can be deleted"
)
_CONFLICT = "something was changed at the same time; look at it and try again"
RULES = (
    ProblemRule(errors.QuotaError, 429, "quota"),
    ProblemRule(errors.RoleError, 403, "wrong-role"),
    ProblemRule(errors.OriginError, 403, "wrong-origin"),
    ProblemRule(ConflictError, 409, "conflict", _CONFLICT),
    ProblemRule(errors.UnavailableError, 503, "unavailable"),
    ProblemRule(DiskFullError, 503, "storage-unavailable", DISK_FULL),
    ProblemRule(RemoteError, 503, "collector-unavailable"),
    ProblemRule(WireFormatError, 422, "bad-aggregate"),
    ProblemRule(AggregateError, 422, "bad-aggregate"),
    ProblemRule(DecodeError, 422, "bad-request"),
    *SHARED_RULES,
)


def service_of(request: Request) -> DecoderService:
    """Return the operations of the app that received this request."""
    return cast(DecoderService, request.app.state.service)


def current_person(request: Request) -> Person:
    """Return the sender of a request, by `Authorization: Bearer KEY` or a browser's session.

    Works as a FastAPI dependency for routes and pages; a page that shows the sign-in form instead
    catches AuthenticationError. Raises AuthenticationError if there is no valid key or session, and
    OriginError if another site writes with a session."""
    person: Person | None = getattr(request.state, "person", None)
    if person is not None:  # The route has checked the sender already
        return person
    service = service_of(request)
    authorization = request.headers.get("authorization")
    if authorization is not None:
        scheme, _, text = authorization.partition(" ")
        if scheme.lower() != "bearer":
            raise AuthenticationError("send a key as Authorization: Bearer KEY")
        return service.access.person_of_key(text)
    token = request.cookies.get(cookie_name(request))
    if token is None:
        raise AuthenticationError("send a key as Authorization: Bearer KEY, or sign in at /sign-in")
    if request.method not in SAFE_METHODS:
        check_origin(request)
    return service.access.person_of_session(token)


Service = Annotated[DecoderService, Depends(service_of)]
Me = Annotated[Person, Depends(current_person)]


def check_origin(request: Request, *, may_be_missing: bool = False) -> None:
    """Raise OriginError unless a request comes from a page of this service.

    `may_be_missing` allows requests without a session to have no origin, as from programs other
    than browsers."""
    origin = request.headers.get("origin")
    if origin is None and may_be_missing:
        return
    if origin != own_origin(request):
        raise OriginError(
            f"this write does not come from a page of {own_origin(request)}; use that page, or "
            "send a key (behind a proxy an operator sets public_url)"
        )


def own_origin(request: Request) -> str:
    """Return scheme, host and port of the service as browsers see them."""
    public: str | None = request.app.state.public_origin
    if public is not None:
        return public
    return f"{request.url.scheme}://{request.headers.get('host', '')}"


def origin_of(url: str) -> str:
    """Return the origin of a URL as browsers write it: lower case, without a default port.

    Raises SettingsError if the URL has no host, an invalid port, or a path, because pages and
    cookies belong to a whole host."""
    try:
        address = AnyHttpUrl(url)
    except ValidationError:
        raise SettingsError(f"setting public_url: {url!r} is not the address of a host") from None
    if address.path not in (None, "/") or address.query or address.fragment or address.username:
        raise SettingsError(f"setting public_url: {url!r} has a path; use a separate host")
    return str(address).rstrip("/")


def is_https(request: Request) -> bool:
    """Return whether browsers reach the service over https."""
    return own_origin(request).startswith("https://")


def cookie_name(request: Request) -> str:
    """Return the session cookie's name, over https with the prefix that binds it to this host."""
    return f"__Host-{COOKIE}" if is_https(request) else COOKIE


def set_session(request: Request, response: Response, token: str, seconds: int = -1) -> None:
    """Store a session in the browser's cookie for `seconds`, or the settings' time if negative."""
    response.set_cookie(
        cookie_name(request),
        token,
        max_age=service_of(request).settings.session_seconds if seconds < 0 else seconds,
        path="/",
        secure=is_https(request),
        httponly=True,
        samesite="strict",
    )


def without_key(endpoint: Endpoint) -> Endpoint:
    """Mark the function of a route that needs no key and accepts OPEN_BODY_BYTES."""
    cast(Any, endpoint).is_open = True
    return endpoint


def takes_file(endpoint: Endpoint) -> Endpoint:
    """Mark the function of a route that accepts analysts' files of up to `max_upload_bytes`."""
    cast(Any, endpoint).takes_file = True
    return endpoint


class GuardedRoute(APIRoute):
    """A route that checks the sender and the size limit before it reads a body."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.is_open = getattr(endpoint, "is_open", False)
        options["dependencies"] = [] if self.is_open else [_KEY]
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Handler:
        """Return the handler, preceded by the checks."""
        handler = super().get_route_handler()
        takes_file = getattr(self.endpoint, "takes_file", False)

        async def guarded(request: Request) -> Response:
            settings = service_of(request).settings
            # Forms without files are slow to parse, so their size limit is lower.
            kind = request.headers.get("content-type", "").lower()
            has_file = takes_file and "urlencoded" not in kind
            most = settings.max_upload_bytes if has_file else settings.max_body_bytes
            if self.is_open:
                most = min(most, OPEN_BODY_BYTES)
            bounds = BodyBounds(most, settings.body_seconds)
            bounds.check_stated(request.scope)
            if not self.is_open:
                person = await run_in_threadpool(current_person, request)
                if takes_file:
                    require(person, Act.ANALYZE)
                request.state.person = person
            bounded = Request(request.scope, bounds.bounded(request.receive))
            if most <= settings.max_body_bytes:
                return await handler(bounded)
            async with request.app.state.uploads:  # The file is in memory until it is stored
                return await handler(bounded)

        return guarded


def include(app: FastAPI, router: APIRouter) -> None:
    """Add routes to an app, or raise TypeError for a route that is not guarded."""
    for route in router.routes:
        if not isinstance(route, GuardedRoute):
            raise TypeError(f"{route!r} is not guarded; make its router with GuardedRoute")
    app.include_router(router)


def _paging(limit: Limit = 100, offset: Offset = 0) -> dict[str, int]:
    return {"limit": limit, "offset": offset}


Paging = Annotated[dict[str, int], Depends(_paging)]  # the paging of a list of rows


def status_of(error: Exception) -> int:
    """Return the status code of the response to an error."""
    return rule_of(error, RULES).status
