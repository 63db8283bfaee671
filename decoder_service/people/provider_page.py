"""Pages for signing in through an identity provider, and for coming back from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request
from starlette.responses import Response

from decoder_service.people.pending_sign_in import PENDING_SECONDS, Pending
from decoder_service.people.sessions_page import local_address
from decoder_service.shell.errors import AuthenticationError, NoGroupError, NotFoundError, RoleError
from decoder_service.shell.guard import without_key
from decoder_service.shell.requests import cookie_name, is_https, service_of, set_session
from decoder_service.shell.service import BACK
from decoder_service.shell.web import redirect, render
from decoder_service.shell.web import router as new_router

if TYPE_CHECKING:
    from decoder_service.people.oidc import Provider

COOKIE = "rappor_decoder_sign_in"
router = new_router()


@router.get("/sign-in/provider")
@without_key
def begin(request: Request, next: str = "") -> Response:
    """Redirect the browser to the provider, with a cookie that is required on its return."""
    url, pending = _provider(request).begin(local_address(next))
    answer = redirect("/sign-in")
    answer.headers["location"] = url
    answer.headers["referrer-policy"] = "no-referrer"
    answer.set_cookie(
        cookie_name(request, COOKIE),
        pending.to_cookie(),
        max_age=PENDING_SECONDS,
        path="/",
        secure=is_https(request),
        httponly=True,
        samesite="lax",  # the way back begins at the provider
    )
    return answer


@router.get(BACK)
@without_key
def back(request: Request) -> Response:
    """Make a session of who comes back.

    The page that is sent goes on by itself: a redirect would belong to the provider's navigation,
    with which a browser does not send the session's strict cookie.
    """
    provider, access = _provider(request), service_of(request).access
    try:
        pending = _pending(request)
        claimed = provider.finish(pending, request.query_params)
        person, token = access.sign_in_claimed(provider.issuer, claimed)
    except (AuthenticationError, RoleError) as error:
        if isinstance(error, NoGroupError):
            access.forget_role(provider.issuer, error.subject)
        status = 403 if isinstance(error, RoleError) else 401
        answer: Response = render(
            request, "sign_in.html.j2", None, status,
            next="", problem=str(error), provider=provider.name, leave="",
        )  # fmt: skip
    else:
        there = local_address(pending.there) or "/metrics"
        answer = render(request, "signed_in.html.j2", person, there=there)
        set_session(request, answer, token)
    answer.delete_cookie(
        cookie_name(request, COOKIE), path="/", secure=is_https(request), httponly=True,
        samesite="lax",
    )  # fmt: skip
    return answer


def _pending(request: Request) -> Pending:
    text = request.cookies.get(cookie_name(request, COOKIE))
    if text is None:
        raise AuthenticationError("this sign-in was not begun here; begin again")
    return Pending.from_cookie(text)


def _provider(request: Request) -> Provider:
    found = service_of(request).provider
    if found is None:
        raise NotFoundError("no identity provider is set up here; sign in with a key")
    return found
