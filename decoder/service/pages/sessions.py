"""Sign in with a key, and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from starlette.responses import Response

from decoder.service.errors import AuthenticationError
from decoder.service.pages.web import Form, Posted, posted, redirect, render
from decoder.service.pages.web import router as new_router
from decoder.service.requests import sign_in, sign_out

router = new_router()


@router.get("/")
def home() -> Response:
    """The metrics are where everything starts."""
    return redirect("/metrics")


@router.get("/sign-in")
def form(request: Request, next: str = "") -> Response:
    """Ask for a key."""
    return render(request, "sign_in.html.j2", next=_local(next), problem="")


@router.post("/sign-in")
def enter(request: Request, form: Annotated[Posted, Depends(posted)]) -> Response:
    """Make a session, and go where the person wanted to."""
    there = _local(form.text("next"))
    answer = redirect("/metrics") if not there else _to(there)
    try:
        sign_in(request, answer, form.text("key"))
    except AuthenticationError as error:
        return render(request, "sign_in.html.j2", None, 401, next=there, problem=str(error))
    return answer


@router.post("/sign-out")
def leave(request: Request, form: Form) -> Response:
    """End the session."""
    del form
    answer = redirect("/sign-in")
    sign_out(request, answer)
    return answer


def _to(there: str) -> Response:
    answer = redirect("/metrics")
    answer.headers["location"] = there
    return answer


def _local(address: str) -> str:
    """An address of this service, or nothing: a link from elsewhere must not lead elsewhere."""
    plain = address.isascii() and address.isprintable() and "\\" not in address
    return address if plain and address.startswith("/") and not address.startswith("//") else ""
