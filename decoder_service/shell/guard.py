"""Checks before a route reads a body: who sends it, and how large it may be.

A route asks for a key and takes `max_body_bytes`, unless its function is marked here.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from decoder_service.people.permissions import Act, require
from decoder_service.shell.requests import current_person, service_of
from rappor_server.request_bounds import BodyBounds, BoundedReceive

OPEN_BODY_BYTES = 16 << 10  # of a route that asks for no key
_KEY = Depends(HTTPBearer(scheme_name="key", auto_error=False))  # for the OpenAPI document
UPLOADS = 2  # files that arrive or are read at once; others wait, with their senders

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def without_key(endpoint: Endpoint) -> Endpoint:
    """Mark the function of a route that anyone may call; it takes OPEN_BODY_BYTES."""
    cast(Any, endpoint).is_open = True
    return endpoint


def takes_file(endpoint: Endpoint) -> Endpoint:
    """Mark the function of a route to which analysts send files; it takes `max_upload_bytes`."""
    cast(Any, endpoint).takes_file = True
    return endpoint


class GuardedRoute(APIRoute):
    """A route that checks the sender and the size bound before it reads a body."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.is_open = getattr(endpoint, "is_open", False)
        options["dependencies"] = [] if self.is_open else [_KEY]
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Handler:
        """The handler, behind the checks."""
        handler = super().get_route_handler()
        anyone = self.is_open
        takes_file = getattr(self.endpoint, "takes_file", False)

        async def guarded(request: Request) -> Response:
            bounds = _bounds(request, anyone, takes_file and _is_file(request))
            bounds.check_stated(request.scope)
            if not anyone:
                person = await run_in_threadpool(current_person, request)
                if takes_file:
                    require(person, Act.ANALYSE)
                request.state.person = person
            bounded = Request(request.scope, BoundedReceive(request.receive, bounds))
            if bounds.max_bytes <= service_of(request).settings.max_body_bytes:
                return await handler(bounded)
            async with request.app.state.uploads:  # its file is in memory until it is stored
                return await handler(bounded)

        return guarded


def _is_file(request: Request) -> bool:
    """Whether it may hold a file, and not the fields of a form alone, which are read slowly."""
    return "urlencoded" not in request.headers.get("content-type", "").lower()


def _bounds(request: Request, anyone: bool, takes_file: bool) -> BodyBounds:
    settings = service_of(request).settings
    most = settings.max_upload_bytes if takes_file else settings.max_body_bytes
    return BodyBounds(min(most, OPEN_BODY_BYTES) if anyone else most, settings.body_seconds)


def include(app: FastAPI, router: APIRouter) -> None:
    """Put routes on an app. Raises TypeError for one that is not guarded."""
    for route in router.routes:
        if not isinstance(route, GuardedRoute):
            raise TypeError(f"{route!r} is not guarded; make its router with GuardedRoute")
    app.include_router(router)
