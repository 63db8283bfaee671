"""What routes and pages share: the service, the person who asks, and sessions of browsers.

A session lives in a cookie that scripts cannot read (HttpOnly), that other sites do not send
(SameSite=Strict), and that goes over https alone where the service is on https. A write with a
session must come from the service's own pages: its `Origin` is compared.
"""

from __future__ import annotations

from typing import Annotated, cast
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.responses import Response

from decoder_service.people.permissions import Person
from decoder_service.shell.errors import AuthenticationError, OriginError, SettingsError
from decoder_service.shell.service import DecoderService

COOKIE = "rappor_decoder_session"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def service_of(request: Request) -> DecoderService:
    """The operations of the app that this request came to."""
    return cast(DecoderService, request.app.state.service)


def current_person(request: Request) -> Person:
    """The person who sends a request: by `Authorization: Bearer KEY`, or by a browser's session.

    Works as a FastAPI dependency, for routes and pages alike; a page that wants to show the
    form to sign in catches AuthenticationError.

    Raises AuthenticationError without a key or session that holds, OriginError for a write with a
    session from elsewhere.
    """
    known: Person | None = getattr(request.state, "person", None)
    if known is not None:  # the route was reached, so it was asked before
        return known
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
    """Raises OriginError unless a request comes from a page of this service.

    may_be_missing: programs that are no browsers send no `Origin`; of a request without a session,
    that is allowed.
    """
    origin = request.headers.get("origin")
    if origin is None and may_be_missing:
        return
    if origin != own_origin(request):
        raise OriginError(
            f"this write does not come from a page of {own_origin(request)}; "
            "do it there, or send a "
            "key (behind a proxy an operator sets public_url)"
        )


def own_origin(request: Request) -> str:
    """Scheme, host and port of the service as browsers see them."""
    public: str | None = request.app.state.public_origin
    if public is not None:
        return public
    return f"{request.url.scheme}://{request.headers.get('host', '')}"


def origin_of(url: str) -> str:
    """The origin of a URL as browsers write it: lower case, without the port of the scheme.

    Raises SettingsError for a URL without a host, with an invalid port, or with a path: pages and
    cookies are those of a whole host.
    """
    try:
        parts = urlsplit(url)
        port, host = parts.port, (parts.hostname or "").encode("idna").decode("ascii")
    except ValueError:  # UnicodeError too
        host, port = "", None
    if not host:
        raise SettingsError(f"setting public_url: {url!r} is not the address of a host")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise SettingsError(f"setting public_url: {url!r} has a path; give a host of its own")
    place = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{place}" + ("" if port in (None, usual) else f":{port}")


def is_https(request: Request) -> bool:
    """Whether browsers reach the service over https."""
    return own_origin(request).startswith("https://")


def cookie_name(request: Request) -> str:
    """The session's cookie; over https with the prefix that binds it to this host and path."""
    return f"__Host-{COOKIE}" if is_https(request) else COOKIE


def sign_in(request: Request, response: Response, key: str) -> Person:
    """Make a session from a key and put it into the browser's cookie.

    Args:
        request: a POST from the service's own page, or from a program.
        response: gets the cookie.
        key: what the person gave.

    Returns:
        Who it is.

    Raises:
        OriginError, AuthenticationError.
    """
    check_origin(request, may_be_missing=True)
    person, token = service_of(request).access.sign_in(key)
    set_session(request, response, token)
    return person


def set_session(request: Request, response: Response, token: str) -> None:
    """Put a session into the browser's cookie."""
    response.set_cookie(
        cookie_name(request),
        token,
        max_age=int(service_of(request).settings.session_seconds),
        path="/",
        secure=is_https(request),
        httponly=True,
        samesite="strict",
    )


def sign_out(request: Request, response: Response) -> None:
    """End a browser's session and delete its cookie. Raises as `current_person`."""
    person = current_person(request)
    name = cookie_name(request)
    token = request.cookies.get(name)
    if token is not None:  # of a key beside it, too: its cookie is taken, so it must end
        service_of(request).access.sign_out(person, token)
    response.delete_cookie(
        name, path="/", secure=is_https(request), httponly=True, samesite="strict"
    )
