"""Pages and routes for proposing, reviewing, approving and downloading releases."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path
from starlette.responses import Response

from decoder.tables.paging import TableQuery, page_of, query_of
from decoder_service.jobs.form import LABELS, in_labels, parsed_in_labels
from decoder_service.jobs.specs import NewRelease, Note
from decoder_service.people.permissions import Act, Person, require
from decoder_service.releases.sources import Changes, sees_review
from decoder_service.results.page import download
from decoder_service.shell.database import matching, shown
from decoder_service.shell.errors import ServiceError
from decoder_service.shell.models import ReleaseRow, ReleaseState
from decoder_service.shell.requests import GuardedRoute, Me, Paging, Service
from decoder_service.shell.web import (
    Form,
    PageNumber,
    Posted,
    Visit,
    add_form,
    page_router,
    redirect,
)
from rappor_server.errors import RequestError

POLICY = """\
min_reports = 1000         # minimum per table
min_low = 0.001            # lowest lower end of a published share
rounding = 0.001           # step of shares
reports_rounding = 100     # step of numbers of reports
sealed_after_days = 0      # 0 for a collector, which serves closed days; else the longest delay
strata = []                # dimensions that may split tables, such as ["region"]
"""  # The initial text of the form
pages = page_router()
api = APIRouter(prefix="/v1/releases", tags=["releases"], route_class=GuardedRoute)
_ONE = "/releases/{release_id}"
Reason = Annotated[Note, Body(embed=True)]


@pages.get("/releases")
def index(visit: Visit, state: ReleaseState | None = None, page: PageNumber = 1) -> Response:
    """Show the releases that the visitor may see, newest first."""
    rows = visit.rows(visit.service.releases, page, *matching(ReleaseRow, state=state))
    return visit.render("releases.html.j2", **rows, state=state, states=list(ReleaseState))


@pages.get("/releases/new")
def new(visit: Visit, result: str = "", name: str = "") -> Response:
    """Show the form for proposing a release."""
    fields = {"name": [name], "result": [result], "policy": [POLICY]}
    return _form(visit, Posted(fields, {}))


@pages.post("/releases")
def post_proposal(visit: Visit, form: Form) -> Response:
    """Build a release; on an error, show the form again with the error and the entered data."""
    require(visit.person, Act.ANALYZE)
    try:
        sources: list[dict[str, Any]] = []
        for result in form.all("result"):  # its strata as region=north, slot=home
            text = form.text(f"strata-{result}")
            pairs = [part.partition("=") for part in text.split(",") if part.strip()]
            strata = {name.strip(): value.strip() for name, _, value in pairs}
            if not all((*strata, *strata.values(), *(equals for _, equals, _ in pairs))):
                raise RequestError(f"stratum {text[:60]!a}: write it as region=north, slot=home")
            sources.append({"result": result, "strata": strata})
        fields: dict[str, Any] = {name: form.text(name) for name in ("name", "note")}
        named = [f"{name} = {json.dumps(text, ensure_ascii=False)}\n"
                 for name in ("owner", "audience") if (text := form.text(name))]  # fmt: skip
        fields["policy"] = "".join(named) + form.text("policy").replace("\r\n", "\n")
        fields["sources"] = sources
        spec = parsed_in_labels(NewRelease, fields)
        row = visit.service.releases.propose(visit.person, spec)
    except ServiceError as error:
        return _form(visit, form, in_labels(error) if isinstance(error, RequestError) else error)
    return redirect(f"/releases/{row.id}")


@pages.get("/releases/{release_id}")
def one(visit: Visit, release_id: str) -> Response:
    """Show a release and its files, and to its reviewers and proposer also its changes."""
    view = visit.service.releases.view(visit.person, release_id)
    changes = visit.service.releases.difference(visit.person, release_id) if view.review else None
    proposed, is_own = view.row.state == ReleaseState.PROPOSED, visit.person.id == view.row.proposer
    query = query_of(visit.request.query_params)
    return visit.render(
        "release.html.j2",
        row=view.row,
        view=view,
        gone=proposed and view.review and not view.proposer_holds,
        changes=changes,
        query=query,
        **(shown_changes(changes, query) if changes is not None else {}),
        proposed=proposed,
        may_decide=proposed and visit.person.may(Act.REVIEW) and not is_own,
        may_withdraw=proposed and is_own,
    )


def shown_changes(changes: Changes, query: TableQuery) -> dict[str, Any]:
    """Return one page of the changes, the number of omitted rows, and the symbols in use.

    Rows without numbers before and after are omitted unless the query requests all rows or searches
    by name."""
    symbols = changes.symbols
    numbered = [row for row in changes.rows if {row["before"], row["after"]} - {"", *symbols}]
    table = page_of(changes.rows if query.all or query.q else numbered, "cell", query)
    texts = {row[side] for row in changes.rows for side in ("before", "after")}
    used = {name for name in symbols if {name, f"withheld ({name})"} & texts}
    return {
        "table": table,
        "unshown": len(changes.rows) - len(numbered),
        "symbols": {name: text for name, text in symbols.items() if name in used},
    }


def _form(visit: Visit, form: Posted, error: ServiceError | None = None) -> Response:
    return visit.render_form(
        "release_form.html.j2",
        error,
        results=visit.service.releases.offered(visit.person),
        form=form,
        labels=LABELS,
        chosen=set(form.all("result")),
    )


@api.get("", operation_id="listReleases")
def list_releases(
    service: Service, person: Me, paging: Paging, state: ReleaseState | None = None
) -> dict[str, Any]:
    """Return the releases that you may see, newest first.

    Everyone sees approved releases, a proposer their own, and a reviewer all."""
    which = matching(ReleaseRow, state=state)
    rows = service.releases.all(person, *which, **paging)
    return {"releases": [shown_release(row, person) for row in rows]}


@api.post("", operation_id="proposeRelease", status_code=201)
def propose(service: Service, person: Me, body: NewRelease) -> dict[str, Any]:
    """Build a release from your results, for a second person to approve."""
    return shown_release(service.releases.propose(person, body), person)


@api.get("/{release_id}", operation_id="getRelease")
def get_release(service: Service, person: Me, release_id: str) -> dict[str, Any]:
    """Return a release and its files.

    `signed` is true if the service's key signed the release when it was approved. The proposer and
    reviewers also see the state of its results (`sources`), and whether the proposer still has
    access (`proposer_holds`)."""
    view = service.releases.view(person, release_id)
    public = shown_release(view.row, person, view.stale)
    if view.review:
        public["sources"] = view.sources
        public["proposer_holds"] = view.proposer_holds
    return public | {"files": [dict(file._mapping) for file in view.files], "signed": view.signed}


@api.get("/{release_id}/difference", operation_id="getReleaseDifference")
def get_difference(service: Service, person: Me, release_id: str) -> dict[str, Any]:
    """Return the changes from the last approved release of the same name."""
    changes = service.releases.difference(person, release_id)
    return {"policy": changes.policy, "changes": changes.rows}


@api.get("/{release_id}/files/{name}", operation_id="getReleaseFile")
def get_file(
    service: Service, person: Me, release_id: str, name: Annotated[str, Path(max_length=64)]
) -> Response:
    """Return a file of a release, byte for byte as its manifest lists it."""
    return download(service.releases.file(person, release_id, name), name)


@api.post("/{release_id}/approve", operation_id="approveRelease")
def approve(service: Service, person: Me, release_id: str, reason: Reason = "") -> dict[str, Any]:
    """Publish a release that another person proposed; this is final."""
    row = service.releases.decide(person, release_id, ReleaseState.APPROVED, reason)
    return shown_release(row, person)


@api.post("/{release_id}/reject", operation_id="rejectRelease")
def reject(service: Service, person: Me, release_id: str, reason: Reason = "") -> dict[str, Any]:
    """Reject a release that another person proposed; this is final."""
    row = service.releases.decide(person, release_id, ReleaseState.REJECTED, reason)
    return shown_release(row, person)


@api.post("/{release_id}/withdraw", operation_id="withdrawRelease")
def withdraw(service: Service, person: Me, release_id: str, reason: Reason = "") -> dict[str, Any]:
    """Withdraw your own proposal before it is decided, and delete its files."""
    row = service.releases.decide(person, release_id, ReleaseState.WITHDRAWN, reason)
    return shown_release(row, person)


add_form(pages, f"{_ONE}/approve", approve, _ONE, sure="Approve: it is final")
add_form(pages, f"{_ONE}/reject", reject, _ONE)
add_form(pages, f"{_ONE}/withdraw", withdraw, _ONE)


def shown_release(row: ReleaseRow, person: Person, stale: bool = False) -> dict[str, Any]:
    """Return the public fields of a release; its proposer and reviewers also see its review."""
    public = shown(row, "id name number state owner audience issued digest created decided")
    if not sees_review(person, row):
        return public
    return {
        **public,
        **shown(row, "note reason changes base policy"),
        "sources": json.loads(row.sources),
        "stale": stale,
        "proposer": row.proposed_by.name,
        "reviewer": None if row.decided_by is None else row.decided_by.name,
    }
