"""Rules for aggregates that people upload: who may store and read them."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from decoder_service.aggregates import rows
from decoder_service.jobs.known_counts import shape_of
from decoder_service.people.access import AuditedOperations
from decoder_service.people.permissions import Act, Person, require, visible_aggregates
from decoder_service.shell.errors import NotFoundError, QuotaError
from decoder_service.shell.models import AggregateRow
from decoder_service.worker.uploads import Reader
from rappor_core.aggregate import Aggregate
from rappor_core.errors import AggregateError, MetricsFileError, ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregates(AuditedOperations):
    """Operations on uploaded aggregates, which are known by their digest. Each checks the
    person's role."""

    reader: Reader

    def upload(self, person: Person, content: bytes) -> AggregateRow:
        """Store an aggregate file. Raises RoleError, QuotaError, and RapporError if it is no
        aggregate file."""
        require(person, Act.ANALYSE)
        row = self.reader.read(described, content, self.now())
        with self.database.writing() as db:
            held = rows.aggregate_bytes_of(db, person.id) + len(row.content)
            most = self.settings.max_stored_bytes_of_person
            if held > most:
                raise QuotaError(f"your aggregates would hold {held:,} bytes, above {most:,}")
            rows.save_aggregate(db, row, person.id)
            self.access.note(db, person, "upload-aggregate", sha256=row.sha256)
        return row

    def all(self, person: Person, limit: int = 1000) -> list[AggregateRow]:
        """The aggregates that a person may decode, newest first, without the counts. Raises
        RoleError."""
        require(person, Act.ANALYSE)
        with self.database.reading() as db:
            return rows.load_aggregates(db, visible_aggregates(person), limit)

    def get(self, person: Person, sha: str) -> AggregateRow:
        """The aggregate of a digest, without the counts. Raises RoleError, NotFoundError."""
        require(person, Act.ANALYSE)
        with self.database.reading() as db:
            which = visible_aggregates(person) & (AggregateRow.sha256 == sha)
            found = rows.load_aggregates(db, which, 1)
        if not found:
            raise NotFoundError(
                f"there is no aggregate {sha[:70]!a} that you may see; upload its file"
            )
        return found[0]


def described(content: bytes | str, at: float) -> AggregateRow:
    """The row of an aggregate file, with its bytes in the canonical form that digests are made of.

    Raises AggregateError, WireFormatError.
    """
    try:
        one = Aggregate.from_json(content)
    except (ParameterError, MetricsFileError) as error:  # of its parameters, its definition
        raise AggregateError(str(error)) from error
    text = one.to_json().encode()
    num_cohorts, own_values = shape_of(one.definition, one.params)
    return AggregateRow(
        sha256=sha256(text).hexdigest(),
        metric=one.metric,
        params_id=one.params_id,
        first_day=one.first_day.isoformat() if one.first_day else None,
        last_day=one.last_day.isoformat() if one.last_day else None,
        num_reports=one.num_reports,
        content=text,
        created=at,
        kind=str(one.definition["kind"])[:32] if "kind" in one.definition else None,
        num_cohorts=num_cohorts,
        own_values=own_values,
    )
