"""An open state with what works on it: a recorder for the app's threads, a thread that sends."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from client_sdk.custody import StateDirectory, ensure_secret, wipe
from client_sdk.delivery import Delivery
from client_sdk.errors import StateError
from client_sdk.privacy_level import PrivacyLevel
from client_sdk.randomness import Randomness
from client_sdk.recorder import Recorder
from client_sdk.worker import Worker
from rappor_core.metrics_file import MetricsFile

DO_NOT_TRACK = "DO_NOT_TRACK"


class Setup(NamedTuple):
    """What `Client.open` was given, checked."""

    metrics: MetricsFile
    directory: StateDirectory
    collector: str
    key: str | None
    level: PrivacyLevel
    delivery: Delivery
    development: bool
    randomness: Randomness
    clock: Callable[[], float]


class Session:
    """From opening the state to closing it. lock: of this process, for the state."""

    def __init__(self, setup: Setup, lock: threading.RLock, *, may_create: bool) -> None:
        """Open the state, the recorder and the sending thread.

        may_create: a secret may be made, because the person has just consented.
        Raises StateError, with condition `no_consent` where there is no secret and none may be.
        """
        with _trouble_is_a_state_error():
            self.state = setup.directory.open(lock)
        try:
            with _trouble_is_a_state_error():
                self._prepare(setup, lock, may_create=may_create)
        except BaseException:
            self.state.close()
            raise

    def _prepare(self, setup: Setup, lock: threading.RLock, *, may_create: bool) -> None:
        if may_create:
            ensure_secret(self.state, setup.randomness)
        if self.state.identity().secret is None:
            raise StateError("consent was withdrawn in another process", "no_consent")
        self.recorder = Recorder(
            setup.metrics.metrics,
            self.state,
            budget=setup.metrics.budget,
            level=setup.level,
            randomness=setup.randomness,
        )
        self.worker = Worker(
            setup.directory,
            lock,
            setup.collector,
            setup.key,
            setup.delivery,
            setup.randomness,
            setup.clock,
        )
        self.worker.start()

    def close(self, timeout: float) -> None:
        """Stop sending, waiting at most `timeout` seconds for it; close the state."""
        self.worker.stop(timeout)
        self.state.close()

    def wipe(self) -> None:
        """Forget all but numbers; the sending thread must have been told to stop."""
        wipe(self.state)

    def suspend(self) -> None:
        """Before a fork: close all connections until they are needed again."""
        self.state.suspend()
        self.worker.suspend()


@contextmanager
def _trouble_is_a_state_error() -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StateError(f"the state cannot be used: {type(error).__name__}: {error}") from error


def do_not_track() -> bool:
    """Whether the person's environment says so (https://consoledonottrack.com)."""
    return os.environ.get(DO_NOT_TRACK, "").strip().lower() not in ("", "0", "false")
