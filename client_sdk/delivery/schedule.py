"""The sending schedule: random delays, batches, pauses after failures and maintenance.

Times are on the monotonic clock, except for the time that is stored between runs. So a jump of the
wall clock neither speeds up nor stops sending.
"""

import time
from collections.abc import Callable
from math import ceil, log

from client_sdk import fork_hooks as forks
from client_sdk.delivery.messages import TOO_LARGE, read_body
from client_sdk.delivery.options import Delivery
from client_sdk.delivery.queue import ReportQueue, StoredBatch
from client_sdk.delivery.transport import Transport
from client_sdk.errors import TransportError
from client_sdk.randomization.key_derivation import Randomness
from client_sdk.storage.directory import FileLock
from client_sdk.storage.sqlite import SqliteState
from rappor_core.calendar import SECONDS_A_DAY
from rappor_core.errors import WireFormatError

BUSY_PAUSE = 0.1  # seconds to the next attempt while another process sends and `flush` waits
BUSY_PAUSE_UNHURRIED = 5.0
KEY_REFUSED = frozenset({"http_401", "http_403"})
FLUSH_PAUSE = 2.0  # the maximum jitter, in seconds, while `flush` waits
MAX_DELAY = 10  # the maximum delay, as a multiple of the mean
LOG_BYTES = 1 << 20  # the size above which the state's log is truncated between two batches
FAILING = "failing_since"  # the key for the time of the first failure in the state's table `meta`


