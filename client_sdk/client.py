"""The `Client` that an app embeds: `record` queues a report, which is then sent automatically.

The main path is `record` -> `Session.record` -> `Recorder.record` -> `SqliteState.add_report`; a
thread (`delivery.thread.SenderThread`) sends the queue. Problems with the state or the network
never reach the app. They appear in `status`, in `inspect`, and in counters.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any

from client_sdk import fork_hooks as forks
from client_sdk.errors import StateBusyError, StateChangedError, StateError, blame, detail_of
from client_sdk.lifecycle import ACTIVE, KEY_REFUSED, NOT_DELIVERED, SENTENCES, Lifecycle, Status
from client_sdk.randomization.key_derivation import Randomness, system_randomness
from client_sdk.recording.bounds import PrivacyLevel, agree_budget, check_budget
from client_sdk.session import (
    Session,
    Setup,
    delivery_by,
    directory_of,
    do_not_track,
    environment_certificates,
)
from client_sdk.storage.damage import trouble
from rappor_core.errors import ParameterError
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.metrics_file import MetricsFile

if TYPE_CHECKING:
    from datetime import datetime

    from client_sdk.delivery.options import Delivery
    from client_sdk.delivery.relay import Relay
    from client_sdk.location.recorder import Point

HOUSEKEEPING = 250  # the number of records between two checks of the queue's limits


class Client:
    """A client that records values of declared metrics and delivers reports exactly once.

    The ledger limits what is recorded. Create a client with `open`. Methods may be called from any
    thread, from a coroutine (`record` takes some microseconds and never waits for the network), and
    after a fork.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._life = Lifecycle(setup)
        self._since_housekeeping = 0
        self._refused = "", ""  # the reason and a detail

    @classmethod
    def open(
        cls,
        metrics: MetricsFile | str | os.PathLike[str],
        *,
        state_dir: str | os.PathLike[str],
        collector: str,
        consent: bool,
        key: str | None = None,
        privacy_level: str | PrivacyLevel = "standard",
        delivery: Delivery | None = None,
        relay: Relay | None = None,
        development: bool = False,
        randomness: Randomness = system_randomness,
        clock: Callable[[], float] = time.time,
    ) -> Client:
        """Open the state and start the sending thread.

        Errors in the state are not raised. In that case the client records nothing, and `status`
        has the reason.

        Args:
            metrics: `metrics.toml` or its compiled `.json`, or the result of `load_metrics`.
            state_dir: A directory that contains only the state; it is created if missing. Private.
            collector: The collector's address: https://, or http:// to this machine.
            consent: The user's answer; there is no default.
            key: The key of scope `report`, if the collector requires keys.
            privacy_level: The user's choice: `standard`, `strict` or a `PrivacyLevel`.
            delivery: The delays, limits, proxy and TLS; None for the defaults.
            relay: A relay that hides the device's address from the collector; replaces
                `Delivery.relay`.
            development: If true, `record` raises errors that the app caused, all other refusals
                are logged, and the key may be sent over plain http to any host.
            randomness: The source of random bytes; replace it only in tests.
            clock: A function that returns the seconds since 1970, UTC.

        Returns:
            A client; close it when the app ends.

        Raises:
            MetricsFileError: The metrics cannot be read.
            ParameterError: Another argument is invalid.
        """
        if type(consent) is not bool:
            raise ParameterError(f"consent = {consent!r}: pass what the user chose, True or False")
        setup = Setup(
            directory_of(state_dir),
            collector,
            key,
            delivery_by(relay, delivery),
            randomness,
            clock,
            environment_certificates(),
            metrics if isinstance(metrics, MetricsFile) else load_metrics(metrics),
            PrivacyLevel.of(privacy_level),
            development,
        )
        client = cls(setup)
        client.set_consent(consent)
        forks.watch(client._life)
        return client

    @property
    def status(self) -> Status:
        """Return whether values are recorded and reports are sent, and if not, why."""
        status, session = self._life.status, self._life.session
        if status.condition == ACTIVE and session is not None:
            if session.trouble:
                return Status("state_unavailable", session.trouble)
            if session.worker.key_is_refused:
                return Status(KEY_REFUSED, SENTENCES[KEY_REFUSED])
            if failing := session.worker.not_delivered:
                return Status(NOT_DELIVERED, f"Values are recorded and wait: {failing}.")
        return status

    @property
    def last_error(self) -> str:
        """Return why the last attempt to send failed or a report was rejected; "" otherwise."""
        session = self._life.session
        return session.worker.last_error if session is not None else ""

    @property
    def last_refusal(self) -> str:
        """Return a sentence on why the latest failed `record` in any thread failed; "" if none did.

        The sentence contains no value.
        """
        from client_sdk.inspection import sentence  # imported late to keep the import fast

        reason, detail = self._refused
        metrics = self._setup.metrics
        declared = {**metrics.metrics, **{metric.base_name: metric for metric in metrics.declared}}
        if not reason:
            return ""
        session, budget = self._life.session, None
        if session is not None and reason.startswith("closed:"):
            with suppress(StateError, sqlite3.Error, OSError):  # busy: omit the number
                budget = session.recorder.budget
        return sentence(reason, declared, self._setup.level, detail, budget)

    def record(self, name: str, value: object) -> bool:
        """Record a value for a metric, and return True if a report was queued.

        A queued report survives the end of the process. If another process locks the state for
        longer than 50 ms, the value waits in memory for the sending thread, and the result is also
        True (`held` in `inspect` is the number of such values). For kind `number`, True means that
        the value was counted; one report is sent when the period ends.

        The method never raises, and never waits for the network or for the disk to sync. In a burst
        that is faster than the disk, a call waits at most a quarter of a second. False means that
        nothing was recorded: `last_refusal` has the reason, and `inspect` counts it by reason.

        Args:
            name: The name of a declared metric.
            value: One value, in the form that the metric's kind accepts. Private.

        Returns:
            Whether a report was queued or the value was counted.

        Raises:
            UnknownMetricError: Only in development mode: the metric is not declared.
            ValueRefusedError: Only in development mode: the metric cannot encode the value.
        """
        return self._do(Session.record, name, value)

    def add(self, name: str, amount: float = 1) -> bool:
        """Add to a counter (kind `number` with `of_period = "sum"`), reported once per period.

        Args:
            name: The name of a declared metric.
            amount: A finite number. Private.

        Returns:
            Whether the amount was counted; see `record`.
        """
        return self._do(Session.add, name, amount)

    def record_return(self, name: str) -> bool:
        """Report how many days ago the app was last used; call it when the app is opened.

        At most one answer is reported per day, and at most one per period. `docs/returning.md`
        shows how to declare the metric.

        Args:
            name: A category metric with the values of `client_sdk.history.RETURN_CATEGORIES`.

        Returns:
            True if the answer was queued, or already reported; see `record`.
        """
        return self._do(Session.record_return, name)

    def record_step(self, name: str, step: str) -> bool:
        """Store a funnel step if it is further than all steps of this period so far.

        The step is reported when the period is over. Steps are ordered as the categories are.

        Args:
            name: The name of a category metric whose categories are the steps.
            step: One of the categories. Private.

        Returns:
            True if the step was counted; see `record`.
        """
        return self._do(Session.record_step, name, step)

    def record_location(
        self, name: str, latitude: float, longitude: float, at: datetime | None = None
    ) -> bool:
        """Add a raw location fix to a location or flow metric, and return True if it was counted.

        The fix never leaves the device. The device adds up its time in each cell, reports the usual
        cell for each slot once per period, and forgets the rest. Fixes may arrive at any rate. The
        method never raises. If another process locks the state, the fix waits in memory.

        Args:
            name: The name of a declared metric of kind `location` or `flow`.
            latitude: The latitude in degrees, -90 to 90. Private.
            longitude: The longitude in degrees. Private.
            at: The time of the fix, with a time zone; None for now, in the system's time zone.

        Returns:
            Whether the fix was counted; see `record`.
        """
        return self._do(Session.take, name, ((latitude, longitude),), at)

    def record_trip(
        self, name: str, origin: Point, destination: Point, at: datetime | None = None
    ) -> bool:
        """Add a trip to a location metric with `pairs`; see `record_location`.

        Args:
            name: The name of a declared metric.
            origin: The latitude and longitude of the start in degrees. Private.
            destination: The latitude and longitude of the end in degrees. Private.
            at: The time of the end, with a time zone; None for now, in the system's time zone.

        Returns:
            Whether the trip was counted; see `record`.
        """
        return self._do(Session.take, name, (origin, destination), at)

    def _do(self, act: Callable[..., str | None], name: str, *rest: object) -> bool:
        session = self._life.session or self._life.revive()
        if session is None:
            return self._not_recorded(f"not_recorded:{self._life.status.condition}")
        try:
            outcome = act(session, name, *rest, self._setup.now())
        except Exception as error:
            return self._failed(session, error)
        return self._recorded(session, name, outcome)

    def flush(self, timeout: float) -> bool:
        """Send the queue now, without the random delay; return True if all reports were delivered.

        Use this method at the end of a session or test. A service that flushes after every record
        reveals to the collector when it is used.

        Args:
            timeout: The maximum number of seconds to wait.

        Returns:
            Whether everything was delivered. Also False if a report was rejected or dropped (see
            `last_error`), and under `DO_NOT_TRACK`, which keeps the queue unsent (see `status`).
        """
        session = self._life.session or self._life.revive(at_once=True)
        if session is None:
            return self.status.condition == "no_consent"  # the queue is empty
        return session.worker.flush(min(timeout, TIMEOUT_MAX))

    def close(self) -> None:
        """Stop the sending thread and close the state, within a fraction of a second.

        No data is lost, because undelivered reports are sent after the next `open`.
        """
        self._life.shut("closed")
        forks.forget(self._life)

    def set_consent(self, consent: bool, *, budget: float | None = None) -> bool:
        """Record the user's decision. On withdrawal, wipe the queue, values and secret immediately.

        Only numbers remain (the count of memoized values, the epsilon spent, the budget), so that
        new consent does not start from zero. `DO_NOT_TRACK=1` in the environment overrides consent
        but wipes nothing.

        Args:
            consent: The user's answer.
            budget: The budget in nats that the user has just agreed to, at most the budget in the
                metrics file. It replaces the budget with which this device began. If None, the
                first budget stays in force regardless of later files.

        Returns:
            True if the disk reflects the decision: the state is open (consent) or wiped (no
                consent). If False, `status` states the reason and whether the client tries again.
                If a withdrawal returns False, store the answer in the app, and pass it to `open`.
                Otherwise, if nothing can be written, a start with consent=True would continue with
                the old secret and queue.

        Raises:
            ParameterError: The budget is invalid, or given without consent.
        """
        agreed = None if budget is None else check_budget(budget, self._setup.metrics.budget)
        if agreed is not None and not consent:
            raise ParameterError(f"budget = {agreed:g} needs consent")
        if not consent:
            self._life.withdraw()
        elif do_not_track():
            self._life.shut("do_not_track")
        elif self._life.session is None:
            self._life.begin(may_create=True)
        session = self._life.session
        if agreed is not None and session is not None:
            try:
                agree_budget(session.state, agreed)
                session.recorder.forget()  # metrics that were over budget may be allowed now
            except (StateError, sqlite3.Error, OSError) as error:
                return self._trouble(session, error)
        return self._life.session is not None if consent else self._life.is_wiped

    def reset(self) -> None:
        """Start again with a new secret if `status` reports that the state is unusable.

        Each new secret spends the privacy budget again, and a tombstone in the ledger records
        the reset permanently. Never call this automatically. Raises StateError if there is no
        consent, or if a file cannot be created.
        """
        if self.status.condition in ("no_consent", "do_not_track"):
            raise StateError(f"reset() needs consent. {self.status.sentence}")
        self._life.reset()

    def inspect(self) -> dict[str, Any]:
        """Return an overview of queued and sent data and of what it reveals, as plain JSON values.

        `inspection.render` formats the overview as text, as `python -m client_sdk inspect
        STATE_DIR` does. If the state cannot be read, a sentence under `trouble` explains why.
        """
        account = self._life.account()
        delivery = {"status": self.status.to_fields(), "last_error": self.last_error}
        return {**delivery, "last_refusal": self.last_refusal, **account}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _recorded(self, session: Session, name: str, outcome: str | None) -> bool:
        """Return whether an outcome of `Session` counts as recorded; wake the sending thread."""
        session.trouble = ""
        if outcome in (None, "held"):
            return True
        if outcome not in ("queued", "queued_fallback"):
            why = session.recorder.why_closed(name) if outcome == "closed" else ""
            return self._not_recorded(f"{outcome}:{name}", full_reason=f"{outcome}:{name}:{why}")
        worker = session.worker
        if worker.idle:
            worker.notify()
        self._since_housekeeping += 1
        if self._since_housekeeping >= HOUSEKEEPING:
            self._since_housekeeping = 0
            worker.run_maintenance()
        return True

    def _failed(self, session: Session, error: Exception) -> bool:
        """Count an error from a call and return False, or raise app errors in development mode."""
        if isinstance(error, StateChangedError):
            self._life.reopen()
            return self._not_recorded("not_recorded:state_changed")
        if blame(error) == "trouble":
            return self._trouble(session, error)
        if self._setup.development:
            raise error
        return self._not_recorded(f"{blame(error)}:{type(error).__name__}", detail_of(error))

    def _trouble(self, session: Session, error: Exception) -> bool:
        """Count an error of the state and return False; close the session if it is damaged."""
        failure = trouble(session.state.path, error)
        if isinstance(failure, StateBusyError):
            return self._not_recorded("not_recorded:busy")
        session.trouble = f"Not recorded: {failure}"
        self._life.fail(session, failure)
        return self._not_recorded(f"trouble:{type(error).__name__}", detail_of(error))

    def _not_recorded(self, reason: str, detail: str = "", full_reason: str = "") -> bool:
        """Count a refusal under `reason`, store it for `last_refusal`, and return False."""
        self._life.count(reason)
        before, self._refused = self._refused, (full_reason or reason, detail)
        if self._setup.development and before != self._refused:
            from logging import getLogger  # only in development mode

            getLogger("client_sdk").warning("not recorded: %s", self.last_refusal)
        return False
