"""The lifecycle of a client's session: consent, problems with the state, forks, resets.

`Client` is the public interface; `Session` is the open session.
"""

import sqlite3
import threading
import time
from contextlib import suppress
from typing import Any

from client_sdk import fork_hooks as forks
from client_sdk.errors import StateError
from client_sdk.recording.withdrawal import Withdrawal, reset
from client_sdk.session import DO_NOT_TRACK, Session, Setup
from client_sdk.storage.damage import reading
from rappor_core.calendar import SECONDS_A_DAY
from rappor_core.frozen import Frozen

CLOSE_SECONDS = 0.1  # the maximum time that closing waits for the sending thread
EXIT_SECONDS = 2.0  # the same limit, when the program ends
MAX_REASONS = 1_000  # the maximum number of counters in memory
REVIVAL_SECONDS = 60.0  # between two attempts by `record` to open an unusable state
BUSY_SECONDS = 1.0  # the same, if another process was using the state

REVIVAL = {"state_unavailable": REVIVAL_SECONDS, "state_busy": BUSY_SECONDS}

ACTIVE = "active"
KEY_REFUSED = "key_refused"
NOT_DELIVERED = "not_delivered"
SENTENCES = {
    ACTIVE: "Values are recorded and reports are sent.",
    KEY_REFUSED: "Values are recorded and wait: the collector refuses the app's key.",
    "no_consent": "The person has not consented: nothing is recorded, kept or sent.",
    "do_not_track": f"{DO_NOT_TRACK} is set: nothing is recorded or sent.",
    "closed": "The client is closed.",
}
LOST = "Consent is withdrawn, but the state to wipe is no longer in its place"
UNREMEMBERED = ". Nor can that be noted: keep the answer in the app, and open with consent=False"


class Status(Frozen):
    """The client's status, as one word and as a sentence."""

    condition: str  # one word; `active` if everything works
    sentence: str  # an explanation for a user or a log


