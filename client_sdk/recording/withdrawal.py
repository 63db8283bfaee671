"""Carry out a withdrawal of consent: the state is wiped at once, or tried again until it is."""

from __future__ import annotations

import threading
from collections.abc import Callable

from client_sdk.errors import StateError
from client_sdk.recording.account_wipe import wipe
from client_sdk.storage.directory import StateDirectory

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0  # seconds between two tries; each is twice the one before


class Withdrawal:
    """Wipes the state in a directory, again and again until that works. done: called in a
    thread, when a later try worked."""

    def __init__(self, directory: StateDirectory, done: Callable[[], None]) -> None:
        """Nothing is wiped yet."""
        self._directory = directory
        self._done = done
        self._lock = threading.Lock()
        self._ended: threading.Event | None = None  # of the thread, while there is one
        self._thread: threading.Thread | None = None

    def begin(self) -> StateError | None:
        """Wipe the state; if that fails return the reason, and go on trying until `end` or the
        end of the process."""
        self.end()
        trouble = self._try()
        if trouble is not None:
            ended = threading.Event()
            thread = threading.Thread(
                target=self._go_on, args=(ended,), name="rappor-withdrawal", daemon=True
            )
            with self._lock:
                self._ended, self._thread = ended, thread
            try:
                thread.start()
            except RuntimeError:  # no more threads: then the next start wipes
                self.end()
        return trouble

    def end(self, seconds: float = 0.0) -> None:
        """Do not try again: the person has consented anew, or the process is forked or ends.

        seconds: to wait at most for the thread.
        """
        with self._lock:
            ended, self._ended = self._ended, None
        if ended is not None:
            ended.set()
        if seconds and self._thread is not None and self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def pending(self) -> bool:
        """Whether a thread still tries to wipe the state."""
        return self._ended is not None

    def _try(self) -> StateError | None:
        try:
            wipe(self._directory, threading.RLock())
        except StateError as error:
            return error
        return None

    def _go_on(self, ended: threading.Event) -> None:
        pause = FIRST_PAUSE
        while not ended.wait(pause):
            pause = min(2 * pause, LONGEST_PAUSE)
            with self._lock:  # not while consent is given anew
                if ended.is_set():
                    return
                if self._try() is None:
                    self._ended = None
                    break
        else:
            return
        self._done()
