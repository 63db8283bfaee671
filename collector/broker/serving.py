"""Running a consumer in the foreground."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Event
from typing import Any

from collector.broker.client import ends_of_all, make_consumer, partitions_of
from collector.broker.consumer import Consumer
from collector.broker.counting import CountedMessages
from collector.domain.clock import today, utc_now
from collector.settings import Settings
from collector.store.broker import begin, leave, positions
from collector.store.database import CollectorDatabase
from rappor_server.errors import SettingsError
from rappor_server.logs import make_log, redirect_libraries
from rappor_server.schema import prepare

_CONNECTIONS = 2  # one transaction at a time, and one to spare


def consume(
    settings: Settings, *, until_end: bool = False, leave_broker: bool = False
) -> CountedMessages:
    """Count what the broker holds until a signal comes; then end after the group at hand.

    Args:
        settings: with a broker.
        until_end: end when all is counted that was there at the start.
        leave_broker: likewise, and then let days be closed as if there were no broker.

    Raises:
        SettingsError: no broker, no library, no topic, or not the topic that was counted before.
        StorageError: the database or the broker cannot be reached at the start, or the end is not
            reached because no partition is assigned.
    """
    if settings.broker is None:
        raise SettingsError("broker is not set: there is nothing to consume")
    log = make_log(settings.log_level)
    redirect_libraries(log)
    stop = Event()
    with closing(settings.open_database(_CONNECTIONS)) as database, _signals(stop):
        prepare(database)
        client = make_consumer(settings, log)
        partitions_of(client, settings.broker_topic)
        with database.change() as connection:  # only now: from here on days wait for a consumer
            begin(connection, today(utc_now))
        done = _until(client, database, settings) if until_end or leave_broker else None
        log.info("consuming", topic=settings.broker_topic)
        consumer = Consumer(client, database, settings, log)
        consumer.run(stop, done)
        if leave_broker and not stop.is_set():
            with database.change() as connection:
                leave(connection)
    return consumer.counted


@contextmanager
def _signals(stop: Event) -> Iterator[None]:
    """SIGTERM and SIGINT end it after the group at hand."""
    names = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(name, lambda *_: stop.set()) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


def _until(client: Any, database: CollectorDatabase, settings: Settings) -> Callable[[], bool]:
    """Whether all is counted that was there when this was called."""
    ends = ends_of_all(client, settings.broker_topic)

    def is_done() -> bool:
        with database.read() as connection:
            stored = positions(connection, settings.broker_topic)
        return all(stored.get(one, 0) >= end for one, end in ends.items())

    return is_done
