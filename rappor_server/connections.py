"""How many connections a process holds, shared out by address. No address is stored or logged."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

KEY = "rappor.connections"  # in the state of the lifespan, where a connection finds the others
MAX_CONNECTIONS = 1_000  # of a process; each may hold a head of 32 KiB
_OTHER_FILES = 128  # of the database, of jobs, of the log


class TransportProtocol(Protocol):
    """The methods of an asyncio transport that this module calls."""

    def abort(self) -> None:
        """Close the connection at once, without sending what is buffered."""
        ...


def most_connections() -> int:
    """The bound on connections: MAX_CONNECTIONS, or what the limit of open files leaves room
    for."""
    try:
        import resource
    except ImportError:
        return MAX_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(MAX_CONNECTIONS, files - _OTHER_FILES))


class Connections:
    """The connections of a process, bounded together.

    When there are too many, one that waits for a request is closed: of the addresses that hold at
    least an equal share, the one that has waited longest. Where none waits, it is the new one.
    Used by one event loop.
    """

    def __init__(self, most: int | None = None) -> None:
        """Hold nothing yet. most: connections at once; None: `most_connections`."""
        self._most = most_connections() if most is None else most
        self._addresses: dict[TransportProtocol, str] = {}
        self._by_address: Counter[str] = Counter()
        self._waiting: dict[
            TransportProtocol, None
        ] = {}  # in the order in which they began to wait

    def __len__(self) -> int:
        """How many are held."""
        return len(self._addresses)

    def begin(self, connection: TransportProtocol, address: str) -> None:
        """Register a new connection, which waits for its first request; another waiting one may
        be closed to make room."""
        self._addresses[connection] = address
        self._by_address[address] += 1
        if len(self) > self._most:
            self._close_one(connection)
        if connection in self._addresses:
            self._waiting[connection] = None

    def wait(self, connection: TransportProtocol) -> None:
        """Mark a connection as waiting for a request; the time counts from the first such call."""
        if connection in self._addresses:
            self._waiting.setdefault(connection)

    def work(self, connection: TransportProtocol) -> None:
        """Mark a connection as busy: its request has arrived whole."""
        self._waiting.pop(connection, None)

    def end(self, connection: TransportProtocol) -> None:
        """Forget a connection that was closed."""
        address = self._addresses.pop(connection, None)
        self._waiting.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _close_one(self, new: TransportProtocol) -> None:
        share = len(self) / len(self._by_address)
        held = (one for one in self._waiting if self._by_address[self._addresses[one]] >= share)
        closed = next(held, new)
        self.end(closed)
        closed.abort()
