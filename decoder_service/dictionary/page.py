"""The public dictionary: without a key."""

from __future__ import annotations

import json
from datetime import date
from functools import lru_cache

from fastapi import Request
from starlette.responses import Response

from decoder.output.dictionary import DictionaryEntry, entries_of
from decoder_service.people.permissions import Person
from decoder_service.shell.errors import AuthenticationError
from decoder_service.shell.guard import without_key
from decoder_service.shell.requests import current_person, service_of
from decoder_service.shell.web import render
from decoder_service.shell.web import router as new_router
from rappor_core.errors import RapporError
from rappor_core.metrics.metric import Metric
from rappor_core.risk import rise_text

router = new_router()
_UNREAD = "not all of what is collected can be shown: {}"


@router.get("/dictionary")
@without_key
def public_dictionary(request: Request) -> Response:
    """What is collected now."""
    service = service_of(request)
    definitions, problem = service.metrics.public()
    entries, unread = _entries(json.dumps(definitions), service.clock().date())
    return render(
        request,
        "public_dictionary.html.j2",
        _person(request),
        entries=entries,
        contact="",
        rise=rise_text,
        problem=problem or (_UNREAD.format(unread) if unread else ""),
    )


@lru_cache(maxsize=1)  # anyone may ask for the page, which changes with the day at most
def _entries(definitions: str, today: date) -> tuple[list[DictionaryEntry], str]:
    """The entries of metrics, given as JSON, and what could not be read first, or ""."""
    metrics, problem = list[Metric](), ""
    for definition in json.loads(definitions):
        try:
            metrics.append(Metric.from_dict(definition))
        except RapporError as error:
            problem = problem or str(error)
    return entries_of(metrics, today), problem


def _person(request: Request) -> Person | None:
    """Who is signed in, if anyone is."""
    try:
        return current_person(request)
    except AuthenticationError:
        return None
