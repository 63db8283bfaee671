"""The front: judges a batch at once, and answers when all in-sync replicas of the broker have
stored it.

Nothing is counted here. What the answer says of each report is decided by the metrics and closed
days as the database had them a second ago; the day of receipt travels with the batch.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from time import perf_counter, sleep
from typing import Any

from collector.broker.client import load_library, partitions_of, reason_of
from collector.broker.message import encode_message
from collector.domain.batch_writer import Receipt, receipt_of, too_large
from collector.domain.clock import Clock, latest_day, today
from collector.domain.commit_queue import Backlog, answer_on_loop
from collector.domain.registry import Registry
from collector.domain.report_validation import Day, ReportJudge, Tally
from collector.domain.submission import Submission
from collector.errors import (
    BodyTooLargeError,
    CollectorError,
    OverloadedError,
    SettingsError,
    StorageError,
)

REGISTRY_SECONDS = 1.0  # between two looks at the metrics and closed days
_POLL_SECONDS = 0.05
_CHECK_SECONDS = 2.0  # for the broker to answer who asks whether reports are taken
_DAY_MS = 86_400_000
_LARGE_BATCH = 1_000  # reports; judged on another thread, so that small ones need not wait


class KnownRegistry:
    """The metrics as last read from the database; while it is away, they stay as they were."""

    def __init__(
        self,
        load: Callable[[], Registry],
        *,
        on_crash: Callable[[Exception], None],
        every: float = REGISTRY_SECONDS,
    ) -> None:
        """on_crash: called with an error that is not of ours."""
        self._load, self._on_crash, self._every = load, on_crash, every
        self._registry: Registry | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="registry", daemon=True)

    def start(self) -> None:
        """Read the metrics now and every second from then on. Raises StorageError."""
        self._registry = self._load()
        self._thread.start()

    def stop(self) -> None:
        """Stop reading the metrics."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def current(self) -> Registry:
        """Raises StorageError before the first look."""
        if self._registry is None:
            raise StorageError("the metrics were not read yet")
        return self._registry

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self._registry = self._load()
            except StorageError:
                continue  # told by who keeps house; what is known goes on to hold
            except Exception as error:  # likewise, as of a definition that this code cannot read
                self._on_crash(error)


@dataclass(slots=True)
class _Waiting:
    """future: of the request.  size: bytes of the message.  error: why it was not stored."""

    future: asyncio.Future[None]
    reports: int
    size: int
    started: float
    error: CollectorError | None = None


class BrokerQueue:
    """Hands batches to the broker, in the place of `CommitQueue`.

    on_commit: called with (seconds, failed) for each group of batches that was stored, or not.
    on_crash: called with an error that is not of ours; what waits is answered as not stored.
    """

    def __init__(
        self,
        make_producer: Callable[[], Any],
        topic: str,
        judge: ReportJudge,
        registry: KnownRegistry,
        clock: Clock,
        skew: timedelta,
        max_queued_bytes: int,
        max_reports: int,
        *,
        before_start: Callable[[], None],
        on_commit: Callable[[float, bool], None],
        on_crash: Callable[[Exception], None],
    ) -> None:
        """skew: how far a device's clock may be ahead.  max_reports: of a batch.  before_start:
        called by `start`."""
        self._max_reports = max_reports
        self._make_producer, self._topic = make_producer, topic
        self._judge, self._registry = judge, registry
        self._clock, self._skew = clock, skew
        self._before_start = before_start
        self._on_commit, self._on_crash = on_commit, on_crash
        self._producer: Any = None
        self._lock = threading.Lock()
        self._backlog = Backlog(max_queued_bytes)
        self._failing = self._broken = False
        self._done: list[_Waiting] = []
        self._library: Any = None
        self._thread = threading.Thread(target=self._run, name="broker-producer", daemon=True)

    @property
    def keeps_bodies(self) -> bool:
        """True: the body is stored as it came."""
        return True

    @property
    def queued_reports(self) -> int:
        """Number of reports that wait for the broker now."""
        return self._backlog.reports

    @property
    def is_failing(self) -> bool:
        """Whether the broker did not store the last batch."""
        return self._failing

    def check(self) -> None:
        """Raises StorageError where the broker does not answer, or has the topic no more."""
        try:
            partitions_of(self._producer, self._topic, _CHECK_SECONDS)
        except SettingsError as error:
            raise StorageError(str(error)) from error

    def start(self) -> None:
        """Connect to the broker.

        Raises SettingsError without the library or the topic, StorageError without the database
        or the broker.
        """
        self._library = load_library()
        self._producer = self._make_producer()
        partitions_of(self._producer, self._topic)
        self._before_start()
        self._registry.start()
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more, and wait until the broker has answered for all that was taken."""
        with self._lock:
            self._backlog.is_closed = True
        if self._thread.is_alive():
            self._thread.join()
        self._registry.stop()

    async def submit(self, submission: Submission) -> Receipt:
        """Hand a batch to the broker and return its receipt once it is stored. Raises the error
        if it is not.

        A batch of which every report is refused is not stored: there is nothing to count.
        """
        if submission.batch.num_reports > self._max_reports:
            raise too_large(submission.batch, self._max_reports)
        day = today(self._clock)  # of a suspect clock the consumer takes no later days
        received = Day(day, min(latest_day(self._clock, self._skew), day + 1))
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
        registry = self._registry.current()
        verdict = self._judge.judge(submission.batch, registry, received, Tally())
        return receipt_of(submission.batch, verdict)

    async def _store(self, value: bytes, reports: int, received: Day) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
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
        await future

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
                self._on_crash(error)
                self._broken = self._failing = True
                sleep(_POLL_SECONDS)

    def _answer(self) -> None:
        """Tell all requests of which the broker has told something, at once."""
        done, self._done = self._done, []
        if done:
            self._failing = isinstance(done[-1].error, StorageError)  # known before they ask
            answer_on_loop(done[0].future.get_loop(), _deliver, done)
            self._on_commit(perf_counter() - min(one.started for one in done), self._failing)

    def _replace_producer(self) -> None:
        """Begin anew after an error from which the library does not recover.

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


def _deliver(done: list[_Waiting]) -> None:
    for waiting in done:
        if waiting.future.done():  # its request was given up
            continue
        if waiting.error is None:
            waiting.future.set_result(None)
        else:
            waiting.future.set_exception(waiting.error)