class SendLoop:
    """The loop that decides when to send, and sends. Used by one thread."""

    def __init__(
        self,
        state: SqliteState,
        transport: Transport,
        lock: FileLock,
        delivery: Delivery,
        randomness: Randomness,
        clock: Callable[[], float],
        stopped: Callable[[str], None],
    ) -> None:
        """Prepare to send.

        Args:
            state: A connection that belongs to the sending thread.
            transport: The transport; other threads may only cancel it.
            lock: The lock that allows only one process to send at a time.
            delivery: The app's options.
            randomness: The source of ids, orders and delays.
            clock: A function that returns seconds since 1970.
            stopped: A function that is called with the name of a metric that the collector has
                stopped or resumed.
        """
        self._state = state
        self._delivery = delivery
        self._randomness = randomness
        self._clock = clock
        self._outbox = ReportQueue(state, delivery, randomness, clock, stopped)
        self._transport = transport
        self._lock = lock
        # Batches that may have been counted without an answer; after a split they get new ids.
        self._tried = {number.hex() for (number,) in state.rows("SELECT batch_id FROM batches")}
        self._pauses = Pauses(delivery, randomness)
        self._due: float | None = None
        self._failing_since: float | None = state.get(FAILING)
        self._is_warned = False
        self._lost_before = 0  # the number of losses when the queue was last empty
        self.last_error = ""
        self.key_is_refused = False

    @property
    def num_lost(self) -> int:
        """Return the number of reports that were rejected or dropped since the app started."""
        return self._outbox.num_lost

    @property
    def not_delivered(self) -> str:
        """Return since when and why nothing can be delivered, as text; "" after a success."""
        if self._failing_since is None:
            return ""
        stamp = min(max(self._failing_since, 0.0), 2e11)  # even a damaged value can be printed
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stamp))
        return f"not delivered since {since}, because {self.last_error or 'of an earlier failure'}"

    def step(self, *, hurried: bool) -> float | None:
        """Run all due work; return the seconds until the next step, or None if nothing is pending.

        `hurried` means that `flush` is waiting: there is no delay and little jitter, but
        Retry-After still applies.
        """
        self._outbox.trim()
        self._state.checkpoint()
        if not self._state.has_waiting():
            self._delivered()
            self._lost_before = self.num_lost
            self._reschedule()
            return None
        wait = self._pauses.seconds_left(hurried=hurried)
        if not hurried:
            wait = max(wait, self._delay_left())
        return wait if wait > 0 else self._send(hurried=hurried)

    def _send(self, *, hurried: bool) -> float:
        try:
            done = self._round(only_one=not hurried)
        except TransportError as error:
            if error.reason == "cancelled":
                return BUSY_PAUSE  # the state may be gone, so it is no longer used
            self.key_is_refused = error.reason in KEY_REFUSED
            self._pauses.failed(error)
            self._failed(str(error))
            today = int(self._clock() // SECONDS_A_DAY)
            self._outbox.drop_older_than(today - self._delivery.max_age_days)
            return self._pauses.seconds_left(hurried=hurried)
        if not done:
            return BUSY_PAUSE if hurried else BUSY_PAUSE_UNHURRIED
        self.last_error = self._outbox.last_loss if self.num_lost > self._lost_before else ""
        self.key_is_refused = False
        self._delivered()
        self._pauses.succeeded()
        self._reschedule()
        return 0.0

    def _round(self, *, only_one: bool) -> bool:
        """Send all waiting batches, or only the first. Return False if another process is sending.

        Raises TransportError if a failure ended the round; answered batches stay deleted.
        """
        if not self._lock.try_acquire():
            return False
        try:
            self._outbox.compose()
            # The batches are on disk before any batch is sent. So after a power loss, no report is
            # sent again under a different id or randomized again.
            self._state.sync()
            for batch in self._outbox.batches():
                self._post(batch)
                self._state.checkpoint(LOG_BYTES)
                if only_one:
                    break
        finally:
            self._transport.close()
            self._lock.release()
        return True

    def _post(self, batch: StoredBatch) -> None:
        """Send a batch over a new connection, and act on the answer."""
        try:
            stored = read_body(batch.body)
        except WireFormatError:
            stored = None
        if stored is None or (stored.batch_id, stored.num_reports) != batch[1:3]:
            self._outbox.discard(batch, "damaged")  # no answer could ever match it
            return
        try:
            answer = self._transport.post(batch.body, batch.batch_id, batch.reports)
        except TransportError as error:
            is_new = batch.batch_id not in self._tried
            # It may have been counted, unless the collector has read and rejected it.
            may_split = error.reason == TOO_LARGE and (is_new or not error.retry)
            if may_split and self._outbox.split(batch):
                return
            self._tried.add(batch.batch_id)
            if error.retry:
                raise
            self._outbox.discard(batch, error.reason)
            return
        finally:
            self._transport.close()
        self._outbox.ack(batch, answer)

    def _failed(self, error: str) -> None:
        """Store since when sending fails, across restarts of the app, and log one warning."""
        self.last_error = error
        if self._failing_since is None:
            self._failing_since = self._clock()
            self._state.put(FAILING, float(self._failing_since))
        if not self._is_warned:
            self._is_warned = True
            with forks.loading():
                from logging import getLogger  # only if there is something to log

            getLogger("client_sdk").warning("reports wait: %s", self.not_delivered)

    def _delivered(self) -> None:
        if self._failing_since is not None:
            self._failing_since = None
            self._state.put(FAILING, None)

    def _delay_left(self) -> float:
        """Return the seconds until a batch is sent. Its delay is drawn once and survives restarts.

        Each of n batches has an independent, memoryless delay with mean `mean_delay`. So the first
        is sent after a delay with 1/n of that mean, and any of the n may be the first.
        """
        mean = self._delivery.mean_delay
        if mean == 0:
            return 0.0
        if self._due is None:
            mean /= self._outbox.waiting()
            self._due = time.monotonic() + self._delay(mean)
        return self._due - time.monotonic()

    def _delay(self, mean: float) -> float:
        """Return the seconds left of the stored delay, or a new delay if that is over.

        It may run out while the app is closed; then a new delay hides the time of the next start.
        """
        now, stored = self._clock(), self._state.get("send_at")
        if stored is None or not 0 < stored - now <= MAX_DELAY * mean:  # or the clock was changed
            delay = geometric_delay(mean, self._randomness)
            self._state.put("send_at", now + delay)
            return delay
        return float(stored - now)

    def _reschedule(self) -> None:
        if self._due is not None:
            self._due = None
            self._state.put("send_at", None)


class Pauses:
    """The pauses after failures, uniform in [0, first_pause * 2**failures] up to a limit.

    This is "full jitter" (Brooker 2015, "Exponential backoff and jitter", AWS Architecture Blog). A
    collector's Retry-After is added before the jitter, and is obeyed up to `longest_retry_after`.
    """

    def __init__(self, delivery: Delivery, randomness: Randomness) -> None:
        self._delivery = delivery
        self._randomness = randomness
        self._failures = 0
        self._until = self._until_hurried = 0.0

    def succeeded(self) -> None:
        """Reset the pauses after a success."""
        self._failures = 0
        self._until = self._until_hurried = 0.0

    def failed(self, error: TransportError) -> None:
        """Draw the next pause after a failure."""
        delivery = self._delivery
        self._failures += 1
        longest = delivery.first_pause * 2.0 ** min(self._failures, 40)
        jitter = uniform(self._randomness) * min(delivery.longest_pause, longest)
        requested = min(error.retry_after or 0.0, delivery.longest_retry_after)
        start = time.monotonic() + requested
        self._until, self._until_hurried = start + jitter, start + min(jitter, FLUSH_PAUSE)

    def seconds_left(self, *, hurried: bool) -> float:
        """Return the seconds until the current pause ends; 0 or less if it has ended."""
        return (self._until_hurried if hurried else self._until) - time.monotonic()


def uniform(randomness: Randomness) -> float:
    """Return a number in [0, 1), uniform over multiples of 2**-53."""
    return (int.from_bytes(randomness(8), "big") >> 11) / (1 << 53)


def geometric_delay(mean: float, randomness: Randomness) -> float:
    """Draw a geometric delay in seconds, in steps of mean / 100 and at most 10 * mean.

    The delay is memoryless: the time that a report has waited does not predict its remaining wait.
    """
    ticks = ceil(log(1 - uniform(randomness)) / log(1 - 1 / 100))
    return min(max(1, ticks) * mean / 100, MAX_DELAY * mean)
