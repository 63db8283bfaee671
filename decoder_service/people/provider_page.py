"""Pages for signing in through an identity provider, and for coming back from it."""

from __future__ import annotations

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from decoder_service.people.oidc import Provider
from decoder_service.people.sessions_page import local_address
from decoder_service.shell.errors import AuthenticationError, NoGroupError, NotFoundError, RoleError
from decoder_service.shell.guard import without_key
from decoder_service.shell.requests import service_of, set_session
from decoder_service.shell.service import BACK
from decoder_service.shell.web import redirect, render
from decoder_service.shell.web import router as new_router

router = new_router()


@router.get("/sign-in/provider")
@without_key
async def begin(request: Request, next: str = "") -> Response:
    """Redirect the browser to the provider, with a cookie that is required on its return."""
    answer = redirect("/sign-in")
    answer.headers["location"] = await _provider(request).begin(request, local_address(next))
    answer.headers["referrer-policy"] = "no-referrer"
    return answer


@router.get(BACK)
@without_key
async def back(request: Request) -> Response:
    """Make a session of who comes back.

    The page that is sent goes on by itself: a redirect would belong to the provider's navigation,
    with which a browser does not send the session's strict cookie.
    """
    provider, access = _provider(request), service_of(request).access
    try:
        claimed, there = await provider.finish(request)
        person, token = await run_in_threadpool(access.sign_in_claimed, provider.issuer, claimed)
    except (AuthenticationError, RoleError) as error:
        if isinstance(error, NoGroupError):
            await run_in_threadpool(access.forget_role, provider.issuer, error.subject)
        status = 403 if isinstance(error, RoleError) else 401
        return render(
            request, "sign_in.html.j2", None, status,
            next="", problem=str(error), provider=provider.host, leave="",
        )  # fmt: skip
    answer = render(request, "signed_in.html.j2", person, there=local_address(there) or "/metrics")
    set_session(request, answer, token)
    return answer


def _provider(request: Request) -> Provider:
    found = service_of(request).provider
    if found is None:
        raise NotFoundError("no identity provider is set up here; sign in with a key")
    return found
