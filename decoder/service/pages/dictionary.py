"""The public dictionary: without a key."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from decoder.reports.dictionary import entries_of, odds_text
from decoder.service.errors import AuthenticationError
from decoder.service.operations.permissions import Person
from decoder.service.pages.web import render
from decoder.service.pages.web import router as new_router
from decoder.service.requests import current_person, service_of
from rappor_core.errors import RapporError
from rappor_core.metrics.metric import Metric

router = new_router()


@router.get("/dictionary")
def dictionary(request: Request) -> Response:
    """What is collected now."""
    service = service_of(request)
    definitions, problem = service.metrics.public()
    known = []
    for definition in definitions:
        try:
            known.append(Metric.from_dict(definition))
        except RapporError as error:
            problem = problem or str(error)
    entries = entries_of(known, service.clock().date())
    return render(
        request,
        "public_dictionary.html.j2",
        _person(request),
        entries=entries,
        contact="",
        odds=odds_text,
        problem=problem,
    )


def _person(request: Request) -> Person | None:
    """Who is signed in, if anyone is."""
    try:
        return current_person(request)
    except AuthenticationError:
        return None
