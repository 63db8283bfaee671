"""The front: judges a batch at once, and answers when all in-sync replicas of the broker have
stored it.

Nothing is counted here. What the answer says of each report is decided by the metrics and closed
days as the database had them a second ago; the day of receipt travels with the batch.
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

REGISTRY_SECONDS = 1.0  # between two looks at the metrics and closed days
_POLL_SECONDS = 0.05
_CHECK_SECONDS = 2.0  # for the broker to answer a probe of readiness
_DAY_MS = 86_400_000
_LARGE_BATCH = 1_000  # reports; judged on another thread, so that small ones need not wait


@dataclass(slots=True)
class _Waiting:
    """future: of the request.  size: bytes of the message.  error: why it was not stored."""

    future: asyncio.Future[CollectorError | None]
    reports: int
    size: int
    started: float
    error: CollectorError | None = None


class BrokerQueue:
    """Hands batches to the broker, in the place of `CommitQueue`.

    What still waits when an error is not of ours is answered as not stored.
    """

    keeps_bodies = True  # the body is stored as it came

    def __init__(
        self,
        settings: Settings,
        collector: Collector,
        judge: ReportJudge,
        on_commit: Callable[[float, bool], None],
        log: Log,
    ) -> None:
        """Connect to nothing yet.

        Args:
            settings: With a broker.
            collector: Knows the metrics, which are read again every second.
            judge: Decides on single reports.
            on_commit: Called with (seconds, failed) for each group of batches.
            log: Gets defects.
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
        """Number of reports that wait for the broker now."""
        return self._backlog.reports

    def check(self) -> None:
        """Raises StorageError where the broker does not answer, or has the topic no more."""
        try:
            partitions_of(self._producer, self._topic, _CHECK_SECONDS)
        except SettingsError as error:
            raise StorageError(str(error)) from error

    def start(self) -> None:
        """Connect to the broker. Raises SettingsError without the library or the topic,
        StorageError without the database or the broker."""
        self._library = load_library()
        self._producer = self._make_producer()
        partitions_of(self._producer, self._topic)
        today = self._collector.today
        with self._collector.database.change() as connection:
            begin(connection, today)  # from now on days close when all of them is counted
        self._registry = self._collector.registry()
        self._reader.start()
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more, and wait until the broker has answered for all that was taken."""
        with self._lock:
            self._backlog.is_closed = True
        if self._thread.is_alive():
            self._thread.join()
        self._stopped.set()
        if self._reader.is_alive():
            self._reader.join()

    def _reread(self) -> None:
        """Read the metrics every second; while the database is away, they stay as they were."""
        while not self._stopped.wait(REGISTRY_SECONDS):
            try:
                self._registry = self._collector.registry()
            except StorageError:
                continue  # logged by the maintenance
            except Exception as error:  # as of a definition that this code cannot read
                self._log.crash(error)

    async def submit(self, submission: Submission) -> Receipt:
        """Hand a batch to the broker and return its receipt once it is stored. Raises the error
        if it is not.

        A batch of which every report is refused is not stored: there is nothing to count.
        """
        most, clock = self._settings.max_batch_reports, self._collector.clock
        if submission.batch.num_reports > most:
            raise too_large(submission.batch, most)
        day = today(clock)  # of a suspect clock the consumer takes no later days
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
        with self._lock:  # in which no producer takes the place of another
            self._backlog.take(reports, waiting.size)
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    timestamp=received.today * _DAY_MS,  # and not the moment
                    on_delivery=partial(self._on_delivery, waiting),
                )
            except (BufferError, self._library.KafkaException) as error:
                self._backlog.give(reports, waiting.size)
                raise self._refusal(error) from error
        if (failure := await future) is not None:
            raise failure

    def _refusal(self, error: Exception) -> CollectorError:
        """What is answered where the library did not take, or the broker did not store, a batch."""
        if isinstance(error, BufferError):
            return OverloadedError("too many batches are waiting; send again later")
        cause = error.args[0]
        if cause.code() == self._library.KafkaError.MSG_SIZE_TOO_LARGE:
            return BodyTooLargeError("the body is larger than a message of the broker may be")
        if cause.fatal() or cause.code() == self._library.KafkaError._FATAL:
            self._broken = True
        return StorageError(f"the broker did not store a batch: {reason_of(error)}")

    def _on_delivery(self, waiting: _Waiting, error: Any, _message: Any) -> None:
        """On the polling thread, for each message."""
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
            except Exception as error:  # a defect of ours must not leave requests waiting for ever
                self._log.crash(error)
                self._broken = True
                sleep(_POLL_SECONDS)

    def _answer(self) -> None:
        """Tell all requests that the broker has answered, at once."""
        done, self._done = self._done, []
        if done:
            deliver([(item.future, item.error) for item in done])
            self._on_commit(
                perf_counter() - min(item.started for item in done),
                isinstance(done[-1].error, StorageError),
            )

    def _replace_producer(self) -> None:
        """Begin again after an error from which the library does not recover.

        What the old one still held is answered as not stored; each batch may be sent again.
        """
        old = self._producer
        self._give_up(old)
        new = self._make_producer()
        with self._lock:
            self._producer = new
        self._give_up(old)  # what it took meanwhile
        self._broken = False

    def _give_up(self, producer: Any) -> None:
        producer.purge()
        producer.flush(_POLL_SECONDS)
        self._answer()
