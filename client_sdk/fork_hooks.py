"""Handling of forks: no SQLite connection is carried over, and the child opens its own.

(SQLite's locks belong to a process; a connection used on both sides of a fork can corrupt the file:
"How To Corrupt An SQLite Database File", section 2.6.) Nor is a module carried over that a thread
is in the middle of loading: the child could never use it, nor could the rest of the app.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """A client that is open."""

    def before_fork(self) -> None:
        """Close connections, and hold the lock until after the fork."""

    def after_fork_in_parent(self) -> None:
        """Let go of the lock."""

    def after_fork_in_child(self) -> None:
        """Take a new lock, and start afresh."""


class _Registry:
    """The open clients of this process; hooks are registered once, with the first of them."""

    def __init__(self) -> None:
        self.clients: WeakSet[Forkable] = WeakSet()
        self._hooked = False
        self._lock = threading.Lock()
        self.loading = threading.RLock()
        self._held: list[Forkable] = []

    def add(self, client: Forkable) -> None:
        with self._lock:
            self.clients.add(client)
            if not self._hooked and hasattr(os, "register_at_fork"):
                self._hooked = True
                os.register_at_fork(
                    before=self._before, after_in_parent=self._parent, after_in_child=self._child
                )

    def _before(self) -> None:
        self._lock.acquire()
        self.loading.acquire()
        self._held = list(self.clients)
        for client in self._held:
            client.before_fork()

    def _parent(self) -> None:
        for client in reversed(self._held):
            client.after_fork_in_parent()
        self._held = []
        self.loading.release()
        self._lock.release()

    def _child(self) -> None:
        self._lock = threading.Lock()
        self.loading = threading.RLock()
        for client in self._held:
            client.after_fork_in_child()
        self._held = []


_registry = _Registry()


def loading() -> threading.RLock:
    """A lock to hold while a thread imports modules; forks wait for it."""
    return _registry.loading


def watch(client: Forkable) -> None:
    """Tell a client of forks from now on, for as long as it exists."""
    _registry.add(client)


def forget(client: Forkable) -> None:
    """Tell a closed client of forks no more."""
    _registry.clients.discard(client)
