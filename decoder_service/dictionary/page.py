"""The public dictionary: without a key."""

from __future__ import annotations

import threading
from datetime import date

from fastapi import Request
from starlette.responses import Response

from decoder.output.dictionary import DictionaryEntry, entries_of
from decoder_service.metrics.rules import DeclaredMetrics
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


class Dictionary:
    """The content of the dictionary page, computed once a day, since anyone may ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: tuple[DeclaredMetrics, date] | None = None
        self._made: tuple[list[DictionaryEntry], str] = [], ""

    def entries(self, declared: DeclaredMetrics, today: date) -> tuple[list[DictionaryEntry], str]:
        """The entries, and what could not be read first, or ""."""
        with self._lock:
            if self._of != (declared, today):
                metrics, unread = _read(declared)
                self._made = entries_of(metrics, today), unread
                self._of = declared, today
            return self._made


@router.get("/dictionary")
@without_key
def public_dictionary(request: Request) -> Response:
    """What is collected now."""
    service = service_of(request)
    declared = service.metrics.public()
    dictionary: Dictionary = request.app.state.dictionary
    entries, unread = dictionary.entries(declared, service.clock().date())
    return render(
        request,
        "public_dictionary.html.j2",
        _person(request),
        entries=entries,
        contact="",
        rise=rise_text,
        problem=declared.problem or (_UNREAD.format(unread) if unread else ""),
    )


def _read(declared: DeclaredMetrics) -> tuple[list[Metric], str]:
    """The metrics, and what was wrong first."""
    metrics, problem = list[Metric](), ""
    for definition in declared.metrics:
        try:
            metrics.append(Metric.from_dict(definition))
        except RapporError as error:
            problem = problem or str(error)
    return metrics, problem


def _person(request: Request) -> Person | None:
    """Who is signed in, if anyone is."""
    try:
        return current_person(request)
    except AuthenticationError:
        return None
