"""One round of sending: compose what waits, send each batch, settle what was answered."""

from __future__ import annotations

from collections.abc import Callable

from client_sdk.delivery.batches import content_type, read_body
from client_sdk.delivery.queue import Outbox, StoredBatch
from client_sdk.delivery.transport import Transport
from client_sdk.errors import TransportError
from client_sdk.storage.file_lock import FileLock
from rappor_core.errors import WireFormatError

TOO_LARGE = "http_413"


class Sender:
    """Sends what waits in an outbox. Used by one thread; the transport is what others may end.

    lock: at most one process sends at a time.  isolate: a connection for each batch.
    split: puts two batches in the place of one that is too large; False where it cannot.
    """

    def __init__(
        self,
        outbox: Outbox,
        transport: Transport,
        lock: FileLock,
        split: Callable[[StoredBatch], bool],
        *,
        isolate: bool,
    ) -> None:
        """Nothing is connected yet."""
        self._outbox = outbox
        self._transport = transport
        self._lock = lock
        self._split = split
        self._isolate = isolate

    def round(self, *, only_one: bool = False) -> bool:
        """Send all that waits, or one batch. False where another process is at it.

        Raises TransportError for the failure that ended the round; what was answered is settled.
        """
        if not self._lock.try_acquire():
            return False
        try:
            self._outbox.compose()
            for batch in self._outbox.batches():
                self._send(batch)
                if only_one:
                    break
        finally:
            self._transport.close()
            self._lock.release()
        return True

    def _send(self, batch: StoredBatch) -> None:
        if not _is_whole(batch):  # the answer to it could never fit
            self._outbox.discard(batch, "damaged")
            return
        try:
            answer = self._transport.post(
                batch.body,
                batch.batch_id,
                batch.reports,
                content_type=content_type(json=batch.json),
                encoding="gzip",
            )
        except TransportError as error:
            if error.retry:
                raise
            if not (error.reason == TOO_LARGE and self._split(batch)):
                self._outbox.discard(batch, error.reason)
            return
        finally:
            if self._isolate:
                self._transport.close()
        self._outbox.settle(batch, answer)


def _is_whole(batch: StoredBatch) -> bool:
    """Whether a stored body is the batch that its row says."""
    try:
        stored = read_body(batch.body, json=batch.json)
    except WireFormatError:
        return False
    return (stored.batch_id, stored.num_reports) == (batch.batch_id, batch.reports)
