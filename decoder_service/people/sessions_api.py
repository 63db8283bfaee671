"""Sessions of browsers, made from keys."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import StringConstraints

from decoder_service.jobs.specs import StrictModel
from decoder_service.people.permissions import Person
from decoder_service.shell.guard import GuardedRoute, without_key
from decoder_service.shell.requests import Me, Service, sign_in, sign_out

router = APIRouter(tags=["sessions"], route_class=GuardedRoute)


class SignIn(StrictModel):
    """A key, to be exchanged for a session."""

    key: Annotated[str, StringConstraints(max_length=200)]


@router.post("/v1/session", operation_id="signIn")
@without_key
def post_session(request: Request, response: Response, body: SignIn) -> dict[str, Any]:
    """Make a session from a key; the browser gets it as a cookie."""
    return shown_person(sign_in(request, response, body.key))


@router.get("/v1/session", operation_id="getSession")
def get_session(person: Me) -> dict[str, Any]:
    """Who is asking."""
    return shown_person(person)


@router.get("/v1/usage", operation_id="getUsage")
def get_usage(service: Service, person: Me) -> dict[str, Any]:
    """What you have stored, in bytes, and how much your role allows; jobs that wait or run."""
    return {name: asdict(one) for name, one in service.usage.of(person).items()}


@router.delete("/v1/session", operation_id="signOut")
def delete_session(request: Request, response: Response) -> dict[str, Any]:
    """End the session."""
    sign_out(request, response)
    return {"signed_out": True}


def shown_person(person: Person) -> dict[str, Any]:
    """A person as shown to themselves."""
    return {"name": person.name, "role": person.role.value, "key_id": person.key_id}
