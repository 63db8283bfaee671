"""The transaction that counts reports, with all waiting batches in one commit."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection

from collector.domain.clock import Clock, latest_day, today
from collector.domain.registry import Registry, load_registry
from collector.domain.report_validation import (
    Day,
    Refusal,
    ReportJudge,
    Tally,
    Verdict,
    decode_results,
    encode_results,
)
from collector.domain.submission import Submission
from collector.errors import BatchConflictError, BatchTooLargeError
from collector.store.batches import BatchRow, hash_of_id, keyed_digest
from collector.store.counters import sum_cells
from collector.store.database import CollectorDatabase
from collector.store.group_commit import statements
from collector.store.raw import keep_raw
from rappor_core.wire.report import MAX_REPORTS, GroupedBatch
from rappor_server.errors import ConflictError

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result for a batch, as its sender gets it: a refusal or None for each report."""

    batch_id: str
    duplicate: bool  # the batch was already counted, with these results
    results: Sequence[Refusal | None]
    accepted: int  # the number of results that are None
    implausible: int = 0  # see `Verdict.implausible`


Outcome = Receipt | BatchConflictError | BatchTooLargeError
AlsoInTransaction = Callable[[Connection, Sequence[Outcome]], None]


class ReportWriter:
    """A writer that counts batches in one transaction. Used by one thread."""

    def __init__(
        self,
        database: CollectorDatabase,
        judge: ReportJudge,
        clock: Clock,
        skew: timedelta,
        max_reports: int = MAX_REPORTS,
    ) -> None:
        """Prepare the writer; count nothing yet.

        Args:
            database: A database; one connection is enough.
            judge: The checker for individual reports.
            clock: The time, UTC.
            skew: The maximum time by which a device's clock may be ahead.
            max_reports: The maximum number of reports in a batch that was not counted before.
        """
        self._database = database
        self._max_reports = max_reports
        self._judge = judge
        self._clock = clock
        self._skew = skew
        self._statements = statements(is_postgresql=database.is_postgresql)
        self._registry: Registry | None = None

    def write(
        self, submissions: Sequence[Submission], also: AlsoInTransaction | None = None
    ) -> list[Outcome]:
        """Count the batches and, once they are on disk, return the answers in order.

        `also` is called at the end of the transaction; an error that it raises rolls everything
        back.

        Raises StorageError if nothing was counted, or if the outcome is unknown because the
        connection broke during the commit. Batch ids make it safe to resend in both cases.
        """
        for _ in range(_ATTEMPTS - 1):
            with suppress(ConflictError):
                return self._write_once(submissions, also)
        return self._write_once(submissions, also)

    def _write_once(
        self, submissions: Sequence[Submission], also: AlsoInTransaction | None
    ) -> list[Outcome]:
        now = Day(today(self._clock), latest_day(self._clock, self._skew))
        keys = [_key(submission) for submission in submissions]
        tally, fresh, outcomes = Tally(), dict[bytes, BatchRow](), list[Outcome]()
        with self._database.add() as connection:
            hashes = [hashed for hashed, _ in keys]
            version, stored = self._statements.open(connection, hashes)
            if self._registry is None or self._registry.version != version:
                self._registry = load_registry(connection, self._registry)
            for submission, (hashed, digest) in zip(submissions, keys, strict=True):
                before = stored.get(hashed) or fresh.get(hashed)
                if before is not None:
                    outcomes.append(_answer_again(submission, digest, before))
                    continue
                if submission.batch.num_reports > self._max_reports:
                    outcomes.append(too_large(submission.batch, self._max_reports))
                    continue
                verdict = self._judge.judge(
                    submission.batch, self._registry, submission.received or now, tally
                )
                if verdict.accepted:
                    results = encode_results(verdict.results)
                    num_reports = submission.batch.num_reports
                    fresh[hashed] = BatchRow(hashed, digest, verdict.expires, num_reports, results)
                outcomes.append(receipt_of(submission.batch, verdict))
            keep_raw(connection, tally.raw)
            sums = sum_cells(tally.additions)
            self._statements.save(connection, sums, sorted(fresh.values()))
            if also is not None:
                also(connection, outcomes)
        return outcomes


def _key(submission: Submission) -> tuple[bytes, bytes]:
    batch_id = bytes.fromhex(submission.batch.batch_id)
    return hash_of_id(batch_id), keyed_digest(batch_id, submission.digest)


def receipt_of(batch: GroupedBatch, verdict: Verdict) -> Receipt:
    """Return the receipt of a newly counted batch, from the verdict on its reports."""
    return Receipt(batch.batch_id, False, verdict.results, verdict.accepted, verdict.implausible)


def too_large(batch: GroupedBatch, max_reports: int) -> BatchTooLargeError:
    """Return the error for a new batch that is too large, so that its sender can split it."""
    return BatchTooLargeError(
        f"{batch.num_reports} reports in a batch; at most {max_reports} are accepted here, and "
        "none was counted: send it in parts",
        max_reports=max_reports,
    )


def _answer_again(submission: Submission, digest: bytes, before: BatchRow) -> Outcome:
    if bytes(before.digest) != digest:
        return BatchConflictError(
            f"batch {submission.batch.batch_id} came before with another body; a batch that is "
            "changed needs a new random id"
        )
    results = decode_results(bytes(before.results), before.num_reports)
    return Receipt(submission.batch.batch_id, True, results, results.count(None))
