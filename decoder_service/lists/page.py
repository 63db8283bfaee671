"""Lists of values, weights, known flows and areas: upload, versions, share; uploaded counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from decoder.kinds.interface import DECODERS, decoder_of
from decoder_service.lists.rows import ListKind
from decoder_service.lists.rules import NewList
from decoder_service.shell.errors import RequestError
from decoder_service.shell.guard import takes_file
from decoder_service.shell.models import ListRow
from decoder_service.shell.requests import Me, Service
from decoder_service.shell.web import Form, Posted, Visit, parsed, redirect
from decoder_service.shell.web import router as new_router

router = new_router()


@router.get("/lists")
def index(visit: Visit) -> Response:
    """The page of own and shared lists and of uploaded counts, with the forms to send more."""
    service = visit.service
    return visit.render(
        "lists.html.j2",
        lists=service.lists.all(visit.person),
        aggregates=service.aggregates.all(visit.person),
    )


@router.post("/lists")
@takes_file
def create(service: Service, person: Me, form: Form) -> Response:
    """Store a list from a file or from what was typed."""
    content, suffix = _values(form)
    given: dict[str, Any] = {"name": form.text("name"), "source": form.text("source")}
    given |= {"column": form.text("column") or None, "format": suffix}
    given |= {"shared": bool(form.text("shared"))}
    asked = parsed(NewList, given | {"kind": form.text("kind", ListKind.CANDIDATES)})
    made = service.lists.create(person, asked, content)
    return redirect(f"/lists/{made.id}")


@router.post("/lists/aggregates")
@takes_file
def upload(service: Service, person: Me, form: Form) -> Response:
    """Store an uploaded aggregate file."""
    if "file" not in form.files:
        raise RequestError("no file was chosen; rappor aggregate METRIC -o FILE makes one")
    service.aggregates.upload(person, form.files["file"][1])
    return redirect("/lists")


@router.get("/lists/{list_id}")
def one(visit: Visit, list_id: str) -> Response:
    """The page of a list and its versions."""
    row = visit.service.lists.get(visit.person, list_id)
    own = row.owner == visit.person.id or visit.person.is_admin
    return visit.render(
        "list.html.j2",
        row=row,
        own=own,
        takes={
            member: next(name for name in DECODERS if member in decoder_of(name).members)
            for member in ("known", "areas")
        },
    )


@router.post("/lists/{list_id}/versions")
@takes_file
def add_version(service: Service, person: Me, list_id: str, form: Form) -> Response:
    """Store a new version of a list."""
    content, suffix = _values(form)
    column = form.text("column") or None
    service.lists.add_version(person, list_id, content, suffix=suffix, column=column)
    return redirect(f"/lists/{list_id}")


@router.post("/lists/{list_id}/share")
def share(service: Service, person: Me, list_id: str, form: Form) -> Response:
    """Share a list with other analysts, or stop sharing it."""
    service.lists.share(person, list_id, bool(form.text("shared")))
    return redirect(f"/lists/{list_id}")


@router.post("/lists/{list_id}/delete")
def delete(service: Service, person: Me, list_id: str, form: Form) -> Response:
    """Delete a list, once that was confirmed."""
    if not form.text("sure"):
        raise RequestError("tick the box beside Delete: the values are gone for good")
    service.lists.delete(person, list_id)
    return redirect("/lists")


def lists_by_kind(rows: Sequence[ListRow]) -> dict[str, list[ListRow]]:
    """The lists that a form offers: `lists` of candidates, `weights`, `known_flows`,
    `areas`."""
    names = {
        "lists": ListKind.CANDIDATES,
        "weights": ListKind.WEIGHTS,
        "known_flows": ListKind.FLOWS,
        "areas": ListKind.AREAS,
    }
    return {name: [row for row in rows if row.kind == kind] for name, kind in names.items()}


def with_names(spec: dict[str, Any], rows: Sequence[ListRow]) -> dict[str, Any]:
    """A specification with the names of its lists in place of their ids, where they are known."""
    names = {row.id: row.name for row in rows}
    return {
        member: value
        | {"list": names[value["list"]], "version": value.get("version", "the latest")}
        if isinstance(value, dict) and value.get("list") in names
        else value
        for member, value in spec.items()
    }


def _values(form: Posted) -> tuple[bytes, str]:
    """The content of a list and its format."""
    if "file" in form.files:
        name, content = form.files["file"]
        return content, "csv" if name.lower().endswith(".csv") else "txt"
    typed = form.text("values")
    if not typed:
        raise RequestError("choose a file, or type the values, one a line")
    return typed.replace("\r\n", "\n").encode("utf-8", "surrogatepass"), "txt"
