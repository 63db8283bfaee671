"""The pages for signing in with a key, and for signing out."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from decoder_service.shell.errors import AuthenticationError
from decoder_service.shell.guard import without_key
from decoder_service.shell.requests import Me, service_of, sign_in, sign_out
from decoder_service.shell.web import Form, redirect, render
from decoder_service.shell.web import router as new_router

router = new_router()


@router.get("/")
@without_key
def home() -> Response:
    """The metrics are where everything starts."""
    return redirect("/metrics")


@router.get("/sign-in")
@without_key
async def form(request: Request, next: str = "", left: bool = False) -> Response:
    """The page that asks for a key. left: whether somebody just signed out, but not of their
    provider."""
    provider, leave = service_of(request).provider, None
    if provider is not None and left:
        public = (service_of(request).settings.public_url or "").rstrip("/")
        leave = await provider.leave_url(f"{public}/sign-in")
    return _sign_in_page(request, local_address(next), leave=leave)


@router.post("/sign-in")
@without_key
def enter(request: Request, form: Form) -> Response:
    """Make a session, and go where the person wanted to."""
    there = local_address(form.text("next"))
    answer = redirect("/metrics") if not there else _to(there)
    try:
        sign_in(request, answer, form.text("key"))
    except AuthenticationError as error:
        return _sign_in_page(request, there, 401, problem=str(error))
    return answer


@router.post("/sign-out")
def leave(request: Request, person: Me, form: Form) -> Response:
    """End the session."""
    del form
    of_provider = service_of(request).provider is not None and not person.key_id
    answer = redirect("/sign-in", left="1" if of_provider else "")
    sign_out(request, answer)
    return answer


def _to(there: str) -> Response:
    answer = redirect("/metrics")
    answer.headers["location"] = there
    return answer


def _sign_in_page(
    request: Request, there: str, status: int = 200, *, problem: str = "", leave: str | None = None
) -> Response:
    """The form to sign in. there: the page to go to then. leave: where to sign out, too."""
    provider = service_of(request).provider
    host = "" if provider is None else provider.host
    return render(
        request, "sign_in.html.j2", None, status,
        next=there, problem=problem, provider=host, leave=leave or "",
    )  # fmt: skip


def local_address(address: str) -> str:
    """An address of this service, or nothing: a link from elsewhere must not lead elsewhere."""
    plain = address.isascii() and address.isprintable() and "\\" not in address
    return address if plain and address.startswith("/") and not address.startswith("//") else ""
