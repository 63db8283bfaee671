"""`Client`: what an app embeds. Record a value in one call; the rest happens automatically.

The main path is `record` -> `Session.record` -> `Recorder.record` -> `SqliteState.add_report`;
a thread (`delivery.thread.SenderThread`) sends what is queued. Trouble with the state or the
network never reaches the app: it shows in `status`, in `inspect`, and in counters.
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

HOUSEKEEPING = 250  # records between two looks at the bounds of the queue


class Client:
    """Records values of declared metrics, under the ledger, and delivers reports exactly once.

    Made by `open`. Methods may be called from any thread, from a coroutine (`record` takes some
    microseconds and never waits for the network), and after a fork.
    """

    def __init__(self, setup: Setup) -> None:
        """Use `open`."""
        self._setup = setup
        self._life = Lifecycle(setup)
        self._since_housekeeping = 0
        self._refused = "", ""  # reason, detail

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

        An error of the state does not raise: the client records nothing, and `status` says why.

        Args:
            metrics: `metrics.toml` or its compiled `.json`, or what `load_metrics` returned.
            state_dir: A directory for the state alone; it is created if missing. Private.
            collector: Address of the collector, https://, or http:// to this machine.
            consent: The person's answer; there is no default.
            key: Key of scope `report`, if the collector asks for keys.
            privacy_level: The person's choice: `standard`, `strict` or a `PrivacyLevel`.
            delivery: Delays, bounds, proxy and TLS; None for the defaults.
            relay: Hides the address from the collector; in place of `Delivery.relay`.
            development: Errors of the app in `record` raise, other reasons not to record are
                logged, and a key may travel over plain http to any host.
            randomness: Source of random bytes; another one is for tests.
            clock: Seconds since 1970, UTC.

        Returns:
            A client; close it when the app ends.

        Raises:
            MetricsFileError: The metrics cannot be read.
            ParameterError: Another argument is wrong.
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
        """Whether values are recorded and reports are sent, and if not, why."""
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
        """The reason why the last try to send failed, or a report was refused; "" otherwise."""
        session = self._life.session
        return session.worker.last_error if session is not None else ""

    @property
    def last_refusal(self) -> str:
        """A sentence with the reason of the last `record` that returned False; "" if none has.

        No value is in it. Of all threads: the latest.
        """
        from client_sdk.inspection import sentence  # rarely needed: keeps the import light

        reason, detail = self._refused
        metrics = self._setup.metrics
        declared = {**metrics.metrics, **{metric.base_name: metric for metric in metrics.declared}}
        if not reason:
            return ""
        session, budget = self._life.session, None
        if session is not None and reason.startswith("closed:"):
            with suppress(StateError, sqlite3.Error, OSError):  # held: said without the number
                budget = session.recorder.budget
        return sentence(reason, declared, self._setup.level, detail, budget)

    def record(self, name: str, value: object) -> bool:
        """Record a value of a metric. True when a report was queued.

        A queued report survives the end of the process. While another process holds the state for
        longer than 50 ms, the value waits in memory for the sending thread, and the answer is True
        as well (`held` in `inspect` is how many wait). Of kind `number`: True when the value was
        counted; one report of the period leaves when it ends.

        Never raises, and never waits for the network or for the disk to sync; of a burst that is
        faster than the disk a call waits a quarter of a second at most. False when nothing is
        recorded: `last_refusal` says why, and `inspect` counts it by reason.

        Args:
            name: Of a declared metric.
            value: One value, as the metric's kind takes it. Private.

        Returns:
            Whether a report was queued, or the value counted.

        Raises:
            UnknownMetricError: In development mode alone: the metric is not declared.
            ValueRefusedError: In development mode alone: the metric cannot encode the value.
        """
        return self._do(Session.record, name, value)

    def add(self, name: str, amount: float = 1) -> bool:
        """Add to a counter: kind `number`, `of_period = "sum"`, reported once a period.

        Args:
            name: Of a declared metric.
            amount: Finite. Private.

        Returns:
            Whether it was counted; see `record`.
        """
        return self._do(Session.add, name, amount)

    def record_location(
        self, name: str, latitude: float, longitude: float, at: datetime | None = None
    ) -> bool:
        """Take a raw fix, degrees, of a metric of places or flows. True when it was counted.

        Nothing of it leaves: the device adds up how long it was where, reports the usual cell of
        each slot once a period, and forgets. Any rate of fixes will do. It never raises, and waits
        in memory while another process holds the state.

        Args:
            name: Of a declared metric of kind `location` or `flow`.
            latitude: Degrees, -90 to 90. Private.
            longitude: Degrees. Private.
            at: Time of the fix, with a time zone; None for now, in the system's.

        Returns:
            Whether the fix was counted; see `record`.
        """
        return self._do(Session.take, name, ((latitude, longitude),), at)

    def record_trip(
        self, name: str, origin: Point, destination: Point, at: datetime | None = None
    ) -> bool:
        """Take a trip, for a location metric with `pairs`; see `record_location`.

        Args:
            name: Of a declared metric.
            origin: Latitude and longitude, degrees. Private.
            destination: The same of the end. Private.
            at: Time of its end, with a time zone; None for now, in the system's.

        Returns:
            Whether the trip was counted; see `record`.
        """
        return self._do(Session.take, name, (origin, destination), at)

    def _do(self, act: Callable[..., str | None], name: str, *rest: object) -> bool:
        """Do what an app asked for, as `record` does."""
        session = self._life.session or self._life.revive()
        if session is None:
            return self._not_recorded(f"not_recorded:{self._life.status.condition}")
        try:
            outcome = act(session, name, *rest, self._setup.now())
        except Exception as error:
            return self._failed(session, error)
        return self._recorded(session, name, outcome)

    def flush(self, timeout: float) -> bool:
        """Send what waits now, without the random delay. True when all was delivered in time.

        Use it at the end of a session or test: a service that flushes after every record reveals
        to the collector when it was used.

        Args:
            timeout: Seconds to wait at most.

        Returns:
            False, too, where the collector refused a report or one was dropped (`last_error`), and
            under `DO_NOT_TRACK`, where the queue is kept and not sent (`status`).
        """
        session = self._life.session or self._life.revive(at_once=True)
        if session is None:
            return self.status.condition == "no_consent"  # nothing waits
        return session.worker.flush(min(timeout, TIMEOUT_MAX))

    def close(self) -> None:
        """Stop the sending thread and close the state, within a fraction of a second.

        Nothing is lost: what was not delivered is sent after the next `open`.
        """
        self._life.shut("closed")
        forks.forget(self._life)

    def set_consent(self, consent: bool, *, budget: float | None = None) -> bool:
        """Record the person's decision. Withdrawn: queue, values and secret are wiped at once.

        Only numbers stay (values memoized, epsilon spent, the budget), so that consenting again
        does not start from zero. `DO_NOT_TRACK=1` in the environment wins over consent, and wipes
        nothing.

        Args:
            consent: The person's answer.
            budget: Nats that the person saw and agreed to now, up to what the metrics file
                declares. It takes the place of the budget that this device began with, which holds
                otherwise, whatever later files declare.

        Returns:
            True when that holds on the disk: with consent the state is open, without it is wiped.
            False: `status` says why, and whether it is tried again. Keep the answer of a withdrawal
            that returned False in the app, and open with it: where nothing can be written, a start
            with consent=True would continue with the old secret and queue.

        Raises:
            ParameterError: Another budget, or one without consent.
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
                session.recorder.forget()  # what was closed may be open now
            except (StateError, sqlite3.Error, OSError) as error:
                return self._trouble(session, error)
        return self._life.session is not None if consent else self._life.is_wiped

    def reset(self) -> None:
        """Start again with a new secret, where `status` says that the state cannot be used.

        Each new secret spends the privacy budget again: a tombstone in the ledger says so for
        ever. Never call this automatically. Raises StateError without consent, and where a file
        cannot be made.
        """
        if self.status.condition in ("no_consent", "do_not_track"):
            raise StateError(f"reset() needs consent. {self.status.sentence}")
        self._life.reset()

    def inspect(self) -> dict[str, Any]:
        """Return the account of what is queued, was sent and can be inferred, as plain values for
        JSON.

        `inspection.render` makes text of it, as `python -m client_sdk inspect STATE_DIR` does.
        Where the state cannot be read there is `trouble`, a sentence, in place of what it holds.
        """
        account = self._life.account()
        delivery = {"status": self.status.to_fields(), "last_error": self.last_error}
        return {**delivery, "last_refusal": self.last_refusal, **account}

    def __enter__(self) -> Client:
        """Use it in a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _recorded(self, session: Session, name: str, outcome: str | None) -> bool:
        """Answer the app; wake the sending thread if it is idle, and sometimes for housekeeping."""
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
        """Count an error of a call; outside of development mode none reaches the app."""
        if isinstance(error, StateChangedError):
            self._life.reopen()
            return self._not_recorded("not_recorded:state_changed")
        if blame(error) == "trouble":
            return self._trouble(session, error)
        if self._setup.development:
            raise error
        return self._not_recorded(f"{blame(error)}:{type(error).__name__}", detail_of(error))

    def _trouble(self, session: Session, error: Exception) -> bool:
        """Count it; where the state is damaged, stop using it."""
        failure = trouble(session.state.path, error)
        if isinstance(failure, StateBusyError):
            return self._not_recorded("not_recorded:busy")
        session.trouble = f"Not recorded: {failure}"
        self._life.fail(session, failure)
        return self._not_recorded(f"trouble:{type(error).__name__}", detail_of(error))

    def _not_recorded(self, reason: str, detail: str = "", full_reason: str = "") -> bool:
        """Count a reason, and keep it for `last_refusal`. full_reason: with more to it."""
        self._life.count(reason)
        before, self._refused = self._refused, (full_reason or reason, detail)
        if self._setup.development and before != self._refused:
            from logging import getLogger  # only where a developer looks

            getLogger("client_sdk").warning("not recorded: %s", self.last_refusal)
        return False
