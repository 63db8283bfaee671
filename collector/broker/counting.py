"""The message format for a batch, and the transaction that counts a group of messages.

The transaction also stores the positions of messages. A message has no address, header or time. It
consists of one byte each for the version and the media type; the UTC day of receipt and the latest
day that a device could then state, as days since 1970-01-01; the number of reports acknowledged as
accepted; and the uncompressed body. Numbers are big-endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from struct import Struct

from sqlalchemy import Connection

from collector.domain.batch_writer import Outcome, Receipt, ReportWriter
from collector.domain.clock import Clock, today
from collector.domain.report_validation import Day
from collector.domain.submission import Content, Submission, read_submission
from collector.errors import CollectorError, CounterFullError
from collector.store.broker import Move, Skipped, add_refused, move, note_skipped
from collector.store.database import CollectorDatabase
from rappor_core.errors import RapporError
from rappor_core.wire.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE
from rappor_server.logs import Log

VERSION = 1
_KINDS = (JSON_CONTENT_TYPE, BINARY_CONTENT_TYPE)
_HEAD = Struct(">BBiiI")
HEAD_BYTES = _HEAD.size
UNREADABLE, IN_FUTURE, DISCARDED = "unreadable", "received_in_future", "discarded"
OTHER_BODY, COUNTER_FULL, DEFECT = "batch_id_with_other_body", "counter_full", "defect"
GONE = "deleted_by_broker"


class UnreadableError(RapporError):
    """A message that was not created by a collector of this version or an earlier version."""


@dataclass(frozen=True, slots=True)
class Message:
    """A batch in transit through the broker."""

    submission: Submission
    received: Day  # the days that were valid at receipt
    accepted: int  # the number of reports acknowledged as accepted


def encode_message(content: Content, received: Day, accepted: int) -> bytes:
    """Return the value of a message."""
    kind = _KINDS.index(content.kind)
    return _HEAD.pack(VERSION, kind, received.today, received.latest, accepted) + content.body


def decode_message(value: bytes) -> Message:
    """Decode a message. Raises UnreadableError, which quotes nothing from the body."""
    if len(value) < HEAD_BYTES:
        raise UnreadableError(f"a message of {len(value)} bytes")
    version, kind, today, latest, accepted = _HEAD.unpack_from(value)
    if version != VERSION or kind >= len(_KINDS):
        raise UnreadableError(f"a message of version {version} and kind {kind}")
    if today < 0:
        raise UnreadableError(f"a message of day {today}")
    content = Content(value[HEAD_BYTES:], _KINDS[kind])
    received = Day(today, latest)
    try:
        submission = read_submission(content, received=received)
    except RapporError as error:
        raise UnreadableError("a message without a batch") from error
    if accepted > submission.batch.num_reports:
        raise UnreadableError(f"a message that acknowledges {accepted} reports, and has fewer")
    return Message(submission, received, accepted)


@dataclass(frozen=True, slots=True)
class BrokerMessage:
    """A message as the broker delivered it."""

    partition: int
    offset: int
    value: bytes


@dataclass(slots=True)
class CountedMessages:
    """The numbers of messages (counted, duplicate, skipped) and of their reports."""

    messages: int = 0
    accepted: int = 0
    duplicates: int = 0
    refused: int = 0  # rejected reports that had been acknowledged as accepted
    skipped: int = 0

    def add(self, other: CountedMessages) -> None:
        """Add the numbers of a second group."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


Group = list[tuple[BrokerMessage, Message | str]]  # with the content, or why it is skipped


