"""Handling of forks and of the end of a program.

A child process never uses a SQLite connection from before the fork; it opens its own. (SQLite's
locks belong to a process; a connection used on both sides of a fork can corrupt the file: "How To
Corrupt An SQLite Database File", section 2.6.) A fork must not happen while a thread loads a
module, because neither the SDK nor the rest of the app could ever use that module in the child.

When a program ends, Python stops daemon threads at any point. A thread that is importing a
module then keeps the import lock forever, and every later import (in a finalizer, or for a warning)
waits forever. So an `atexit` hook ends the threads first.
"""

import atexit
import os
import sys
import threading
from typing import Any
from weakref import WeakSet

EXIT_SECONDS = 5.0  # the maximum time that program exit waits for a module that is being loaded


class _Registry:
    """The open clients of this process, as `client_sdk.lifecycle.Lifecycle` objects.

    Hooks are registered once, with the first client.
    """

    def __init__(self) -> None:
        self.clients: WeakSet[Any] = WeakSet()
        self._hooked = False
        self._lock = threading.Lock()
        self.loading = threading.RLock()
        self._held: list[Any] = []

    def watch(self, client: Any) -> None:
        """Notify a client of forks and of program exit as long as the client exists."""
        with self._lock:
            self.clients.add(client)
            if self._hooked:
                return
            self._hooked = True
            atexit.register(self._exit)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=self._before, after_in_parent=self._parent, after_in_child=self._child
                )

    def _exit(self) -> None:
        for client in list(self.clients):
            client.at_exit()
        self.loading.acquire(timeout=EXIT_SECONDS)  # threads that still run load nothing more

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
watch = _registry.watch
forget = _registry.clients.discard  # for a client that is closed


def loading() -> threading.RLock:
    """Return the lock that a thread must hold while it imports modules; forks wait for it."""
    return _registry.loading


def at_end_of_child(client: Any) -> None:
    """End a client's threads when a `multiprocessing` child ends, because it skips atexit."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize  # already loaded by the child itself

        Finalize(None, client.at_exit, exitpriority=0)