class Lifecycle:
    """The session of one client from open to close, including consent, problems and forks.

    `session` is None while nothing may be recorded; `status` has the reason. Thread-safe.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.session: Session | None = None
        self.status = Status("closed", SENTENCES["closed"])
        self._lock = threading.RLock()
        self._file: tuple[int, int] | None = None  # identifies the opened state file
        self._revive_at: float | None = None  # a time.monotonic() value; None if no retry can help
        self._counted: dict[str, int] = {}
        self._withdrawal = Withdrawal(setup.directory, self._wiped)

    def begin(self, *, may_create: bool) -> None:
        """Open a session, or set `status`; `may_create` permits a new secret."""
        self._withdrawal.end()
        with self._lock:
            try:
                self.session = Session(
                    self.setup,
                    self._lock,
                    self.count,
                    may_create=may_create,
                    had_secret=self._file is not None and not may_create,
                )
                self._file = self.session.file
                self.status = Status(ACTIVE, SENTENCES[ACTIVE])
                forks.at_end_of_child(self)
                self._revive_at = None
            except StateError as error:
                self._trouble(error)

    def fail(self, session: Session, error: StateError) -> None:
        """Close a session, and set `status`, if the error means that its state is damaged."""
        if error.condition != "state_corrupt":
            return
        with self._lock:
            if self.session is not session:
                return
            self.session = None
            self._trouble(error)
        session.close(CLOSE_SECONDS)

    def _trouble(self, error: StateError) -> None:
        self.status = Status(error.condition, str(error))
        pause = REVIVAL.get(error.condition)
        self._revive_at = None if pause is None else time.monotonic() + pause

    def shut(self, condition: str) -> None:
        """Close the session, if open, and set `status` to one of the conditions in SENTENCES."""
        with self._lock:
            session, self.session = self.session, None
            self._revive_at = None
            self.status = Status(condition, SENTENCES[condition])
        if session is not None:
            session.worker.cancel()  # before anything that may wait: nothing is sent from now on
            session.end_overflow(CLOSE_SECONDS if condition == "closed" else 0)
            self.save_counts(session)
            session.close(CLOSE_SECONDS)

    def reopen(self) -> None:
        """Reopen the state once, because another process changed the secret."""
        with self._lock:
            if self.session is not None:
                self.shut("closed")
                self.begin(may_create=False)

    def revive(self, *, at_once: bool = False) -> Session | None:
        """Try to open a session in a forked child, or after a problem; return it, or None.

        This creates a new secret only if the user has consented and no secret was ever created.
        """
        if self._revive_at is None or not (at_once or time.monotonic() >= self._revive_at):
            return None
        with self._lock:
            if self.session is None and self._revive_at is not None:
                self.begin(may_create=False)
            return self.session

    def withdraw(self) -> None:
        """Close the session and wipe the state, except for the numbers on spent budget.

        Problems appear in `status` and are not raised. A thread retries until it succeeds, and so
        does the next `open`, with or without consent. If this client's state file is missing or was
        replaced, `status` reports it, because the state may still exist elsewhere.
        """
        self.shut("no_consent")
        if self._file is not None and self.setup.directory.file_id() != self._file:
            self.status = Status("no_consent", f"{LOST}: {self.setup.directory.state_path}")
            return
        self._file = None  # the wipe may replace the file
        trouble = self._withdrawal.begin()
        if trouble is not None:
            sentence = f"Consent is withdrawn, but the state could not be wiped yet: {trouble}"
            if not self.setup.directory.is_withdrawn:
                sentence += UNREMEMBERED
            self.status = Status("no_consent", sentence)
            if not self._withdrawal.pending:  # it has just succeeded
                self._wiped()

    @property
    def is_wiped(self) -> bool:
        """Return whether all withdrawals of consent have been carried out."""
        return self.status.sentence == SENTENCES["no_consent"]

    def _wiped(self) -> None:
        if self.status.condition == "no_consent":
            self.status = Status("no_consent", SENTENCES["no_consent"])

    def reset(self) -> None:
        """Start again with a new secret. Raises StateError if that fails."""
        self.shut("closed")
        day = int(self.setup.now() // SECONDS_A_DAY)
        reset(self.setup.directory, self._lock, self.setup.randomness, day).close()
        self._file = None
        self.begin(may_create=False)

    def count(self, reason: str) -> None:
        """Count a refused value by its reason; the counts stay in memory until saved."""
        if reason in self._counted or len(self._counted) < MAX_REASONS:
            self._counted[reason] = self._counted.get(reason, 0) + 1

    def save_counts(self, session: Session) -> None:
        """Move the counts from memory into the state."""
        counted, self._counted = self._counted, {}
        if not counted:
            return
        try:
            with session.state.transaction():
                for reason, number in counted.items():
                    session.state.count(reason, number)
        except (StateError, sqlite3.Error, OSError):  # such as a full disk: closing must work
            for reason, number in self._counted.items():
                counted[reason] = counted.get(reason, 0) + number
            self._counted = counted

    def account(self) -> dict[str, Any]:
        """Return the overview for `Client.inspect`, from the state and from memory."""
        from client_sdk.inspection import inspect_state  # imported late to keep the import fast

        account: dict[str, Any] = {}
        session = self.session or self.revive(at_once=True)
        if session is not None:
            self.save_counts(session)
            with suppress(StateError, sqlite3.Error, OSError):  # else the last saved places appear
                session.save_places()
            try:
                with reading(session.state.path), session.state.snapshot():
                    budget = session.recorder.budget
                    account = inspect_state(session.state, budget)
            except StateError as error:
                self.fail(session, error)
                account = {"trouble": str(error)}
        counters = account.get("counters", {})
        for reason, number in dict(self._counted).items():  # counts that could not be written yet
            counters[reason] = counters.get(reason, 0) + number
        num_held = 0 if session is None else len(session.overflow.calls)
        return {"held": num_held, **account, "counters": counters}

    def at_exit(self) -> None:
        """End all threads (see `fork_hooks`); values can still be recorded."""
        self._withdrawal.end(EXIT_SECONDS)
        session = self.session
        if session is not None:
            session.worker.cancel()
            session.end_overflow(EXIT_SECONDS)
            session.worker.stop(EXIT_SECONDS)

    def before_fork(self) -> None:
        """Close connections before a fork (see `fork_hooks`)."""
        self._lock.acquire()
        if self.session is not None:
            self.session.suspend()

    def after_fork_in_parent(self) -> None:
        """Continue in the parent after a fork (see `fork_hooks`)."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Replace the lock in a forked child; a new session is opened when first needed."""
        self._lock = threading.RLock()
        self._counted = {}  # the parent writes its own counts
        self._withdrawal = Withdrawal(self.setup.directory, self._wiped)
        if self.session is not None:
            self.session.worker.abandon()
            self.session = None
            self._revive_at = 0.0