class MessageCounter:
    """A counter that counts each message exactly once, for one thread.

    For `ignored_before` see `store.broker`.
    """

    def __init__(
        self,
        writer: ReportWriter,
        database: CollectorDatabase,
        clock: Clock,
        topic: str,
        log: Log,
    ) -> None:
        self._writer, self._database, self._clock = writer, database, clock
        self._topic, self._log = topic, log
        self.ignored_before = -1

    def count(self, fetched: Sequence[BrokerMessage], starts: dict[int, int]) -> CountedMessages:
        """Count messages and advance the positions in their partitions, in one transaction.

        If that fails for a reason other than the database, messages are counted one by one. A
        message that still fails is skipped: its offset is recorded, and it stays in the broker.

        Args:
            fetched: The messages, in the order of offsets within each partition.
            starts: The stored position of each partition, which is updated to the new position.

        Raises:
            StorageError: Nothing in the last transaction was counted.
            PositionError: The same, because a different consumer counts these partitions.
        """
        try:
            return self._count_at_once([(item, self._read(item)) for item in fetched], starts)
        except CounterFullError:
            reason = COUNTER_FULL
        except CollectorError:
            raise
        except Exception as error:  # a defect must not stop all messages behind it
            self._log.crash(error)
            reason = DEFECT
        if len(fetched) == 1:
            return self._count_at_once([(fetched[0], reason)], starts)
        total = CountedMessages()
        for message in fetched:
            total.add(self.count([message], starts))
        return total

    def _read(self, fetched: BrokerMessage) -> Message | str:
        """Decode a message, or return why it is skipped."""
        try:
            message = decode_message(fetched.value)
        except UnreadableError:
            return UNREADABLE
        received = message.received
        if received.today > today(self._clock) + 1 or received.latest > received.today + 2:
            return IN_FUTURE
        return DISCARDED if received.today < self.ignored_before else message

    def _count_at_once(self, group: Group, starts: dict[int, int]) -> CountedMessages:
        ends = {fetched.partition: fetched.offset + 1 for fetched, _ in group}
        moves = [Move(partition, starts[partition], end) for partition, end in ends.items()]
        counted = CountedMessages()

        def store_positions(connection: Connection, outcomes: Sequence[Outcome]) -> None:
            nonlocal counted
            counted, skipped = _summed(group, outcomes)
            note_skipped(connection, self._topic, skipped)
            add_refused(connection, counted.refused)
            move(connection, self._topic, moves)

        read = [message.submission for _, message in group if isinstance(message, Message)]
        if read:
            self._writer.write(read, store_positions)
        else:
            with self._database.add() as connection:
                store_positions(connection, [])
        starts.update(ends)
        if counted.skipped:
            self._log.notice("messages_skipped", messages=counted.skipped)
        if counted.refused:
            self._log.notice("reports_refused_late", reports=counted.refused)
        return counted


def _summed(group: Group, outcomes: Iterable[Outcome]) -> tuple[CountedMessages, list[Skipped]]:
    """Return the numbers for a group, and its skipped messages.

    `outcomes` are the results of the group's decoded messages, in order.
    """
    counted, passed, answers = CountedMessages(messages=len(group)), Group(), iter(outcomes)
    for message, read in group:
        outcome = next(answers) if isinstance(read, Message) else None
        if isinstance(read, str) or not isinstance(outcome, Receipt):
            passed.append((message, read if isinstance(read, str) else OTHER_BODY))
        elif outcome.duplicate:
            counted.duplicates += 1
        else:
            counted.accepted += outcome.accepted
            counted.refused += max(0, read.accepted - outcome.accepted)
    counted.skipped = len(passed)
    return counted, _ranges(passed)


def _ranges(passed: Group) -> list[Skipped]:
    """Merge neighboring skipped messages with the same reason into one row."""
    passed.sort(key=lambda pair: (pair[0].partition, pair[0].offset))
    ranges = []
    for (partition, reason, _), run in groupby(
        enumerate(passed), lambda row: (row[1][0].partition, row[1][1], row[1][0].offset - row[0])
    ):
        offsets = [message.offset for _, (message, _) in run]
        ranges.append(Skipped(partition, offsets[0], offsets[-1], str(reason)))
    return ranges
