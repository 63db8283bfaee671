"""The checked settings of a client, and its session.

A session is the open state, the recorder for the app's threads, and the sending thread.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from client_sdk import fork_hooks as forks
from client_sdk.delivery.addresses import check_key, check_key_is_hidden, split_url
from client_sdk.delivery.options import Delivery, SenderSetup
from client_sdk.delivery.thread import SenderThread
from client_sdk.errors import ClientError, StateBusyError, StateError, UnknownMetricError, blame
from client_sdk.recording.bounds import PrivacyLevel
from client_sdk.recording.ledger import check_ledger
from client_sdk.recording.overflow import Overflow
from client_sdk.recording.recorder import Recorder
from client_sdk.recording.withdrawal import wipe
from client_sdk.storage.damage import trouble
from client_sdk.storage.directory import StateDirectory
from client_sdk.storage.interface import HISTORY, NUMBERS, VISITS
from rappor_core.errors import ParameterError, shown
from rappor_core.hashing import hash_problem
from rappor_core.metrics.metrics_file import MetricsFile

if TYPE_CHECKING:
    from datetime import datetime

    from client_sdk.delivery.relay import Relay
    from client_sdk.history import HistoryRecorder
    from client_sdk.location.recorder import LocationRecorder, Point
    from client_sdk.numbers import NumberRecorder

DO_NOT_TRACK = "DO_NOT_TRACK"


def environment_certificates() -> tuple[str | None, str | None]:
    """Return the CA file and CA directory from OpenSSL's variables; None for each that is unset."""
    named = (os.environ.get(variable) for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    file, directory = (os.path.abspath(path) if path else None for path in named)
    return file, directory


class Setup(SenderSetup):
    """The settings with which a client is opened.

    Raises ParameterError if an address or a key is unusable.
    """

    metrics: MetricsFile
    level: PrivacyLevel
    development: bool

    def __post_init__(self) -> None:
        split_url(self.collector)
        check_key(self.key)
        if not self.development:
            check_key_is_hidden(self.key, self.collector)


def delivery_by(relay: Relay | None, delivery: object) -> Delivery:
    """Return the delivery options, with the relay if given. Raises ParameterError if invalid."""
    options = Delivery() if delivery is None else delivery
    if not isinstance(options, Delivery):
        raise ParameterError(f"delivery = {shown(delivery)} is not a Delivery")
    return options.replace(relay=relay) if relay else options


def directory_of(state_dir: object) -> StateDirectory:
    """Return the directory of a state. Raises ParameterError if it is not a path."""
    path = os.fspath(state_dir) if isinstance(state_dir, str | os.PathLike) else None
    if not path or not isinstance(path, str):
        raise ParameterError(f"state_dir = {shown(state_dir)} is not the path of a directory")
    try:
        return StateDirectory(path)
    except OSError as error:  # the working directory was deleted
        raise ParameterError(f"state_dir = {shown(state_dir)} is relative: {error}") from error


class Session:
    """The client's work on an open state, from opening to closing it.

    `lock` is the lock of this process for the state. `count` is called if a delayed call is not
    recorded.
    """

    def __init__(
        self,
        setup: Setup,
        lock: threading.RLock,
        count: Callable[[str], None],
        *,
        may_create: bool,
        had_secret: bool = False,
    ) -> None:
        """Open the state, the recorder and the sending thread.

        `may_create` permits a new secret, because the user has just consented. `had_secret` means
        that this client had a session before, so a state without a secret is a different state.
        Raises StateError, with condition `no_consent` if there is no secret and it may not be
        created.
        """
        if problem := hash_problem():
            raise StateError(f"{problem}: install it as files, outside of a zip", "unusable_here")
        self._count = count
        self.trouble = ""  # why the last value could not be recorded; "" if it was
        self.overflow = Overflow(lambda error: count(f"{blame(error)}:{type(error).__name__}"))
        if setup.directory.is_withdrawn:
            wipe(setup.directory, lock)  # began in an earlier run, or while the state was locked
        if had_secret and not setup.directory.has_state():
            raise setup.directory.missing()
        self.state = setup.directory.open(lock, check_ledger)
        try:
            if had_secret and self.state.identity().generation == 0:
                raise setup.directory.missing()
            self._prepare(setup, lock, may_create=may_create)
            self.file = setup.directory.file_id()
        except (sqlite3.Error, OSError) as error:
            self.state.close()
            raise trouble(self.state.path, error) from error
        except BaseException:
            self.state.close()
            raise

    def _prepare(self, setup: Setup, lock: threading.RLock, *, may_create: bool) -> None:
        if may_create or self.state.identity().generation == 0:  # 0 if no secret was ever created
            setup.directory.ensure_secret(self.state, setup.randomness)
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
        self._located = {m.base_name for m in setup.metrics.declared if m.rules.takes_fixes}
        self._collected = {m.name for m in setup.metrics.metrics.values() if m.rules.collected}
        self._categories = {m.name for m in setup.metrics.declared if m.categories}
        here = {m.base_name for m in setup.metrics.declared if self.recorder.runs_here(m)}
        notes = {VISITS + name for name in self._located & here}
        notes |= {NUMBERS + name for name in self._collected & here}
        notes |= {HISTORY + name for name in self._categories & here}
        self.state.keep_notes(notes)  # an earlier metrics file may have had more metrics
        filled = any(metric.no_data is not None for metric in setup.metrics.metrics.values())
        if self._located:
            self.places  # noqa: B018 - created before a second thread needs it
        if self._collected:
            self.numbers  # noqa: B018
        is_timed = filled or self._located or self._collected or self._categories
        chore = self._close_periods if is_timed else None
        stopped = self.recorder.forget_metric
        self.worker = SenderThread(setup, lock, chore, self.overflow.write_out, stopped)
        try:
            self.worker.start()
        except RuntimeError as error:  # no more threads, or the interpreter is ending
            raise StateError(f"the sending thread cannot be started: {error}") from error

    def record(self, name: str, value: object, now: float) -> str | None:
        """Record a value as `Recorder.record` does.

        While another process or thread uses the state, the value waits in memory ("held"). Return
        None if the value was added to a period. Raises StateBusyError if it cannot wait.
        """
        return self._now_or_later(self._record, name, value, now)

    def _record(self, name: str, value: object, now: float) -> str | None:
        if name in self._located:
            raise UnknownMetricError(name, (f"{name}/",))
        if name in self._collected:
            return self._scrubbing(self.numbers.record(name, value, now))
        return self.recorder.record(name, value, now)

    def add(self, name: str, amount: object, now: float) -> str | None:
        """Add to a counter, or queue the amount in memory as `record` does."""
        self.numbers.check_sum(name)
        return self.record(name, amount, now)

    def record_return(self, name: str, now: float) -> str | None:
        """Report the days since the last use, or queue the call in memory as `record` does."""
        return self._now_or_later(self.history.record_return, name, now)

    def record_step(self, name: str, step: object, now: float) -> str | None:
        """Store a funnel step, or queue the call in memory as `record` does."""
        return self._now_or_later(self.history.record_step, name, step, now)

    def take(
        self, name: str, points: tuple[Point, ...], at: datetime | None, now: float
    ) -> str | None:
        """Accept a fix or a trip as `LocationRecorder.take` does, or queue it in memory."""
        points = tuple(tuple(end) if isinstance(end, list) else end for end in points)
        moments = self.places.times(at, now)
        return self._now_or_later(self._take, name, points, *moments)

    def _take(self, name: str, *rest: object) -> str | None:
        return self._scrubbing(self.places.take(name, *rest))  # type: ignore[arg-type]

    def _now_or_later(self, act: Callable[..., str | None], name: str, *rest: object) -> str | None:
        """Call `act` or, if the state is busy or other calls wait, queue it in memory ("held")."""
        if not self.overflow.calls or self.overflow.write_some():
            try:
                return act(name, *rest)
            except StateBusyError:
                pass  # queued below
        if not self.overflow.hold(partial(self._late, act), name, *rest):
            raise StateBusyError(f"{self.state.path} is locked, and no more calls may wait for it")
        self.worker.run_maintenance()
        return "held"

    def _late(self, act: Callable[..., str | None], name: str, *rest: object) -> None:
        outcome = act(name, *rest)
        if outcome not in (None, "queued", "queued_fallback"):
            self._count(f"{outcome}:{name}")

    def _scrubbing(self, outcome: str | None) -> str | None:
        if outcome == "queued":
            self.worker.run_maintenance()
        return outcome

    def save_places(self) -> None:
        """Write the current period's places to the state, so that `inspect` can read them."""
        if self._located:
            self.places.save()

    def end_overflow(self, seconds: float) -> None:
        """Write waiting calls for up to `seconds` (0 writes none); drop the rest."""
        end = time.monotonic() + seconds
        while self.overflow.calls and (remaining := end - time.monotonic()) > 0:
            with suppress(StateBusyError):
                self.overflow.write_out(remaining)
        for _ in range(self.overflow.forget()):
            self._count("not_recorded:busy")

    def _close_periods(self) -> None:
        """Report finished periods; the sending thread calls this regularly."""
        now = self._setup.now()
        if self._categories:  # before `no_data` replaces a funnel's report
            self.history.roll(now)
        self.recorder.fill_periods(now)
        if self._collected:
            self.numbers.roll(now)
        if self._located:
            self.places.roll(now)

    @cached_property
    def numbers(self) -> NumberRecorder:
        """Return the recorder for number metrics."""
        with forks.loading():
            from client_sdk.numbers import NumberRecorder  # only if a metric needs it

        return NumberRecorder(self._setup.metrics.metrics, self.state, self.recorder)

    @cached_property
    def history(self) -> HistoryRecorder:
        """Return the recorder for return visits and funnels."""
        with forks.loading():
            from client_sdk.history import HistoryRecorder  # as above

        return HistoryRecorder(self._setup.metrics.metrics, self.state, self.recorder)

    @cached_property
    def places(self) -> LocationRecorder:
        """Return the recorder for location and flow metrics."""
        with forks.loading():
            from client_sdk.location.recorder import LocationRecorder  # as above

        return LocationRecorder(self._setup.metrics, self.state, self.recorder)

    def close(self, timeout: float) -> None:
        """Stop sending, wait at most `timeout` seconds for the thread, and close the state.

        After the call, nothing more is sent. Values that wait in memory are lost, and counted.
        """
        self.worker.cancel()
        self.end_overflow(0)
        with suppress(ClientError, sqlite3.Error, OSError):  # even with a full disk, close the rest
            self.save_places()
        self.worker.stop(timeout)
        self.state.close()

    def suspend(self) -> None:
        """Close all connections before a fork; they are reopened when needed."""
        self.state.suspend()
        self.worker.suspend()


def do_not_track() -> bool:
    """Return whether the environment has DO_NOT_TRACK set (https://consoledonottrack.com)."""
    return os.environ.get(DO_NOT_TRACK, "").strip().lower() not in ("", "0", "false")
