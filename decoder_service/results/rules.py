"""Stored results, for who may see them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, true

from decoder.kinds.result import RESULTS
from decoder_service.aggregates.rows import load_aggregate_content
from decoder_service.jobs.checks import kind_decoder
from decoder_service.jobs.rules import check_page
from decoder_service.people.access import Access
from decoder_service.people.permissions import (
    Act,
    Person,
    own_results,
    require,
    visible_results,
)
from decoder_service.results import rows
from decoder_service.results.rows import FileRow, ResultRow
from decoder_service.shell.clock import text_of
from decoder_service.shell.database import ServiceDatabase
from decoder_service.shell.errors import NotFoundError, RequestError, RoleError
from decoder_service.shell.models import results as table

MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "geojson": "application/geo+json",
    "parquet": "application/vnd.apache.parquet",
    "html": "text/html; charset=utf-8",
    "png": "image/png",
}


@dataclass(frozen=True, slots=True)
class Results:
    """What people may do with results. Each call asks for the role, and sees what it may."""

    database: ServiceDatabase
    access: Access

    def all(
        self,
        person: Person,
        *,
        metric: str | None = None,
        kind: str | None = None,
        operation: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[ResultRow]:
        """Results that one may see, newest first. Raises RoleError, RequestError."""
        require(person, Act.READ)
        check_page(limit, offset)
        which: ColumnElement[bool] = true()
        if metric is not None:
            which = which & (table.c.metric == metric)
        if kind is not None:
            which = which & (table.c.kind == kind)
        if operation is not None:
            which = which & (table.c.operation == operation)
        with self.database.read() as connection:
            return rows.load_results(connection, visible_results(person) & which, limit, offset)

    def get(self, person: Person, result_id: str) -> ResultRow:
        """A result. Raises RoleError, NotFoundError."""
        require(person, Act.READ)
        with self.database.read() as connection:
            return self._one(connection, visible_results(person), result_id)

    def superseded_by(self, person: Person, result_id: str) -> ResultRow | None:
        """The result of a later version from the same inputs, if one may see it."""
        require(person, Act.READ)
        with self.database.read() as connection:
            which = visible_results(person) & (table.c.supersedes == result_id)
            found = rows.load_results(connection, which, 1)
        return found[0] if found else None

    def is_own(self, person: Person, result_id: str) -> bool:
        """Whether a job of this person had it: who may release it and check it again."""
        with self.database.read() as connection:
            which = own_results(person) & (table.c.id == result_id)
            return bool(rows.load_results(connection, which, 1))

    def files(self, person: Person, result_id: str) -> list[FileRow]:
        """Its files, by name; the whole list of candidates only where it is one's own result.

        Raises as `get`.
        """
        self.get(person, result_id)
        own = self.is_own(person, result_id)
        with self.database.read() as connection:
            found = rows.load_result_files(connection, result_id)
        return [file for file in found if own or not is_list(file.name)]

    def file(self, person: Person, result_id: str, name: str) -> bytes:
        """The bytes of a file; the read is audited. Raises as `get`."""
        self.get(person, result_id)
        hidden = is_list(name) and not self.is_own(person, result_id)
        with self.database.read() as connection:
            content = None if hidden else rows.load_file(connection, result_id, name)
        if content is None:
            raise NotFoundError(
                f"result {result_id} has no file {name[:70]!a}; "
                f"GET /v1/results/{result_id} names them"
            )
        with self.database.change() as connection:
            self.access.note(connection, person, "read-result", result=result_id, file=name)
        return content

    def counts(self, person: Person, result_id: str, sha: str) -> bytes:
        """The aggregate file of a digest that a result of one's own was made of; it is audited.

        Raises as `get`, and NotFoundError for another digest.
        """
        row = self.get(person, result_id)
        groups = json.loads(row.manifest).get("inputs", {}).get("aggregates", [])
        known = self.is_own(person, result_id) and any(sha in group for group in groups)
        with self.database.read() as connection:
            content = load_aggregate_content(connection, sha) if known else None
        if content is None:
            raise NotFoundError(
                f"there is no result {result_id} of yours that was made of counts {sha[:70]!a}; "
                f"GET /v1/results/{result_id} names them"
            )
        with self.database.change() as connection:
            self.access.note(connection, person, "read-counts", result=result_id, sha256=sha)
        return content

    def release(self, person: Person, result_id: str, released: bool) -> ResultRow:
        """Show a result of one's own to every viewer, or take back what one released.

        Raises as `get`, and RoleError where another person released it.
        """
        require(person, Act.ANALYSE)
        with self.database.change() as connection:
            row = self._one(connection, own_results(person), result_id)
            unshared = kind_decoder(row.kind).unshared
            if released and unshared:
                raise RequestError(unshared)
            if row.released == released:
                return row
            if not may_take_back(person, row):
                raise RoleError(
                    "another person released this result; only they and admins take it back"
                )
            rows.set_released(connection, result_id, person.id if released else None)
            self.access.note(
                connection, person, "release-result", result=result_id, released=released
            )
            return self._one(connection, true(), result_id)

    def give_up(self, person: Person, result_id: str) -> bool:
        """Take a result from its holder; it is deleted when nobody holds it.

        An admin who does not hold it takes it from everybody.

        Returns:
            Whether it is gone for good.

        Raises:
            As `get`, and RequestError for a result that is released.
        """
        require(person, Act.ANALYSE)
        with self.database.change() as connection:
            row = self._one(connection, own_results(person), result_id)
            if row.released:
                raise RequestError("the result is released: take it back first")
            if not rows.give_up(connection, result_id, person.id):
                rows.give_up_all(connection, result_id)
            self.access.note(connection, person, "give-up-result", result=result_id)
            return bool(rows.delete_unheld(connection, result_id))

    def _one(self, connection: Connection, which: ColumnElement[bool], result_id: str) -> ResultRow:
        found = rows.load_results(connection, which & (table.c.id == result_id), 1)
        if not found:
            raise NotFoundError(
                f"there is no result {result_id[:40]!a} that you may see; GET /v1/results has yours"
            )
        return found[0]


def may_take_back(person: Person, row: ResultRow) -> bool:
    """Whether a release is not another person's."""
    return person.is_admin or row.released_by in (None, person.id)


