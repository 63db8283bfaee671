"""What a release is made of: results of one's own, and the releases that were approved before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from decoder.kinds.interface import DECODERS, decoder_of
from decoder_service.jobs.specs import ReleaseSource
from decoder_service.people.permissions import Person, own_results, visible_results
from decoder_service.releases import rows
from decoder_service.releases.publishing import Files, SourceTables
from decoder_service.results.files import RELEASE_FILES, RESULT_FILES
from decoder_service.results.rows import load_results
from decoder_service.shell.database import visible_row
from decoder_service.shell.errors import QuotaError, RequestError
from decoder_service.shell.models import ReleaseRow, ResultRow

MAX_SOURCE_BYTES = 64 << 20  # of the files of all results of a release


@dataclass(frozen=True, slots=True)
class SourceState:
    """A result that a release is made of, as it is now.

    strata: what its reports were filtered by.  is_there: whether one may see it; otherwise it was
    deleted or given up.  superseded_by: a later decoder's result from the same inputs, if one may
    see it.
    """

    result: str
    strata: Mapping[str, str]
    is_there: bool
    superseded_by: str | None


@dataclass(frozen=True, slots=True)
class Before:
    """What a release is built on. earlier: files of the approved ones of its metrics.

    base: the last one of its name.  number, numbers: its place among those of its name, and of
    each of its metrics.
    """

    earlier: list[Files]
    base: str | None
    base_files: Files | None
    number: int
    numbers: dict[str, int]


def offered_results(db: Session, person: Person, limit: int) -> list[ResultRow]:
    """Results of one's own that a release can be made of, newest first."""
    which = (
        own_results(person) & ResultRow.kind.in_(_published()) & (ResultRow.operation == "decode")
    )
    return load_results(db, which, limit)


def load_sources(
    db: Session, person: Person, asked: Sequence[ReleaseSource]
) -> tuple[list[SourceTables], list[str]]:
    """The files of results that are one's own, and the metrics that they are of.

    Raises NotFoundError, RequestError, QuotaError.
    """
    published = _published()
    found, metrics, left = [], set[str](), MAX_SOURCE_BYTES
    if len({one.result for one in asked}) < len(asked):
        raise RequestError("a result stands there twice")
    for one in asked:
        row = visible_row(db, ResultRow, own_results(person), one.result)
        if row.kind not in published or row.operation != "decode":
            raise RequestError(
                f"result {one.result}: a {row.operation} of kind {row.kind} is not "
                f"released; a decode of kind {' or '.join(published)} is"
            )
        names = published[row.kind]
        listed = [file for file in RESULT_FILES.list(db, one.result) if file.name in names]
        left -= sum(file.size for file in listed)
        if left < 0:
            raise QuotaError(f"the results are larger than {MAX_SOURCE_BYTES:,} bytes together")
        files = {file.name: RESULT_FILES.read(db, one.result, file.name) or b""
                 for file in listed}  # fmt: skip
        found.append(SourceTables(one.result, files, one.strata))
        metrics.add(row.metric)
    return found, sorted(metrics)


def _published() -> dict[str, tuple[str, ...]]:
    """The files that a release is made of, by the kinds of metric that have such."""
    return {name: files for name in DECODERS if (files := decoder_of(name).published)}


def approved_before(db: Session, name: str, metrics: Sequence[str]) -> Before:
    """What the next release of `name`, of these metrics, is built on.

    The approved releases that share a metric with it, or with one that does, whatever their names:
    whatever was published stays known. Beside them the last one of the same name, and the numbers
    that the next release has, of its name and of each metric.
    """
    base, count = rows.last_approved(db, name)
    numbers = rows.approved_numbers(db, metrics)
    return Before(
        [files_of(db, one) for one in _chain_of(db, metrics)],
        base,
        None if base is None else files_of(db, base),
        count + 1,
        {metric: number + 1 for metric, number in numbers.items()},
    )


def _chain_of(db: Session, metrics: Sequence[str]) -> list[str]:
    """Approved releases that share a metric with these, or with one that does; oldest first."""
    known = set(metrics)
    while True:
        found = rows.approved_of(db, known)
        linked = known.union(*(rows.numbers_of(db, one) for one in found))
        if linked == known:
            return found
        known = linked


def files_of(db: Session, release_id: str) -> Files:
    """The stored files of a release; of one that is deleted no bytes."""
    names = [file.name for file in RELEASE_FILES.list(db, release_id)]
    return {name: RELEASE_FILES.read(db, release_id, name) or b"" for name in names}


def source_states(
    db: Session, person: Person, asked: Sequence[Mapping[str, Any]]
) -> list[SourceState]:
    """The results of a release, as its proposal names them, and what became of them since."""
    seen, found = visible_results(person), []
    for one in asked:
        there = load_results(db, seen & (ResultRow.id == one["result"]), 1)
        later = load_results(db, seen & (ResultRow.supersedes == one["result"]), 1)
        newer = later[0].id if later else None
        found.append(SourceState(one["result"], one["strata"], bool(there), newer))
    return found


def is_stale(db: Session, row: ReleaseRow) -> bool:
    """Whether another one was approved that a release was not built on."""
    _, count = rows.last_approved(db, row.name)
    own = rows.numbers_of(db, row.id)
    now = rows.approved_numbers(db, own)
    return row.number <= count or any(own[metric] <= now[metric] for metric in own)
