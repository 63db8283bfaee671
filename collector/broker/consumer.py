"""The consumer, which reads messages from stored positions and counts them in the database.

Positions are stored only in the database. At the start, after each reassignment of partitions, and
after each failure, reading restarts at the stored positions. Once all messages received before
today are counted, the days before today may be closed.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from threading import Event
from time import monotonic
from typing import Any

from collector.broker.client import ends_of, ends_of_all, load_library, make_consumer, partitions_of
from collector.broker.counting import GONE, BrokerMessage, CountedMessages, MessageCounter
from collector.domain.batch_writer import ReportWriter
from collector.domain.clock import Clock, today, utc_now
from collector.domain.report_validation import ReportJudge
from collector.errors import PositionError
from collector.settings import Settings
from collector.store.broker import (
    Move,
    Skipped,
    begin,
    count_before,
    leave,
    move,
    note_skipped,
    positions,
    read_state,
    start_positions,
)
from collector.store.database import CollectorDatabase
from rappor_server.errors import SettingsError, StorageError
from rappor_server.logs import Log, make_log, redirect_libraries
from rappor_server.schema import prepare

GRACE = timedelta(minutes=5)  # after midnight, because clocks differ and batches are in transit
_LOOK_SECONDS = 1.0
_MAX_BYTES = 8 << 20  # the maximum size of the messages in one transaction
_MAX_MESSAGES = 2_000
_WAIT_SECONDS = 0.5  # the wait for a message, and after a failure
_TELL_SECONDS = 60.0  # the interval between log lines with counts
_IDLE_SECONDS = 60.0  # the time without a partition before it is logged
_OUT_OF_RANGE = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")


class Watermark:
    """The database record that all messages from the days before today are counted.

    The rule: the end offsets of all partitions are read `GRACE` after midnight. By then, no front
    stamps messages with the previous day, so that day's messages are before these offsets. Once the
    positions in all partitions have passed them, days that only earlier messages could affect may
    be closed. If a clock was days ahead, its record is reverted, so that the rule applies again.
    """

    def __init__(
        self,
        database: CollectorDatabase,
        clock: Clock,
        topic: str,
        *,
        every: float = _LOOK_SECONDS,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        self._database, self._clock, self._topic = database, clock, topic
        self._every, self._seconds = every, seconds
        self._looked = float("-inf")
        self._done = -1
        self._aim: tuple[int, dict[int, int]] | None = None  # a day, and end offsets to reach

    def advance(self, client: Any, *, last: bool = False) -> None:
        """Move the watermark to today if possible; check the database at most once per second.

        If `last` is true, check immediately. Raises StorageError on failure.
        """
        day = today(lambda: self._clock() - GRACE)
        is_soon = self._seconds() - self._looked < self._every
        if day == self._done or (is_soon and not last):
            return
        self._looked = self._seconds()
        with self._database.read() as connection:
            stored = positions(connection, self._topic)
            state = read_state(connection)
        if state is None:  # no broker feeds the database anymore
            return
        if state.counted_before >= day:
            now = today(self._clock)
            if state.counted_before > now:
                self._aim = None
                with self._database.add() as connection:
                    count_before(connection, now, back=True)
            self._done = day
            return
        if self._aim is None or self._aim[0] != day:
            self._aim = day, ends_of_all(client, self._topic)
        if all(stored.get(partition, 0) >= end for partition, end in self._aim[1].items()):
            with self._database.add() as connection:
                count_before(connection, day)
            self._done = day


class Consumer:
    """A consumer that counts a topic's messages until stopped; several may run in parallel.

    Each consumer is used by one thread.
    """

    def __init__(
        self,
        client: Any,
        database: CollectorDatabase,
        settings: Settings,
        log: Log,
        clock: Clock = utc_now,
        max_messages: int = _MAX_MESSAGES,
    ) -> None:
        """Prepare the consumer; read nothing yet.

        Args:
            client: The library's consumer, or a substitute.
            database: A database that has been prepared.
            settings: The settings, with a topic.
            log: The log for counts and failures.
            clock: The time, UTC.
            max_messages: The maximum number of messages in one transaction.
        """
        self._client, self._topic = client, settings.broker_topic
        self._database, self._log, self._max_messages = database, log, max_messages
        judge = ReportJudge(refuse_implausible=settings.refuse_implausible)
        writer = ReportWriter(database, judge, clock, settings.clock_skew)
        self._counter = MessageCounter(writer, database, clock, self._topic, log)
        self._watermark = Watermark(database, clock, self._topic)
        self._library = load_library()
        self._partitions: list[int] = []
        self._placed = True  # there is nothing to place yet
        self._positions: dict[int, int] = {}
        self._busy_at = monotonic()  # when a partition was last assigned, or its absence logged
        self._others = -1  # the sum of all positions at the last log line
        self.counted = CountedMessages()

    def run(self, stop: Event, is_done: Callable[[], bool] | None = None) -> None:
        """Count until `stop` is set, or until nothing is left to count and `is_done` returns True.

        Raises:
            SettingsError: The topic differs from the topic that was counted before.
            StorageError: The run should end when all is read, but for a minute no partition was
                assigned and no other consumer counted anything.
        """
        self._client.subscribe([self._topic], on_assign=self._assign, on_revoke=self._revoke)
        logged_at = self._busy_at = monotonic()
        self._others = self._counted_by_all()
        try:
            while not stop.is_set() and not self._turn(is_done):
                self._look_idle(ends=is_done is not None)
                if monotonic() - logged_at >= _TELL_SECONDS:
                    logged_at = monotonic()
                    self._tell()
        finally:
            self._tell()
            self._client.close()

    def _turn(self, is_done: Callable[[], bool] | None) -> bool:
        """Count the next group of messages, if any; return True if `is_done` ends the run."""
        try:
            if not self._placed:
                self._place()
            group = self._gather()
            if group:
                self.counted.add(self._counter.count(group, self._positions))
            is_end = not group and self._placed and is_done is not None and is_done()
            self._watermark.advance(self._client, last=is_end)
            return is_end
        except PositionError as error:
            self._log.info("positions_moved", reason=str(error))
            self._lose_place()
        except StorageError as error:
            self._log.warning("counting_failed", reason=str(error))
            self._lose_place()
            self._client.poll(_WAIT_SECONDS)  # no partition: only keep the group membership
        return False

    def _look_idle(self, *, ends: bool) -> None:
        """Log a minute without partitions; raise StorageError if `ends` and no consumer counts."""
        if self._partitions:
            self._busy_at = monotonic()
        if monotonic() - self._busy_at < _IDLE_SECONDS:
            return
        self._busy_at = monotonic()
        before, self._others = self._others, self._counted_by_all()
        waits = (
            f"no partition of {self._topic!r} was assigned for {_IDLE_SECONDS:.0f} s: other "
            "consumers of the group have them all, or the broker does not form the group"
        )
        self._log.warning("no_partition", reason=waits)
        if ends and before == self._others:
            raise StorageError(f"{waits}; no other consumer counted meanwhile")

    def _counted_by_all(self) -> int:
        try:
            with self._database.read() as connection:
                return sum(positions(connection, self._topic).values())
        except StorageError:
            return -1

    def _assign(self, _client: Any, partitions: Sequence[Any]) -> None:
        self._partitions = [partition.partition for partition in partitions]
        self._lose_place()

    def _revoke(self, _client: Any, _partitions: Sequence[Any]) -> None:
        self._partitions = []
        self._client.unassign()
        self._placed = False

    def _lose_place(self) -> None:
        self._client.assign([])
        self._placed = False

    def _place(self) -> None:
        """Seek to the stored positions; record and skip messages that the broker has deleted.

        Raises SettingsError if a position is beyond the end.
        """
        ends = {number: ends_of(self._client, self._topic, number) for number in self._partitions}
        with self._database.add() as connection:
            state = read_state(connection)
            self._counter.ignored_before = -1 if state is None else state.ignored_before
            start_positions(connection, self._topic, dict.fromkeys(self._partitions, 0))
            stored = positions(connection, self._topic)
            gone = [
                Move(number, stored[number], low)
                for number, (low, _) in ends.items()
                if stored[number] < low
            ]
            move(connection, self._topic, gone)
            lost = [Skipped(jump.partition, jump.before, jump.after - 1, GONE) for jump in gone]
            note_skipped(connection, self._topic, lost)
        for partition, (_, end) in ends.items():
            if stored[partition] <= end:
                continue
            # a different consumer may have counted since the ends were read
            high = ends_of(self._client, self._topic, partition)[1]
            if stored[partition] > high:
                raise SettingsError(
                    f"partition {partition} of {self._topic!r} ends at offset {high}, and was "
                    f"counted up to {stored[partition]}: the broker lost messages, or the topic "
                    "was created again, which needs another name"
                )
        for jump in gone:
            stored[jump.partition] = jump.after
            self._log.notice(
                "messages_gone", partition=jump.partition, messages=jump.after - jump.before
            )
        self._positions = {number: stored[number] for number in self._partitions}
        where = [
            self._library.TopicPartition(self._topic, *pair) for pair in self._positions.items()
        ]
        self._client.assign(where)
        self._placed = True

    def _gather(self) -> list[BrokerMessage]:
        """Return the messages for one transaction, up to its limits; empty after a reassignment."""
        group: list[BrokerMessage] = []
        size, wait = 0, _WAIT_SECONDS
        while size < _MAX_BYTES and len(group) < self._max_messages:
            message = self._client.poll(wait)
            if not self._placed:
                return []
            if message is None:
                break
            if (error := message.error()) is not None:
                if error.fatal():
                    raise StorageError(f"the broker refused this consumer: {error.str()}")
                if error.name() in _OUT_OF_RANGE:
                    self._lose_place()
                else:
                    self._log.warning("broker", message=error.str())
                break
            value = message.value() or b""
            fetched = BrokerMessage(message.partition(), message.offset(), value)
            if fetched.offset >= self._positions.get(fetched.partition, fetched.offset + 1):
                group.append(fetched)
            size, wait = size + len(value), 0.0
        return group if self._placed else []

    def _tell(self) -> None:
        done = self.counted
        self._log.info(
            "counted",
            messages=done.messages,
            reports=done.accepted,
            duplicates=done.duplicates,
            refused_late=done.refused,
            skipped=done.skipped,
        )


def consume(
    settings: Settings, *, until_end: bool = False, leave_broker: bool = False
) -> CountedMessages:
    """Count the broker's messages until a signal arrives, then finish the current group.

    Args:
        settings: The settings, with a broker.
        until_end: Whether to end once all messages present at the start are counted.
        leave_broker: Whether to do the same, and then let days be closed as if there were no
            broker.

    Raises:
        SettingsError: There is no broker, library or topic, or the topic differs from the topic
            that was counted before.
        StorageError: The database or the broker cannot be reached at the start, or the end is not
            reached because no partition is assigned.
    """
    if settings.broker is None:
        raise SettingsError("broker is not set: there is nothing to consume")
    log = make_log(settings.log_level)
    redirect_libraries(log)
    stop, topic, ends_itself = Event(), settings.broker_topic, until_end or leave_broker
    # one transaction at a time, and a spare connection
    with closing(settings.open_database(2)) as database, _signals(stop):
        prepare(database)
        client = make_consumer(settings, log)
        partitions_of(client, topic)
        with database.change() as connection:  # from here on, days wait for a consumer
            begin(connection, today(utc_now))
        ends = ends_of_all(client, topic) if ends_itself else {}

        def is_done() -> bool:  # all messages present at the start are counted
            with database.read() as connection:
                stored = positions(connection, topic)
            return all(stored.get(partition, 0) >= end for partition, end in ends.items())

        log.info("consuming", topic=topic)
        consumer = Consumer(client, database, settings, log)
        consumer.run(stop, is_done if ends_itself else None)
        if leave_broker and not stop.is_set():
            with database.change() as connection:
                leave(connection)
    return consumer.counted


@contextmanager
def _signals(stop: Event) -> Iterator[None]:
    """Set `stop` on SIGTERM or SIGINT, so that the run ends after the current group."""
    names = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(name, lambda *_: stop.set()) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
