"""The thread that sends, so that recording never waits for the network.

The thread is a daemon: an app does not wait for it to exit, because the state contains all
unfinished work. Modules for sending are imported only when there is something to send.
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

LOOK_SECONDS = 900.0  # between two checks whether a period has ended; days begin on quarter hours
SCRUB_PAUSE = 10.0  # seconds until the files are scrubbed again, if another process prevented it
BUSY_PAUSE = 0.25  # seconds until the next attempt while another process holds the state
LOCK_PATIENCE = 1.0  # seconds for which the thread waits for threads of the app
TROUBLE_PAUSE = 5.0  # seconds until the next attempt if the state is unusable (a full disk)


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
        """Prepare the thread; `start` starts it.

        Args:
            setup: The settings of the sender.
            lock: The lock of the process for the state.
            chore: A function that runs at the start and at each quarter hour on the clock, even if
                the queue is empty. Deleted data is then scrubbed from the files.
            catch_up: A function that runs before all other work. It raises StateBusyError to be
                called again.
            stopped: See `ReportQueue`.
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
        self._wanted = self._seen = self._done = 0  # flush tickets: last issued, seen, completed
        self._stopping = False
        self._news = self._housework = False
        self._clean = True  # whether the files contain no deleted data
        self.idle = False  # whether the queue is empty and the thread sleeps until `notify`
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="rappor-sender", daemon=True)

    @property
    def last_error(self) -> str:
        """Return why the last attempt failed, or "" if it succeeded."""
        return self._trouble or (self._loop.last_error if self._loop is not None else "")

    @property
    def not_delivered(self) -> str:
        """Return since when and why nothing can be delivered, as text; "" if it can."""
        if self._trouble:
            return f"not delivered, because {self._trouble}"
        return self._loop.not_delivered if self._loop is not None else ""

    @property
    def _num_lost(self) -> int:
        return self._loop.num_lost if self._loop is not None else 0

    @property
    def key_is_refused(self) -> bool:
        """Return whether the collector rejected the key (401 or 403) at the last attempt."""
        return self._loop is not None and self._loop.key_is_refused

    def start(self) -> None:
        """Start the thread, which needs no `notify` for reports left by an earlier run."""
        self._thread.start()

    def notify(self) -> None:
        """Notify the thread that a report was queued while the queue was empty."""
        with self._changed:
            self._news = True
            self.idle = False
            self._changed.notify_all()

    def run_maintenance(self) -> None:
        """Make the thread enforce the limits of the queue and the write-ahead log now."""
        with self._changed:
            self._housework = self._news = True
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Send now; return True if everything was delivered within `timeout` seconds.

        Also return False if a report was rejected or dropped in the meantime; `last_error` has the
        reason.
        """
        lost = self._num_lost
        with self._changed:
            self._wanted += 1
            ticket = self._wanted
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done >= ticket or self._stopping, timeout)
            drained = self._done >= ticket
            self._done = max(self._done, ticket)  # no caller waits for it anymore
        return drained and self._num_lost == lost

    def cancel(self) -> None:
        """Stop all sending without waiting for the thread. After the call, no byte is sent.

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
        """Close the thread's connection to the state before a fork; it is reopened when needed."""
        self._state.suspend()

    def abandon(self) -> None:
        """Discard the thread in a forked child, because it runs only in the parent."""
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
        except Exception as error:  # shown in `last_error`; the thread must survive any error
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
            plain_key=True,  # `Client.open` has already checked it
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
        if self._chore is None:
            return None
        look = LOOK_SECONDS - self._setup.now() % LOOK_SECONDS
        return look if self._clean else min(look, SCRUB_PAUSE)

    def _sleep(self, wait: float | None) -> None:
        """Sleep for `wait` seconds or until a flush; with None, until a report is queued."""
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
