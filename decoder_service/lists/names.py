"""Names of lists in forms: what a person types or picks, and the id that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from decoder_service.lists.rows import ListRow
from decoder_service.shell.errors import FieldError
from decoder_service.shell.web import Posted

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
        row.id: row.name if names.count(row.name) == 1 else f"{row.name} ({row.owner_name})"
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
