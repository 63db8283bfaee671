"""Handling of forks and of the end of a program.

At a fork no SQLite connection is carried over, and the child opens its own.

(SQLite's locks belong to a process; a connection used on both sides of a fork can corrupt the file:
"How To Corrupt An SQLite Database File", section 2.6.) Nor is a module carried over that a thread
is in the middle of loading: the child could never use it, nor could the rest of the app.

At the end of a program Python stops daemon threads where they are. One that is importing a module
then keeps the import lock for ever, and whatever imports after it (a finalizer, a warning that is
shown) waits for ever. So the threads are ended before, by `atexit`.
"""

import atexit
import os
import sys
import threading
from typing import Any
from weakref import WeakSet

EXIT_SECONDS = 5.0  # longest that the end of a program waits for a module that is being loaded


class _Registry:
    """The open clients of this process: objects of `client_sdk.lifecycle.Lifecycle`.

    Hooks are registered once, with the first of them.
    """

    def __init__(self) -> None:
        self.clients: WeakSet[Any] = WeakSet()
        self._hooked = False
        self._lock = threading.Lock()
        self.loading = threading.RLock()
        self._held: list[Any] = []

    def watch(self, client: Any) -> None:
        """Call a client at forks and at the end of the program, for as long as it exists."""
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
        self.loading.acquire(timeout=EXIT_SECONDS)  # a thread that did not end loads no more

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
forget = _registry.clients.discard  # a client that is closed


def loading() -> threading.RLock:
    """Return a lock to hold while a thread imports modules; forks wait for it."""
    return _registry.loading


def at_end_of_child(client: Any) -> None:
    """End a client's threads when a child of `multiprocessing` ends: `os._exit` calls no atexit."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize  # loaded already, by the child itself

        Finalize(None, client.at_exit, exitpriority=0)
