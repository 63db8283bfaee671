"""Count a group of messages in one transaction with the positions behind them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from collector.broker.message import Message, UnreadableError, decode_message
from collector.domain.batch_writer import Outcome, Receipt, ReportWriter
from collector.domain.clock import Clock, today
from collector.errors import CollectorError, CounterFullError
from collector.store.broker import Move, Skipped, add_refused, move, note_skipped
from collector.store.database import CollectorDatabase
from rappor_server.logs import Log

UNREADABLE, IN_FUTURE, DISCARDED = "unreadable", "received_in_future", "discarded"
OTHER_BODY, COUNTER_FULL, DEFECT = "batch_id_with_other_body", "counter_full", "defect"
GONE = "deleted_by_broker"


@dataclass(frozen=True, slots=True)
class BrokerMessage:
    """A message as the broker delivered it."""

    partition: int
    offset: int
    value: bytes


@dataclass(slots=True)
class CountedMessages:
    """Numbers of counted and skipped messages. refused: reports that had been acknowledged as
    accepted."""

    messages: int = 0
    accepted: int = 0
    duplicates: int = 0
    refused: int = 0
    skipped: int = 0

    def add(self, other: CountedMessages) -> None:
        """Add the numbers of another group."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class _Group:
    """Messages to count, and those to pass over, with reasons."""

    read: list[tuple[BrokerMessage, Message]] = field(default_factory=list)
    skipped: list[tuple[BrokerMessage, str]] = field(default_factory=list)


class MessageCounter:
    """Counts messages, each once. For one thread.

    ignored_before: see `store.broker`.
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
        """Count messages and advance the positions of their partitions, in one transaction.

        Where that fails for a reason that is not the database's, each is counted alone, and what
        fails alone is passed over: it is noted with its offset, and stays in the broker.

        Args:
            fetched: in the order of the offsets of each partition.
            starts: by partition, the position that the database has; changed to the new one.

        Raises:
            StorageError: nothing of the last transaction was counted.
            PositionError: likewise, another consumer counts these partitions.
        """
        try:
            return self._count_at_once(self._sorted(fetched), fetched, starts)
        except CounterFullError:
            reason = COUNTER_FULL
        except CollectorError:
            raise
        except Exception as error:  # a defect of ours must not stop all messages behind it
            self._log.crash(error)
            reason = DEFECT
        if len(fetched) == 1:
            only = _Group(skipped=[(fetched[0], reason)])
            return self._count_at_once(only, fetched, starts)
        total = CountedMessages()
        for one in fetched:
            total.add(self.count([one], starts))
        return total

    def _sorted(self, fetched: Iterable[BrokerMessage]) -> _Group:
        """Decode; what cannot be counted goes aside."""
        group, day = _Group(), today(self._clock)
        for one in fetched:
            try:
                message = decode_message(one.value)
            except UnreadableError:
                group.skipped.append((one, UNREADABLE))
                continue
            received = message.submission.received
            assert received is not None  # noqa: S101 (decode_message)
            if received.today > day + 1 or received.latest > received.today + 2:
                group.skipped.append((one, IN_FUTURE))
            elif received.today < self.ignored_before:
                group.skipped.append((one, DISCARDED))
            else:
                group.read.append((one, message))
        return group

    def _count_at_once(
        self, group: _Group, fetched: Sequence[BrokerMessage], starts: dict[int, int]
    ) -> CountedMessages:
        ends = {one.partition: one.offset + 1 for one in fetched}
        moves = [Move(partition, starts[partition], end) for partition, end in ends.items()]
        counted = CountedMessages()

        def beside(connection: Connection, outcomes: Sequence[Outcome]) -> None:
            nonlocal counted
            counted = _summed(group, outcomes)
            skipped = group.skipped + _conflicts(group, outcomes)
            note_skipped(connection, self._topic, _ranges(skipped))
            add_refused(connection, counted.refused)
            move(connection, self._topic, moves)

        if group.read:
            self._writer.write([message.submission for _, message in group.read], beside)
        else:
            with self._database.add() as connection:
                beside(connection, [])
        starts.update(ends)
        if counted.skipped:
            self._log.notice("messages_skipped", messages=counted.skipped)
        if counted.refused:
            self._log.notice("reports_refused_late", reports=counted.refused)
        return counted


def _conflicts(group: _Group, outcomes: Sequence[Outcome]) -> list[tuple[BrokerMessage, str]]:
    return [
        (fetched, OTHER_BODY)
        for (fetched, _), outcome in zip(group.read, outcomes, strict=True)
        if not isinstance(outcome, Receipt)
    ]


def _summed(group: _Group, outcomes: Sequence[Outcome]) -> CountedMessages:
    counted = CountedMessages(messages=len(group.read), skipped=len(group.skipped))
    for (_, message), outcome in zip(group.read, outcomes, strict=True):
        if not isinstance(outcome, Receipt):
            counted.skipped += 1
        elif outcome.duplicate:
            counted.duplicates += 1
        else:
            counted.accepted += outcome.accepted
            counted.refused += max(0, message.accepted - outcome.accepted)
    counted.messages += len(group.skipped)
    return counted


def _ranges(skipped: list[tuple[BrokerMessage, str]]) -> list[Skipped]:
    """Neighbours with one reason as one row."""
    ranges: list[Skipped] = []
    ordered = sorted(skipped, key=lambda pair: (pair[0].partition, pair[0].offset))
    for one, reason in ordered:
        last = ranges[-1] if ranges else None
        if last and (last.partition, last.last, last.reason) == (
            one.partition, one.offset - 1, reason
        ):  # fmt: skip
            ranges[-1] = Skipped(last.partition, last.first, one.offset, reason)
        else:
            ranges.append(Skipped(one.partition, one.offset, one.offset, reason))
    return ranges