def is_list(name: str) -> bool:
    """Whether a file holds the whole list of candidates, which is sensitive."""
    return name.startswith("candidates.")


def counts_name(sha: str) -> str:
    """The name that the aggregate file of a digest has as a download."""
    return f"{sha[:16]}.json"


def main_file(row: ResultRow, form: str) -> str:
    """The file of a result's main table in a format; as JSON all that was found."""
    name = kind_decoder(row.kind).table_of(row.operation)
    return RESULTS if form == "json" else f"{name}.{form}"


def media_type(name: str) -> str:
    """The media type of a file, by the ending of its name."""
    return MEDIA_TYPES.get(name.rpartition(".")[2], "application/octet-stream")


def shown_result(row: ResultRow, person: Person) -> dict[str, Any]:
    """A result as it may be listed."""
    return {
        "id": row.id,
        "operation": row.operation,
        "kind": row.kind,
        "metric": row.metric,
        "params_id": row.params_id,
        "first_day": row.first_day,
        "last_day": row.last_day,
        "version": row.version,
        "supersedes": row.supersedes,
        "released": row.released,
        "created": text_of(row.created),
        "summary": json.loads(row.summary),
        "manifest": shown_manifest(row, person),
    }


def shown_manifest(row: ResultRow, person: Person) -> dict[str, Any]:
    """What a result was made from; viewers do not see whose list that was."""
    manifest: dict[str, Any] = json.loads(row.manifest)
    if not person.may(Act.ANALYSE):
        manifest.pop("spec", None)
    return manifest
