"""Stored results, for who may see them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete
from sqlalchemy.orm import Session

from decoder.kinds.interface import decoder_of
from decoder_service.people.access import Resources
from decoder_service.people.permissions import Act, Person, own_results, require, visible_results
from decoder_service.results.rows import RESULT_FILES, delete_unheld, give_up, load_results
from decoder_service.shell.database import shown, visible_row
from decoder_service.shell.errors import RoleError
from decoder_service.shell.models import ResultRow, result_readers
from rappor_server.errors import NotFoundError, RequestError

MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "geojson": "application/geo+json",
    "parquet": "application/vnd.apache.parquet",
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class ResultView:
    """A result as one person sees it.

    own: whether a job of the person had it, who may release it.  later: the
    result of a later version from the same inputs, if the person may see it.
    """

    row: ResultRow
    own: bool
    files: Sequence[Any]
    later: ResultRow | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Results(Resources[ResultRow]):
    """What people may do with results. Each call asks for the role, and sees what it may."""

    model = ResultRow
    visible = visible_results
    act = Act.READ
    order = (ResultRow.created.desc(), ResultRow.id)

    def view(self, person: Person, result_id: str) -> ResultView:
        """A result with its files, by name; the whole list of candidates only where it is one's
        own result. Raises as `get`."""
        require(person, Act.READ)
        with self.database.reading() as db:
            row = self.one(db, person, result_id)
            own = self._is_own(db, person, result_id)
            files = RESULT_FILES.list(db, result_id)
            superseding = visible_results(person) & (ResultRow.supersedes == result_id)
            later = load_results(db, superseding, 1)
        return ResultView(
            row=row,
            own=own,
            files=[file for file in files if own or not is_list(file.name)],
            later=later[0] if later else None,
        )

    def _is_own(self, db: Session, person: Person, result_id: str) -> bool:
        which = own_results(person) & (ResultRow.id == result_id)
        return bool(load_results(db, which, 1))

    def file(self, person: Person, result_id: str, name: str) -> bytes:
        """The bytes of a file; the read is audited. Raises as `get`."""
        self.get(person, result_id)
        with self.database.reading() as db:
            hidden = is_list(name) and not self._is_own(db, person, result_id)
            content = None if hidden else RESULT_FILES.read(db, result_id, name)
        if content is None:
            raise NotFoundError(
                f"result {result_id} has no file {name[:70]!a}; "
                f"GET /v1/results/{result_id} names them"
            )
        with self.database.writing() as db:
            self.access.note(db, person, "read-result", result=result_id, file=name)
        return content

    def release(self, person: Person, result_id: str, released: bool) -> ResultRow:
        """Show a result of one's own to every viewer, or take back what one released. Raises as
        `get`, and RoleError where another person released it."""
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            row = visible_row(db, ResultRow, own_results(person), result_id)
            unshared = decoder_of(row.kind).unshared
            if released and unshared:
                raise RequestError(unshared)
            if row.released == released:
                return row
            if not may_take_back(person, row):
                raise RoleError(
                    "another person released this result; only they and admins take it back"
                )
            row.released, row.released_by = released, person.id if released else None
            self.access.note(db, person, "release-result", result=result_id, released=released)
            return row

    def give_up(self, person: Person, result_id: str) -> bool:
        """Take a result from its holder; it is deleted when nobody holds it.

        An admin who does not hold it takes it from everybody.

        Returns:
            Whether it is gone permanently.

        Raises:
            As `get`, and RequestError for a result that is released.
        """
        require(person, Act.ANALYZE)
        with self.database.writing() as db:
            row = visible_row(db, ResultRow, own_results(person), result_id)
            if row.released:
                raise RequestError("the result is released: take it back first")
            if not give_up(db, result_id, person.id):
                db.execute(delete(result_readers).where(result_readers.c.result_id == result_id))
            self.access.note(db, person, "give-up-result", result=result_id)
            return bool(delete_unheld(db, result_id))


def may_take_back(person: Person, row: ResultRow) -> bool:
    """Whether a release is not another person's."""
    return person.is_admin or row.released_by in (None, person.id)


def is_list(name: str) -> bool:
    """Whether a file holds the whole list of candidates, which is sensitive."""
    return name.startswith("candidates.")


def media_type(name: str) -> str:
    """The media type of a file, by the ending of its name."""
    return MEDIA_TYPES.get(name.rpartition(".")[2], "application/octet-stream")


def shown_result(row: ResultRow, person: Person) -> dict[str, Any]:
    """A result as it may be listed."""
    names = "id operation kind metric params_id first_day last_day version supersedes released"
    public = shown(row, f"{names} created")
    return public | {"summary": json.loads(row.summary), "manifest": shown_manifest(row, person)}


def shown_manifest(row: ResultRow, person: Person) -> dict[str, Any]:
    """What a result was made from; viewers do not see whose list that was."""
    manifest: dict[str, Any] = json.loads(row.manifest)
    if not person.may(Act.ANALYZE):
        manifest.pop("spec", None)
    return manifest
