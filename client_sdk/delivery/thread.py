"""The thread that sends, so that recording never waits for the network.

It is a daemon: an app that ends does not wait for it, and what it had not finished is in the state.
What it needs to send is imported when there is something to send.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from client_sdk import fork_hooks as forks
from client_sdk.delivery.cancellation import Cancellation
from client_sdk.errors import StateBusyError, StateError
from client_sdk.storage.directory import FileLock
from client_sdk.storage.sqlite import SqliteState

if TYPE_CHECKING:
    from client_sdk.delivery.options import SenderSetup
    from client_sdk.delivery.schedule import SendLoop
    from client_sdk.delivery.transport import Transport

LOOK_SECONDS = 900.0  # between two looks at whether a period is over: days begin on quarters
SCRUB_PAUSE = 10.0  # seconds until the files are scrubbed again, where another process hindered it
BUSY_PAUSE = 0.25  # the same, while another process holds the state
LOCK_PATIENCE = 1.0  # seconds for which the thread waits for threads of the app
TROUBLE_PAUSE = 5.0  # seconds until the next try when the state cannot be used (a full disk)


class SenderThread:
    """The sending thread of a client. All methods may be called from any thread."""

    def __init__(
        self,
        setup: SenderSetup,
        lock: threading.RLock,
        chore: Callable[[], None] | None = None,
        catch_up: Callable[[], None] = lambda: None,
        stopped: Callable[[str], None] = lambda _: None,
    ) -> None:
        """lock: of the process, for the state.

        chore: done at the start, and at each quarter of an hour of the clock, whatever waits to be
        sent; then what was deleted is scrubbed from the files.  catch_up: done first; raises
        StateBusyError to have it tried again.  stopped: see `ReportQueue`.
        """
        self._setup = setup
        self._stopped = stopped
        self._catch_up = catch_up
        self._chore = chore
        self._directory = setup.directory
        self._state: SqliteState = setup.directory.connect(lock, LOCK_PATIENCE)
        self._file_lock = FileLock(setup.directory.sender_lock_path)
        self._loop: SendLoop | None = None
        self._transport: Transport | None = None
        self._cancellation = Cancellation()
        self._changed = threading.Condition()
        self._wanted = self._seen = self._done = 0  # tickets of flush: given out, seen, done
        self._stopping = False
        self._news = self._housework = False
        self._clean = True  # the files hold nothing that was deleted
        self.idle = False  # nothing waits, and the thread sleeps until `notify`
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="rappor-sender", daemon=True)

    @property
    def last_error(self) -> str:
        """The reason why the last try failed; "" after one that did not."""
        return self._trouble or (self._loop.last_error if self._loop is not None else "")

    @property
    def not_delivered(self) -> str:
        """Since when nothing could be delivered, and why; "" if the last try did not fail."""
        if self._trouble:
            return f"not delivered, because {self._trouble}"
        return self._loop.not_delivered if self._loop is not None else ""

    @property
    def _num_lost(self) -> int:
        return self._loop.num_lost if self._loop is not None else 0

    @property
    def key_is_refused(self) -> bool:
        """Whether the collector refused the key (401 or 403) at the last try."""
        return self._loop is not None and self._loop.key_is_refused

    def start(self) -> None:
        """Begin; what an earlier run left is sent without waiting for a record."""
        self._thread.start()

    def notify(self) -> None:
        """Tell the thread that a report was queued while none waited."""
        with self._changed:
            self._news = True
            self.idle = False
            self._changed.notify_all()

    def run_maintenance(self) -> None:
        """Hold the bounds of the queue and of the write-ahead log now, in the thread."""
        with self._changed:
            self._housework = self._news = True
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Send now; True when all was delivered within `timeout` seconds.

        False, too, where a report was refused or dropped meanwhile: `last_error` says why.
        """
        lost = self._num_lost
        with self._changed:
            self._wanted += 1
            ticket = self._wanted
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done >= ticket or self._stopping, timeout)
            drained = self._done >= ticket
            self._done = max(self._done, ticket)  # nobody waits for it any more
        return drained and self._num_lost == lost

    def cancel(self) -> None:
        """Stop all sending, without waiting for the thread: once this returns, no byte leaves.

        The thread ends soon after.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._cancellation.cancel()

    def stop(self, timeout: float) -> None:
        """Stop all sending as `cancel` does; wait at most `timeout` seconds for the thread."""
        self.cancel()
        self._thread.join(timeout)

    def suspend(self) -> None:
        """Close the thread's connection to the state before a fork, until it is needed again."""
        self._state.suspend()

    def abandon(self) -> None:
        """Forget the thread in a forked child, since it runs in the parent alone."""
        self._file_lock.release()
        if self._transport is not None:
            self._transport.close()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._sleep(self._try_step())
        finally:
            self._state.close()

    def _try_step(self) -> float | None:
        with self._changed:
            self._news = self._housework = False
            ticket = self._seen = self._wanted
            hurried = ticket > self._done
        try:
            wait = self._step(hurried=hurried)
            self._trouble = ""
        except StateBusyError as error:
            self._trouble = str(error)
            return BUSY_PAUSE
        except Exception as error:  # shown in `last_error`; the thread must outlive it
            self._trouble = f"{type(error).__name__}: {error}"
            return TROUBLE_PAUSE
        if wait is None:
            with self._changed:
                self._done = max(self._done, ticket)
                self._changed.notify_all()
        return wait

    def _step(self, *, hurried: bool) -> float | None:
        if self._directory.is_withdrawn:
            raise StateError("consent was withdrawn; the state is about to be wiped", "no_consent")
        self._catch_up()
        if self._chore is not None:
            self._chore()
            self._clean = False
            self._clean = self._state.scrub_traces()
        if self._loop is None:
            if not self._state.has_waiting():
                return None
            self._loop = self._make_loop()
        return self._loop.step(hurried=hurried)

    def _make_loop(self) -> SendLoop:
        with forks.loading():
            from client_sdk.delivery.schedule import SendLoop
            from client_sdk.delivery.transport import Transport

        setup, delivery = self._setup, self._setup.delivery
        self._transport = (delivery.relay.transport if delivery.relay else Transport)(
            setup.collector,
            setup.key,
            timeout=delivery.timeout,
            proxy=delivery.proxy,
            tls=delivery.tls,
            certificates=setup.certificates,
            plain_key=True,  # `Client.open` has decided on it
            cancellation=self._cancellation,
        )
        return SendLoop(
            self._state,
            self._transport,
            self._file_lock,
            delivery,
            setup.randomness,
            setup.now,
            self._stopped,
        )

    def _until_look(self) -> float | None:
        """Seconds until the chore is due; None where there is none."""
        if self._chore is None:
            return None
        look = LOOK_SECONDS - self._setup.now() % LOOK_SECONDS
        return look if self._clean else min(look, SCRUB_PAUSE)

    def _sleep(self, wait: float | None) -> None:
        """Until something is queued, if nothing waits; otherwise for a time, or until a flush."""
        look = self._until_look()
        with self._changed:
            if wait is None:
                self.idle = not self._news
                self._changed.wait_for(
                    lambda: self._news or self._stopping or self._wanted > self._done,
                    look,
                )
                self.idle = False
            elif wait > 0:
                self._changed.wait_for(
                    lambda: self._stopping or self._housework or self._wanted > self._seen,
                    wait if look is None else min(wait, look),
                )
