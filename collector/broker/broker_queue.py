"""The front, which checks a batch immediately and answers when the broker has stored it.

"Stored" means stored on all in-sync replicas. The front counts nothing. The answer for each report
is based on metrics and closed days that were read at most a second ago. The day of receipt is sent
with the batch.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter, sleep
from typing import Any

from collector.broker.client import load_library, make_producer, partitions_of, reason_of
from collector.broker.counting import encode_message
from collector.domain.batch_writer import Receipt, receipt_of, too_large
from collector.domain.clock import latest_day, today
from collector.domain.commit_queue import Backlog, deliver
from collector.domain.operations import Collector
from collector.domain.registry import Registry
from collector.domain.report_validation import Day, ReportJudge, Tally
from collector.domain.submission import Submission
from collector.errors import CollectorError
from collector.settings import Settings
from collector.store.broker import begin
from rappor_server.errors import BodyTooLargeError, OverloadedError, SettingsError, StorageError
from rappor_server.logs import Log

REGISTRY_SECONDS = 1.0  # between two reads of the metrics and closed days
_POLL_SECONDS = 0.05
_CHECK_SECONDS = 2.0  # the time limit for the broker to answer a readiness probe
_DAY_MS = 86_400_000
_LARGE_BATCH = 1_000  # reports; checked on a separate thread, so that small batches need not wait


@dataclass(slots=True)
class _Waiting:
    """A batch that waits for the broker."""

    future: asyncio.Future[CollectorError | None]  # awaited by the request
    reports: int
    size: int  # the size of the message in bytes
    started: float
    error: CollectorError | None = None  # why the batch was not stored


class BrokerQueue:
    """The front's queue, which passes batches to the broker; used instead of `CommitQueue`.

    After a defect, waiting batches are answered as not stored.
    """

    keeps_bodies = True  # the body is stored as it arrived

    def __init__(
        self,
        settings: Settings,
        collector: Collector,
        judge: ReportJudge,
        on_commit: Callable[[float, bool], None],
        log: Log,
    ) -> None:
        """Prepare the queue; connect to nothing yet.

        Args:
            settings: The settings, with a broker.
            collector: The collector, whose metrics are read again every second.
            judge: The checker for individual reports.
            on_commit: A function that is called with (seconds, failed) for each group of batches.
            log: The log, which records defects.
        """
        self._settings, self._collector, self._judge = settings, collector, judge
        self._on_commit, self._log = on_commit, log
        self._make_producer = partial(make_producer, settings, log)
        self._topic = settings.broker_topic
        self._registry: Registry | None = None
        self._producer: Any = None
        self._lock = threading.Lock()
        self._backlog = Backlog(settings.max_queued_bytes)
        self._broken = False  # whether the producer must be replaced
        self._done: list[_Waiting] = []
        self._library: Any = None
        self._thread = threading.Thread(target=self._run, name="broker-producer", daemon=True)
        self._stopped = threading.Event()
        self._reader = threading.Thread(target=self._reread, name="registry", daemon=True)

    @property
    def queued_reports(self) -> int:
        """Return the number of reports that wait for the broker at the moment."""
        return self._backlog.reports

    def check(self) -> None:
        """Raise StorageError if the broker does not answer, or no longer has the topic."""
        try:
            partitions_of(self._producer, self._topic, _CHECK_SECONDS)
        except SettingsError as error:
            raise StorageError(str(error)) from error

    def start(self) -> None:
        """Connect to the broker.

        Raises SettingsError if the library or the topic is missing, and StorageError if the
        database or the broker is unreachable.
        """
        self._library = load_library()
        self._producer = self._make_producer()
        partitions_of(self._producer, self._topic)
        today = self._collector.today
        with self._collector.database.change() as connection:
            begin(connection, today)  # from now on, days close once all their reports are counted
        self._registry = self._collector.registry()
        self._reader.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop accepting batches, and wait for the broker's answers for all accepted batches."""
        with self._lock:
            self._backlog.is_closed = True
        if self._thread.is_alive():
            self._thread.join()
        self._stopped.set()
        if self._reader.is_alive():
            self._reader.join()

    def _reread(self) -> None:
        while not self._stopped.wait(REGISTRY_SECONDS):
            try:
                self._registry = self._collector.registry()
            except StorageError:
                continue  # the maintenance logs it
            except Exception as error:  # such as a definition that this code cannot read
                self._log.crash(error)

    async def submit(self, submission: Submission) -> Receipt:
        """Pass a batch to the broker, and return its receipt once it is stored.

        Raises the error if the batch is not stored. A batch whose reports are all rejected is not
        stored, because there is nothing to count.
        """
        most, clock = self._settings.max_batch_reports, self._collector.clock
        if submission.batch.num_reports > most:
            raise too_large(submission.batch, most)
        day = today(clock)  # if the clock is suspect, the consumer accepts no later days
        received = Day(day, min(latest_day(clock, self._settings.clock_skew), day + 1))
        if submission.batch.num_reports > _LARGE_BATCH:
            receipt = await asyncio.to_thread(self._judged, submission, received)
        else:
            receipt = self._judged(submission, received)
        if receipt.accepted:
            assert submission.content is not None  # noqa: S101 (keeps_bodies)
            value = encode_message(submission.content, received, receipt.accepted)
            await self._store(value, submission.batch.num_reports, received)
        return receipt

    def _judged(self, submission: Submission, received: Day) -> Receipt:
        if self._registry is None:
            raise StorageError("the metrics were not read yet")
        verdict = self._judge.judge(submission.batch, self._registry, received, Tally())
        return receipt_of(submission.batch, verdict)

    async def _store(self, value: bytes, reports: int, received: Day) -> None:
        future: asyncio.Future[CollectorError | None] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(future, reports, len(value), perf_counter())
        with self._lock:  # so that the producer is not replaced in the meantime
            self._backlog.take(reports, waiting.size)
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    timestamp=received.today * _DAY_MS,  # the day, not the time of day
                    on_delivery=partial(self._on_delivery, waiting),
                )
            except (BufferError, self._library.KafkaException) as error:
                self._backlog.give(reports, waiting.size)
                raise self._refusal(error) from error
        if (failure := await future) is not None:
            raise failure

    def _refusal(self, error: Exception) -> CollectorError:
        """Return the error that answers a batch that the library rejected or the broker lost."""
        if isinstance(error, BufferError):
            return OverloadedError("too many batches are waiting; send again later")
        cause = error.args[0]
        if cause.code() == self._library.KafkaError.MSG_SIZE_TOO_LARGE:
            return BodyTooLargeError("the body is larger than a message of the broker can be")
        if cause.fatal() or cause.code() == self._library.KafkaError._FATAL:
            self._broken = True
        return StorageError(f"the broker did not store a batch: {reason_of(error)}")

    def _on_delivery(self, waiting: _Waiting, error: Any, _message: Any) -> None:
        with self._lock:
            self._backlog.give(waiting.reports, waiting.size)
        if error is not None:
            waiting.error = self._refusal(self._library.KafkaException(error))
        self._done.append(waiting)

    def _run(self) -> None:
        while not self._backlog.is_closed or self._backlog.reports:
            try:
                if self._broken:
                    self._replace_producer()
                self._producer.poll(_POLL_SECONDS)
                self._answer()
            except Exception as error:  # a defect must not leave requests waiting forever
                self._log.crash(error)
                self._broken = True
                sleep(_POLL_SECONDS)

    def _answer(self) -> None:
        done, self._done = self._done, []
        if done:
            deliver([(item.future, item.error) for item in done])
            self._on_commit(
                perf_counter() - min(item.started for item in done),
                isinstance(done[-1].error, StorageError),
            )

    def _replace_producer(self) -> None:
        """Replace the producer after an error from which the library cannot recover.

        Batches in the old producer are answered as not stored; they may be sent again.
        """
        old = self._producer
        self._give_up(old)
        new = self._make_producer()
        with self._lock:
            self._producer = new
        self._give_up(old)  # messages that it accepted in the meantime
        self._broken = False

    def _give_up(self, producer: Any) -> None:
        producer.purge()
        producer.flush(_POLL_SECONDS)
        self._answer()
