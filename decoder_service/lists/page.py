"""Lists of values, weights, known flows and areas: upload, versions, share; uploaded counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from starlette.responses import Response

from decoder.kinds.interface import DECODERS, decoder_of
from decoder_service.lists.rows import ListKind
from decoder_service.lists.rules import NewList
from decoder_service.shell.errors import FieldError, RequestError
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


FIELDS = {
    "list": "List",
    "weights": "Weights",
    "known": "Known flows",
    "areas": "Areas",
}  # with their labels
_VERSION = ", version "


def unique_names(rows: Sequence[ListRow]) -> dict[str, str]:
    """The name of each list by its id; with its owner where two lists have one name."""
    names = [row.name for row in rows]
    return {
        row.id: row.name if names.count(row.name) == 1 else f"{row.name} ({row.person.name})"
        for row in rows
    }


def as_names(form: Posted, rows: Sequence[ListRow]) -> Posted:
    """A form that shows lists by name, `NAME` or `NAME, version N`; unknown ids stay."""
    names = unique_names(rows)
    texts = dict(form.texts)
    for field in FIELDS:
        listed, _, version = form.text(field).partition(":")
        if listed in names:
            texts[field] = [names[listed] + (f"{_VERSION}{version}" if version else "")]
    return replace(form, texts=texts)


def as_ids(form: Posted, rows: Sequence[ListRow]) -> Posted:
    """A submitted form with `ID` or `ID:VERSION` in place of names. Raises FieldError for a name
    of no list; what looks like an id stays."""
    ids = {name: listed for listed, name in unique_names(rows).items()}
    texts = dict(form.texts)
    for field in FIELDS:
        typed = form.text(field)
        if typed and not _is_id(typed):
            texts[field] = [_id(typed, ids, field)]
    return replace(form, texts=texts)


def _is_id(text: str) -> bool:
    listed, _, version = text.partition(":")
    is_hex = len(listed) == 16 and all(letter in "0123456789abcdef" for letter in listed)
    return is_hex and (not version or version.isdecimal())


def _id(typed: str, ids: dict[str, str], field: str) -> str:
    if typed in ids:
        return ids[typed]
    name, found, version = typed.rpartition(_VERSION)
    if found and name in ids and version.isdecimal():
        return f"{ids[name]}:{version}"
    raise FieldError(
        f"{FIELDS[field]}: there is no list {typed[:60]!a}; choose one that is offered", field
    )
