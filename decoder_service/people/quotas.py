"""What people have stored, and the limits of their roles."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from decoder_service.lists.aggregates import aggregate_bytes_of
from decoder_service.lists.rules import list_bytes_of
from decoder_service.people.permissions import Act, Person, Role, require
from decoder_service.results.rows import result_bytes_of
from decoder_service.shell.database import total
from decoder_service.shell.errors import QuotaError
from decoder_service.shell.models import LIVE, JobRow, PersonRow
from decoder_service.shell.operations import Operations
from decoder_service.shell.settings import ServiceSettings

_WAY_OUT = "give up results that you do not need: on their pages, or by DELETE /v1/results/ID"


def max_result_bytes(settings: ServiceSettings, role: Role) -> int:
    """The most bytes of results that a person of a role may hold."""
    is_admin = role is Role.ADMIN
    return settings.max_result_bytes_of_admin if is_admin else settings.max_result_bytes_of_analyst


def max_jobs(settings: ServiceSettings, role: Role) -> int:
    """The most jobs of a person of a role that wait or run."""
    return settings.max_jobs_of_admin if role is Role.ADMIN else settings.max_jobs_of_analyst


def check_room(db: Session, settings: ServiceSettings, person: str, role: Role) -> None:
    """Raises QuotaError where a person's results fill what the role allows: no job may start."""
    held, most = result_bytes_of(db, person), max_result_bytes(settings, role)
    if held >= most:
        raise QuotaError(
            f"your results hold {held:,} bytes; a role of {role} may hold {most:,}: {_WAY_OUT}"
        )


def check_held(db: Session, settings: ServiceSettings, person: str, role: Role) -> None:
    """Raises QuotaError where a result that was just given to a person is too much.

    Until the transaction ends no other one gives that person a result.
    """
    owner = select(PersonRow.id).where(PersonRow.id == person)
    db.execute(owner.with_for_update(key_share=True))  # on PostgreSQL
    held, most = result_bytes_of(db, person), max_result_bytes(settings, role)
    if held > most:
        raise QuotaError(
            f"with this result yours would hold {held:,} bytes; a role of {role} may hold "
            f"{most:,}: {_WAY_OUT}"
        )


def count_live(db: Session, owner: str) -> int:
    """Number of a person's jobs that wait or run."""
    return total(db, select(func.count()).where(JobRow.owner == owner, JobRow.state.in_(LIVE)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage(Operations):
    """A person's stored bytes and jobs, with their limits."""

    def of(self, person: Person) -> dict[str, dict[str, int]]:
        """A person's bytes of results, lists and aggregates, and jobs that wait or run (`held`),
        each with its limit (`most`). Raises RoleError."""
        require(person, Act.ANALYSE)
        settings, role = self.settings, person.role
        most = settings.max_stored_bytes_of_person
        with self.database.reading() as db:
            amounts = {
                "result_bytes": (result_bytes_of(db, person.id), max_result_bytes(settings, role)),
                "list_bytes": (list_bytes_of(db, person.id), most),
                "aggregate_bytes": (aggregate_bytes_of(db, person.id), most),
                "jobs": (count_live(db, person.id), max_jobs(settings, role)),
            }
        return {name: {"held": held, "most": most} for name, (held, most) in amounts.items()}
