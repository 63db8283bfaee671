"""Pages of releases: propose one, see what it changes, approve or reject it, download it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import Request
from starlette.responses import Response

from decoder.tables.paging import TableQuery, page_of, query_of
from decoder_service.jobs.specs import NewRelease
from decoder_service.people.permissions import Act, Person, require
from decoder_service.releases.decisions import sees_review
from decoder_service.releases.policy_form import (
    NUMBERS,
    TEXTS,
    default_fields,
    fields_of_toml,
    policy_of_form,
    toml_of_fields,
)
from decoder_service.releases.publishing import Changes
from decoder_service.releases.rows import ReleaseState
from decoder_service.shell.errors import FieldError, RequestError, ServiceError
from decoder_service.shell.problems import status_of
from decoder_service.shell.requests import service_of
from decoder_service.shell.web import Form, PageNumber, Posted, Reader, parsed, redirect, render
from decoder_service.shell.web import router as new_router
from disclosure.release.files import SIGNATURE

PAGE = 50
router = new_router()


@router.get("/releases")
def index(request: Request, person: Reader, state: str = "", page: PageNumber = 1) -> Response:
    """Releases that one may see, newest first."""
    if state and state not in set(ReleaseState):
        raise RequestError(f"state {state[:20]!a} is not one of {', '.join(ReleaseState)}")
    page = max(page, 1)
    rows = service_of(request).releases.all(
        person,
        state=ReleaseState(state) if state else None,
        limit=PAGE + 1,
        offset=(page - 1) * PAGE,
    )
    return render(
        request,
        "releases.html.j2",
        person,
        rows=rows[:PAGE],
        more=len(rows) > PAGE,
        page=page,
        state=state,
        states=list(ReleaseState),
    )


@router.get("/releases/new")
def new(request: Request, person: Reader, result: str = "", name: str = "") -> Response:
    """The page with the form for a proposal."""
    given = {"name": [name], "result": [result], "fields": ["1"], **default_fields()}
    return _form(request, person, Posted(given, {}))


@router.post("/releases")
def propose(request: Request, person: Reader, form: Form) -> Response:
    """Build a release; what is wrong is said above the form, which keeps what was typed."""
    require(person, Act.ANALYSE)
    try:
        if form.text("switch"):
            return _form(request, person, _switched(form))
        sources = [
            {"result": one, "strata": _strata(form.text(f"strata-{one}"))}
            for one in form.all("result")
        ]
        given: dict[str, Any] = {"name": form.text("name"), "note": form.text("note")}
        given |= {"policy": policy_of_form(form), "sources": sources}
        asked = parsed(NewRelease, given)
        row = service_of(request).releases.propose(person, asked)
    except ServiceError as error:
        status, _ = status_of(error)
        field = error.field if isinstance(error, FieldError) else ""
        return _form(request, person, form, str(error), status, field)
    return redirect(f"/releases/{row.id}")


@router.get("/releases/{release_id}")
def one(request: Request, person: Reader, release_id: str) -> Response:
    """The page of a release: what it changes, for those who may approve it, and its files."""
    releases = service_of(request).releases
    row = releases.get(person, release_id)
    review = sees_review(person, row)
    changes = releases.difference(person, release_id) if review else None
    proposed = row.state == ReleaseState.PROPOSED
    query = query_of(request.query_params)
    files, sources = releases.files(person, release_id), releases.sources(person, row)
    return render(
        request,
        "release.html.j2",
        person,
        row=row,
        files=files,
        signed=any(file.name == SIGNATURE for file in files),
        review=review,
        sources=sources,
        later=[one for one in sources if proposed and one.superseded_by],
        gone=proposed and review and not releases.proposer_holds(row),
        changes=changes,
        query=query,
        **(shown_changes(changes, query) if changes is not None else {}),
        stale=releases.is_stale(row),
        proposed=proposed,
        may_decide=proposed and person.may(Act.REVIEW) and person.id != row.proposer,
        may_withdraw=proposed and person.id == row.proposer,
    )


def shown_changes(changes: Changes, query: TableQuery) -> dict[str, Any]:
    """A page of the changes, how many rows have no number, and what the symbols in sight mean.

    Rows of which neither side has a number are left out, until all or some by name are asked for.
    """
    symbols = changes.symbols
    shown = [row for row in changes.rows if {row["before"], row["after"]} - {"", *symbols}]
    table = page_of(changes.rows if query.all or query.q else shown, "cell", query)
    said = {row[side] for row in changes.rows for side in ("before", "after")}
    used = {name for name in symbols if {name, f"withheld ({name})"} & said}
    return {
        "table": table,
        "unshown": len(changes.rows) - len(shown),
        "symbols": {name: text for name, text in symbols.items() if name in used},
    }


@router.post("/releases/{release_id}/approve")
def approve(request: Request, person: Reader, release_id: str, form: Form) -> Response:
    """Approve and publish a release, once that was confirmed."""
    require(person, Act.REVIEW)
    if not form.text("sure"):
        raise RequestError("tick the box beside Approve: it is settled for good")
    service_of(request).releases.approve(person, release_id, form.text("reason"))
    return redirect(f"/releases/{release_id}")


@router.post("/releases/{release_id}/reject")
def reject(request: Request, person: Reader, release_id: str, form: Form) -> Response:
    """Reject a release."""
    service_of(request).releases.reject(person, release_id, form.text("reason"))
    return redirect(f"/releases/{release_id}")


@router.post("/releases/{release_id}/withdraw")
def withdraw(request: Request, person: Reader, release_id: str, form: Form) -> Response:
    """Withdraw a release."""
    service_of(request).releases.withdraw(person, release_id, form.text("reason"))
    return redirect(f"/releases/{release_id}")


def _form(
    request: Request,
    person: Person,
    form: Posted,
    problem: str = "",
    status: int = 200,
    wrong: str = "",
) -> Response:
    return render(
        request,
        "release_form.html.j2",
        person,
        status,
        results=service_of(request).releases.offered(person),
        form=form,
        chosen=set(form.all("result")),
        problem=problem,
        wrong=wrong,
        texts=TEXTS,
        numbers=NUMBERS,
    )


def _switched(form: Posted) -> Posted:
    """The form with its policy as TOML in place of fields, or the other way round.

    Raises RequestError.
    """
    texts = {name: value for name, value in form.texts.items() if name != "switch"}
    if form.text("fields"):
        texts |= {"fields": [], "policy": [toml_of_fields(form)]}
    else:
        texts |= {"fields": ["1"], "policy": [], **fields_of_toml(form.text("policy"))}
    return replace(form, texts=texts)


def _strata(text: str) -> dict[str, str]:
    """`region=north, slot=home` as a mapping. Raises RequestError."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(name.strip() and equals and value.strip() for name, equals, value in pairs):
        raise RequestError(f"stratum {text[:60]!a}: write it as region=north, slot=home")
    return {name.strip(): value.strip() for name, _, value in pairs}
