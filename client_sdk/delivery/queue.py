"""The queue of reports to send; queuing, composing and acknowledging are one transaction each."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

from client_sdk.delivery.messages import Answer, make_body, read_body, shuffled
from client_sdk.delivery.options import Delivery
from client_sdk.randomization.key_derivation import Randomness
from client_sdk.storage.interface import STOP_REASONS, Stop
from client_sdk.storage.sqlite import SqliteState
from rappor_core.calendar import SECONDS_A_DAY, date_of, day_of
from rappor_core.wire.report import Report

BATCH_ID_BYTES = 16
COHORT_BYTES = 2
MAX_BODY_BYTES = 58_000  # the limit for a batch's reports, because proxies accept bodies of 64 KiB
REPORT_OVERHEAD = 32  # the approximate bytes per queued report in the file, in addition to its bits

INSERT = "INSERT INTO batches (batch_id, reports, last_day, body) VALUES (?, ?, ?, ?)"
MEMBERS = """
    SELECT metric, params_id, cohort, day, bits FROM queue JOIN sources ON sources.id = source
"""


class StoredBatch(NamedTuple):
    """A composed batch, whose bytes are sent unchanged until the collector has answered."""

    number: int
    batch_id: str
    reports: int
    body: bytes


class ReportQueue:
    """The sender's view of the client state, used by one thread under the sender's lock."""

    def __init__(
        self,
        state: SqliteState,
        delivery: Delivery,
        randomness: Randomness,
        clock: Callable[[], float] = time.time,
        stopped: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Open the queue on a connection that belongs to the sender.

        `clock` returns seconds since 1970. `stopped` is called with the name of each metric that
        the collector has stopped or resumed.
        """
        self._state = state
        self._clock = clock
        self._stopped = stopped
        self._delivery = delivery
        self._randomness = randomness
        self.num_lost = 0  # reports that were rejected or dropped since the app started
        self.last_loss = ""  # the reason under which the last loss was counted

    def compose(self) -> None:
        """Divide all queued reports at random into batches of one metric each, and store these."""
        query = (
            "SELECT metric, queue.id, length(bits) FROM queue JOIN sources ON sources.id = source"
        )
        for numbers in self._partition(self._state.rows(query)):
            self._compose_one(numbers)

    def batches(self) -> Iterator[StoredBatch]:
        """Yield the stored batches in random order, each read just before it is yielded."""
        numbers = [number for (number,) in self._state.rows("SELECT id FROM batches ORDER BY id")]
        query = "SELECT id, batch_id, reports, body FROM batches WHERE id = ?"
        for chosen in shuffled(numbers, self._randomness):
            for number, batch_id, reports, body in self._state.rows(query, (chosen,)):
                yield StoredBatch(number, batch_id.hex(), reports, body)

    def waiting(self) -> int:
        """Return the number of waiting batches, or 1 if there are none, to divide the delay by."""
        query = (
            "SELECT (SELECT count(*) FROM batches) + count(DISTINCT metric) "
            "FROM queue JOIN sources ON sources.id = source"
        )
        return max(1, int(self._state.rows(query)[0][0]))

    def ack(self, batch: StoredBatch, answer: Answer) -> None:
        """Delete an answered batch, count its results, and store which metrics were stopped."""
        groups = read_body(batch.body).groups
        versions = [(group.metric, group.params_id) for group in groups for _ in group.rows]
        outcomes, reasons = Counter[str](), dict[tuple[str, str], str]()
        for version, result in zip(versions, answer.results, strict=True):
            word = f":{result.reason}" if not result.accepted else ""
            outcomes[f"{'refused' if word else 'accepted'}:{version[0]}{word}"] += 1
            reasons[version] = result.reason
        with self._state.transaction():
            for (metric, params_id), reason in reasons.items():
                self._stop(metric, params_id, reason)
            self._forget(batch, outcomes)

    def _stop(self, metric: str, params_id: str, reason: str) -> None:
        """Store that a metric is stopped, or resumed if `reason` is not in STOP_REASONS."""
        before = self._state.stop(metric)
        if reason in STOP_REASONS:
            self._state.put_stop(metric, Stop(reason, params_id, self._clock() + SECONDS_A_DAY))
        elif before is not None and before.params_id == params_id:
            self._state.put_stop(metric, None)
        else:
            return
        self._stopped(metric)

    def discard(self, batch: StoredBatch, reason: str) -> None:
        """Delete a batch that the collector will never accept."""
        self._forget(batch, Counter({f"dropped:{reason}": batch.reports}))

    def trim(self) -> None:
        """Enforce the limits on count and size: drop the oldest batches, then queued reports."""
        most, most_bytes = self._delivery.max_queued, self._delivery.max_queued_bytes
        number, size, _ = self._waiting()
        if number <= most and size <= most_bytes:
            return
        with self._state.transaction() as database:
            while True:
                number, size, batches = self._waiting()
                if number <= most and size <= most_bytes:
                    return
                if batches:
                    oldest = "SELECT id, reports FROM batches ORDER BY id LIMIT 1"
                    ((row, dropped),) = database.execute(oldest).fetchall()
                    database.execute("DELETE FROM batches WHERE id = ?", (row,))
                else:
                    excess = number - min(most, number * most_bytes // size)
                    oldest = "id IN (SELECT id FROM queue ORDER BY id LIMIT ?)"
                    dropped = self._take_out(oldest, (excess,))
                self._count("dropped:queue_full", dropped)

    def _waiting(self) -> tuple[int, int, int]:
        """Return how many reports, bytes and batches are waiting, without acquiring a lock."""
        query = "SELECT count(*), coalesce(sum(length(bits)), 0) FROM queue"
        ((queued, bits),) = self._state.rows_aside(query)
        query = (
            "SELECT count(*), coalesce(sum(reports), 0), coalesce(sum(length(body)), 0) "
            "FROM batches"
        )
        ((batches, composed, size),) = self._state.rows_aside(query)
        return queued + composed, size + bits + REPORT_OVERHEAD * queued, batches

    def drop_older_than(self, day: int) -> None:
        """Drop reports for days before `day`, which no collector accepts anymore."""
        with self._state.transaction() as database:
            old = "SELECT coalesce(sum(reports), 0) FROM batches WHERE last_day < ?"
            (composed,) = database.execute(old, (day,)).fetchone()
            database.execute("DELETE FROM batches WHERE last_day < ?", (day,))
            dropped = composed + self._take_out("day < ?", (day,))
            if dropped:
                self._count("dropped:too_old", dropped)

    def _partition(self, rows: Sequence[tuple[str, int, int]]) -> Iterator[list[int]]:
        """Yield the row numbers of each batch: shuffled reports of a single metric.

        `rows` contains tuples (metric, row number, bytes). The cohorts of several metrics in one
        batch would be a fingerprint of the device.
        """
        for _, group in groupby(sorted(rows), lambda row: row[0]):
            numbers, sizes = zip(*[row[1:] for row in group], strict=True)
            fitting = MAX_BODY_BYTES // (max(sizes) + COHORT_BYTES)
            most = max(1, min(self._delivery.batch_reports, fitting))
            order = shuffled(numbers, self._randomness)
            yield from (order[start : start + most] for start in range(0, len(order), most))

    def _compose_one(self, numbers: list[int]) -> None:
        """Replace queued reports with one batch, which is encoded before the lock is acquired."""
        among = f"id IN ({','.join('?' * len(numbers))})"
        rows = self._state.rows(f"{MEMBERS} WHERE queue.{among}", tuple(numbers))
        if len(rows) != len(numbers):
            return  # trimmed or wiped in the meantime; the next round sends the rest
        reports = [
            Report(metric, params_id, cohort, date_of(day), bits)
            for metric, params_id, cohort, day, bits in rows
        ]
        batch = self._row(reports)
        with suppress(_MembersGoneError), self._state.transaction() as database:
            if self._take_out(among, tuple(numbers)) != len(numbers):
                raise _MembersGoneError  # as above, but at the last moment: roll back
            database.execute(INSERT, batch)

    def _row(self, reports: Sequence[Report]) -> tuple[object, ...]:
        batch_id = self._randomness(BATCH_ID_BYTES)
        body = make_body(batch_id, reports, pad_to=self._delivery.pad_to)
        return batch_id, len(reports), max(day_of(report.day) for report in reports), body

    def split(self, batch: StoredBatch) -> bool:
        """Split a batch that the collector finds too large into two halves.

        Return False if the batch has only one report. Raises WireFormatError if it is damaged.
        """
        if batch.reports < 2:
            return False
        reports = read_body(batch.body).ungrouped().reports
        order = [reports[index] for index in shuffled(range(len(reports)), self._randomness)]
        middle = len(order) // 2
        rows = [self._row(half) for half in (order[:middle], order[middle:])]
        with self._state.transaction() as database:
            if database.execute("DELETE FROM batches WHERE id = ?", (batch.number,)).rowcount:
                database.executemany(INSERT, rows)
        return True

    def _take_out(self, where: str, values: tuple[object, ...]) -> int:
        with self._state.transaction() as database:
            # `where` is a constant from this module; values are bound parameters
            query = f"SELECT count(*), entry FROM queue WHERE {where} GROUP BY entry"  # noqa: S608
            counts = database.execute(query, values).fetchall()
            database.executemany("UPDATE entries SET reports = reports + ? WHERE id = ?", counts)
            delete = f"DELETE FROM queue WHERE {where}"  # noqa: S608
            return database.execute(delete, values).rowcount

    def _count(self, outcome: str, number: int) -> None:
        self._state.count(outcome, number)
        if not outcome.startswith("accepted:"):
            self.num_lost += number
            self.last_loss = outcome

    def _forget(self, batch: StoredBatch, outcomes: Counter[str]) -> None:
        with self._state.transaction() as database:
            gone = database.execute("DELETE FROM batches WHERE id = ?", (batch.number,)).rowcount
            for name, number in outcomes.items() if gone else ():
                self._count(name, number)


class _MembersGoneError(Exception):
    """An internal error that rolls back a transaction; it never leaves this module."""
