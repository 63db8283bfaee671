"""Pages of releases: propose one, see what it changes, approve or reject it, download it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import Request
from starlette.responses import Response

from decoder.tables.paging import TableQuery, page_of, query_of
from decoder_service.jobs.specs import NewRelease
from decoder_service.people.permissions import Act, Person, require
from decoder_service.releases.decisions import sees_review
from decoder_service.releases.publishing import Changes
from decoder_service.releases.rows import ReleaseState
from decoder_service.shell.errors import FieldError, RequestError, ServiceError
from decoder_service.shell.problems import status_of
from decoder_service.shell.requests import service_of
from decoder_service.shell.web import Form, PageNumber, Posted, Reader, parsed, redirect, render
from decoder_service.shell.web import router as new_router
from disclosure.release.files import SIGNATURE

TEXTS = {"owner": "Publisher", "audience": "Audience"}
NUMBERS = {  # name: label, default, unit
    "min_reports": ("Reports of a table, at least", "1000", "reports"),
    "min_low": ("Smallest lower end that is shown", "0.1", "%"),
    "rounding": ("Step of shares", "0.1", "%"),
    "reports_rounding": ("Step of numbers of reports", "100", "reports"),
    "sealed_after_days": ("Late reports are accepted for", "7", "days"),
}
_SHARES = {"min_low", "rounding"}  # in the file as shares
PREFIX = "policy_"


def policy_of_form(form: Posted) -> str:
    """The text of the policy: typed as TOML, or made of the fields. Raises FieldError."""
    typed = form.text("policy").replace("\r\n", "\n")
    return typed if typed or not form.text("fields") else toml_of_fields(form)


def toml_of_fields(form: Posted) -> str:
    """A release.toml of what the fields say. Raises FieldError for a number that is none."""
    lines = [f"{name} = {_quoted(form.text(PREFIX + name))}" for name in TEXTS]
    lines += [f"{name} = {_number(form, name)}" for name in NUMBERS]
    strata = [part.strip() for part in form.text(PREFIX + "strata").split(",") if part.strip()]
    return "\n".join([*lines, f"strata = [{', '.join(map(_quoted, strata))}]", ""])


def fields_of_toml(text: str) -> dict[str, list[str]]:
    """The fields of a policy in TOML. Raises RequestError where it says what no field can."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RequestError(f"the policy is no TOML: {error}") from None
    more = sorted(table.keys() - TEXTS.keys() - NUMBERS.keys() - {"strata"})
    if more:
        raise RequestError(f"the policy has {', '.join(more)}, which only release.toml can say")
    return {PREFIX + name: [_shown(name, value)] for name, value in table.items()}


def _shown(name: str, value: Any) -> str:
    if name in _SHARES and isinstance(value, int | float):
        return f"{100 * value:.12g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _number(form: Posted, name: str) -> str:
    label, _, unit = NUMBERS[name]
    typed = form.text(PREFIX + name).replace(",", "")
    try:
        number = float(typed) / 100 if name in _SHARES else int(typed)
    except ValueError:
        number = -1
    if not 0 <= number <= 10**15:
        what = "number of per cent" if unit == "%" else f"whole number of {unit}"
        raise FieldError(f"{label}: {typed[:20]!a} is not a {what}", PREFIX + name)
    return f"{number:.12g}" if name in _SHARES else str(number)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def default_fields() -> Mapping[str, list[str]]:
    """The fields of a new form."""
    return {PREFIX + name: [default] for name, (_, default, _) in NUMBERS.items()}


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
        status = status_of(error)
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
