"""Pages of releases: propose one, see what it changes, approve or reject it, download it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from decoder.tables.paging import TableQuery, page_of, query_of
from decoder_service.jobs.specs import NewRelease
from decoder_service.people.permissions import Act, require
from decoder_service.releases.api import ReleaseWithdrawal
from decoder_service.releases.publishing import Changes
from decoder_service.releases.rows import ReleaseState
from decoder_service.releases.sources import ACTS
from decoder_service.shell.errors import FieldError, NotFoundError, RequestError, ServiceError
from decoder_service.shell.requests import Me, Service
from decoder_service.shell.web import Form, PageNumber, Posted, Visit, parsed, redirect
from decoder_service.shell.web import router as new_router

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
DECISIONS = {act: state for state, act in ACTS.items()}


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
def index(visit: Visit, state: str = "", page: PageNumber = 1) -> Response:
    """Releases that one may see, newest first."""
    if state and state not in set(ReleaseState):
        raise RequestError(f"state {state[:20]!a} is not one of {', '.join(ReleaseState)}")
    rows = visit.service.releases.all(
        visit.person,
        state=ReleaseState(state) if state else None,
        limit=PAGE + 1,
        offset=(page - 1) * PAGE,
    )
    return visit.render(
        "releases.html.j2",
        rows=rows[:PAGE],
        more=len(rows) > PAGE,
        page=page,
        state=state,
        states=list(ReleaseState),
    )


@router.get("/releases/new")
def new(visit: Visit, result: str = "", name: str = "") -> Response:
    """The page with the form for a proposal."""
    given = {"name": [name], "result": [result], "fields": ["1"], **default_fields()}
    return _form(visit, Posted(given, {}))


@router.post("/releases")
def propose(visit: Visit, form: Form) -> Response:
    """Build a release; what is wrong is said above the form, which keeps what was typed."""
    require(visit.person, Act.ANALYSE)
    try:
        if form.text("switch"):
            return _form(visit, _as_toml(form))
        sources = [
            {"result": one, "strata": _strata(form.text(f"strata-{one}"))}
            for one in form.all("result")
        ]
        given: dict[str, Any] = {"name": form.text("name"), "note": form.text("note")}
        given |= {"policy": policy_of_form(form), "sources": sources}
        asked = parsed(NewRelease, given)
        row = visit.service.releases.propose(visit.person, asked)
    except ServiceError as error:
        return _form(visit, form, error)
    return redirect(f"/releases/{row.id}")


@router.get("/releases/{release_id}")
def one(visit: Visit, release_id: str) -> Response:
    """The page of a release: what it changes, for those who may approve it, and its files."""
    view = visit.service.releases.view(visit.person, release_id)
    changes = visit.service.releases.difference(visit.person, release_id) if view.review else None
    proposed, own = view.row.state == ReleaseState.PROPOSED, visit.person.id == view.row.proposer
    query = query_of(visit.request.query_params)
    return visit.render(
        "release.html.j2",
        row=view.row,
        view=view,
        later=[one for one in view.sources if proposed and one.superseded_by],
        gone=proposed and view.review and not view.proposer_holds,
        changes=changes,
        query=query,
        **(shown_changes(changes, query) if changes is not None else {}),
        proposed=proposed,
        may_decide=proposed and visit.person.may(Act.REVIEW) and not own,
        may_withdraw=proposed and own,
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


@router.post("/releases/{release_id}/{act}")
def decide(service: Service, person: Me, release_id: str, act: str, form: Form) -> Response:
    """Approve a release, once that was confirmed, or reject or withdraw it."""
    state = DECISIONS.get(act)
    if state is None:
        raise NotFoundError(f"a release is not settled by {act[:20]!a}")
    require(person, Act.ANALYSE)
    if state is ReleaseState.APPROVED and not form.text("sure"):
        raise RequestError("tick the box beside Approve: it is settled for good")
    asked = parsed(ReleaseWithdrawal, {"reason": form.text("reason")})
    service.releases.decide(person, release_id, state, asked.reason)
    return redirect(f"/releases/{release_id}")


def _form(visit: Visit, form: Posted, error: ServiceError | None = None) -> Response:
    return visit.render_form(
        "release_form.html.j2",
        error,
        results=visit.service.releases.offered(visit.person),
        form=form,
        chosen=set(form.all("result")),
        texts=TEXTS,
        numbers=NUMBERS,
    )


def _as_toml(form: Posted) -> Posted:
    """The form with its policy as TOML in place of fields. Raises FieldError."""
    texts = {name: value for name, value in form.texts.items() if name != "switch"}
    return replace(form, texts=texts | {"fields": [], "policy": [toml_of_fields(form)]})


def _strata(text: str) -> dict[str, str]:
    """`region=north, slot=home` as a mapping. Raises RequestError."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(name.strip() and equals and value.strip() for name, equals, value in pairs):
        raise RequestError(f"stratum {text[:60]!a}: write it as region=north, slot=home")
    return {name.strip(): value.strip() for name, _, value in pairs}
