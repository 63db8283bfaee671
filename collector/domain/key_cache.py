"""The keys in this process's memory, read from the database again when they may have changed."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from collector.domain.access import KeyRing, Scope, check_key
from collector.errors import StorageError

MAX_AGE = 5.0
MAX_AGE_OF_UNKNOWN = 1.0


class KeyKeeper:
    """Checks keys in memory; a revoked key stops within `MAX_AGE` seconds in every process.

    `check` never touches the database; whoever calls it refreshes first where `is_stale` says so,
    off the event loop. Once the database cannot be reached, the last keys known go on to hold.
    """

    def __init__(
        self, load: Callable[[], KeyRing], *, seconds: Callable[[], float] = monotonic
    ) -> None:
        self._load = load
        self._seconds = seconds
        self._ring: KeyRing | None = None
        self._loaded = float("-inf")

    def is_stale(self, max_age: float = MAX_AGE) -> bool:
        """Whether the keys were last read more than `max_age` seconds ago."""
        return self._seconds() - self._loaded >= max_age

    def refresh(self) -> None:
        """Read the keys. Raises StorageError only where none were ever read."""
        self._loaded = self._seconds()  # first: others go on with the old keys meanwhile
        try:
            self._ring = self._load()
        except StorageError:
            if self._ring is None:
                raise

    def check(self, authorization: str | None, *scopes: Scope) -> str:
        """The id of the key. Raises AuthenticationError or ScopeError."""
        return check_key(self._ring or {}, authorization, scopes)
