"""An open state with what works on it: a recorder for the app's threads, a thread that sends."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from client_sdk import fork_hooks as forks
from client_sdk.delivery.thread import Worker
from client_sdk.errors import ClientError, StateBusyError, StateError
from client_sdk.recording.account_wipe import wipe
from client_sdk.recording.ledger_check import check_ledger
from client_sdk.recording.overflow import Overflow
from client_sdk.recording.recorder import Recorder
from client_sdk.setup import Setup
from client_sdk.storage.damage import trouble
from client_sdk.storage.directory import ensure_secret
from client_sdk.storage.interface import NUMBERS, VISITS

if TYPE_CHECKING:
    from client_sdk.location.recorder import LocationRecorder
    from client_sdk.numbers.recorder import NumberRecorder

DO_NOT_TRACK = "DO_NOT_TRACK"


class Session:
    """From opening the state to closing it.

    lock: of this process, for the state.  count: told why a value that waited was not recorded.
    """

    def __init__(
        self, setup: Setup, lock: threading.RLock, count: Callable[[str], None], *, may_create: bool
    ) -> None:
        """Open the state, the recorder and the sending thread.

        may_create: a secret may be made, because the person has just consented.
        Raises StateError, with condition `no_consent` where there is no secret and none may be.
        """
        self._count = count
        self.overflow = Overflow(self._record_late, self._failed_late)
        self._places: LocationRecorder | None = None
        self._numbers: NumberRecorder | None = None
        self._places_lock = threading.Lock()
        if setup.directory.is_withdrawn:
            wipe(setup.directory, lock)  # begun in an earlier run, or while the state was locked
        self.state = setup.directory.open(lock, check_ledger)
        try:
            self._prepare(setup, lock, may_create=may_create)
        except (sqlite3.Error, OSError) as error:
            self.state.close()
            raise trouble(self.state.path, error) from error
        except BaseException:
            self.state.close()
            raise

    def _prepare(self, setup: Setup, lock: threading.RLock, *, may_create: bool) -> None:
        if may_create or self.state.identity().generation == 0:  # 0: none was ever made
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
        self._setup = setup
        places = {m.base_name for m in setup.metrics.metrics.values() if m.location is not None}
        self._collected = {m.name for m in setup.metrics.metrics.values() if m.rules.collected}
        notes = {VISITS + name for name in places} | {NUMBERS + name for name in self._collected}
        self.state.keep_notes(notes)  # an earlier version had more
        located = self._located = bool(places)
        filled = any(metric.no_data is not None for metric in setup.metrics.metrics.values())
        self.worker = Worker(
            setup.directory,
            lock,
            setup.collector,
            setup.key,
            setup.delivery,
            setup.randomness,
            setup.clock,
            self._close_periods if located or filled or self._collected else None,
            self.overflow.write_out,
        )
        try:
            self.worker.start()
        except RuntimeError as error:  # no more threads, or the interpreter is ending
            raise StateError(f"the sending thread cannot be started: {error}") from error

    def record(self, name: str, value: object, now: float) -> str | None:
        """As `Recorder.record`; where the state is held, the value waits for the sending thread."""
        try:
            return self._record(name, value, now)
        except StateBusyError:
            if not self.overflow.hold(name, value, now):
                raise
            self.worker.keep_house()
            return "held"

    def add(self, name: str, amount: object, now: float) -> str | None:
        """As `NumberRecorder.add`; where the state is held, the amount waits likewise."""
        self.numbers.check_sum(name)
        return self.record(name, amount, now)

    def _record(self, name: str, value: object, now: float) -> str | None:
        """Of a metric that is collected over a period None, or "queued" for a period before."""
        if name in self._collected:
            return self.numbers.record(name, value, now)
        return self.recorder.record(name, value, now)

    def end_overflow(self, seconds: float) -> None:
        """Write what waits in memory, within some seconds (0: not at all); the rest is lost."""
        with suppress(StateBusyError):
            if seconds > 0:
                self.overflow.write_out(seconds)
        for _ in range(self.overflow.forget()):
            self._count("not_recorded:busy")

    def _record_late(self, name: str, value: object, now: float) -> None:
        outcome = self._record(name, value, now)
        if outcome not in ("queued", "queued_fallback", None):
            self._count(f"{outcome}:{name}")

    def _failed_late(self, error: Exception) -> None:
        kind = "trouble" if isinstance(error, StateError | sqlite3.Error | OSError) else "mistake"
        self._count(f"{kind}:{type(error).__name__}")

    def _close_periods(self) -> bool:
        """Report what is due for periods that are over; the sending thread does it now and then.

        True where places or numbers were forgotten, of which the files should hold no trace.
        """
        now = float(self._setup.clock())
        self.recorder.fill_periods(now)
        closed = bool(self._collected) and self.numbers.roll(now)
        return (self._located and self.places.roll(now)) or closed

    @property
    def numbers(self) -> NumberRecorder:
        """What takes numbers; made when first needed."""
        with self._places_lock:
            if self._numbers is None:
                with forks.loading():
                    from client_sdk.numbers.recorder import NumberRecorder  # as for places

                metrics = self._setup.metrics.metrics
                self._numbers = NumberRecorder(metrics, self.state, self.recorder)
            return self._numbers

    @property
    def places(self) -> LocationRecorder:
        """What takes fixes; made when first needed."""
        with self._places_lock:
            if self._places is None:
                with forks.loading():
                    from client_sdk.location.recorder import (
                        LocationRecorder,  # keeps the import light
                    )

                self._places = LocationRecorder(self._setup.metrics, self.state, self.recorder)
            return self._places

    def close(self, timeout: float) -> None:
        """Stop sending at once, waiting at most `timeout` seconds for the thread; close the state.

        Once this returns nothing leaves any more.
        """
        self.worker.cancel()
        self.end_overflow(0)
        with suppress(ClientError, sqlite3.Error, OSError):  # a full disk must not keep it open
            if self._places is not None:
                self._places.save()
        self.worker.stop(timeout)
        self.state.close()

    def suspend(self) -> None:
        """Before a fork: close all connections until they are needed again."""
        self.state.suspend()
        self.worker.suspend()


def do_not_track() -> bool:
    """Whether the person's environment says so (https://consoledonottrack.com)."""
    return os.environ.get(DO_NOT_TRACK, "").strip().lower() not in ("", "0", "false")
