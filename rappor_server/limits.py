"""Rates by key and by address. In memory, for a short time; never stored or logged.

Where several processes share a rate, what is shared is a keyed hash of the name, and how long its
bucket takes to be full again.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Mapping
from hashlib import blake2b
from heapq import nlargest
from threading import Lock
from time import monotonic, time

from rappor_server.errors import RateLimitedError

MAX_REMEMBERED = 100_000
BURST_SECONDS = 10.0
OFFICE_SECONDS = 3_600.0  # burst of the reports of an address: a morning's of many devices
RESERVE = 0.01  # of the rate of a key: what each address may always send
MOST_SHARED = 1_000  # names of a limit that a process shares at once: those that took most
_NAMES_LAST = 3_600  # seconds, after which a name has another hash
_HASH_BYTES = 15


class RateLimit:
    """A token bucket for each name: `rate` units a second, and a burst of some seconds' worth.

    What comes while the bucket holds a unit passes whole; what it takes beyond is paid back before
    anything else passes. At most MAX_REMEMBERED names are held; the longest unused one goes.
    """

    def __init__(
        self,
        rate: float,
        unit: str = "requests",
        *,
        burst_seconds: float = BURST_SECONDS,
        least_burst: float = 1.0,
        on_credit: bool = True,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        """Count nothing yet.

        Args:
            rate: units a second; 0 = no limit.
            unit: what is counted, for messages.
            burst_seconds: a full bucket holds what is refilled in this time.
            least_burst: units that it holds, if that is less.
            on_credit: more than the bucket holds passes, and is paid back. Otherwise it does not.
            seconds: a clock.
        """
        self._rate = rate
        self._burst = max(least_burst, rate * burst_seconds)
        self._unit = unit
        self._on_credit = on_credit
        self._seconds = seconds
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    @property
    def is_on(self) -> bool:
        """Whether a rate is set; without one every request passes."""
        return self._rate > 0

    def check(self, name: str) -> None:
        """Refuse a name whose bucket is empty, and count nothing. Raises RateLimitedError."""
        self.take(name, 0)

    def take(self, name: str, amount: int = 1) -> None:
        """Count `amount` units of a name. Raises RateLimitedError, which does not repeat it."""
        if not self.admits(name, amount):
            raise RateLimitedError(
                f"more than {self._rate:g} {self._unit} a second; send again later"
            )

    def admits(self, name: str, amount: int = 1) -> bool:
        """Count `amount` units of a name if its bucket has them; whether it had."""
        return not self.is_on or self._admits(name, amount, self._rate)

    def _admits(self, name: Hashable, amount: int, rate: float) -> bool:
        now = self._seconds()
        tokens, last = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - last) * rate)
        admitted = tokens >= (1.0 if self._on_credit else amount)
        self._buckets[name] = (tokens - amount if admitted else tokens, now)
        if len(self._buckets) > MAX_REMEMBERED:
            self._buckets.popitem(last=False)
        return admitted


class Names:
    """Keyed hashes of the names of senders. The key changes every hour, so that a reader of the
    hashes cannot follow a sender for longer.

    Nobody can try names against a hash without the secret.
    """

    def __init__(self, secret: bytes, seconds: Callable[[], float] = time) -> None:
        """secret: the same in all processes that share.  seconds: since 1970."""
        self._secret = blake2b(secret, person=b"rappor limits").digest()
        self._seconds = seconds

    def hash_of(self, name: str) -> bytes:
        """The keyed hash of a name for the present hour, 15 bytes."""
        hour = int(self._seconds() // _NAMES_LAST).to_bytes(8, "big")
        keyed = blake2b(hour + name.encode(), key=self._secret, digest_size=_HASH_BYTES)
        return keyed.digest()


class SharedRateLimit(RateLimit):
    """A rate of several processes together. Each counts by itself, and now and then with all.

    A request never waits for the others: what they took is found out afterwards, and paid back.
    """

    def __init__(
        self,
        kind: int,
        rate: float,
        names: Names,
        unit: str = "requests",
        *,
        burst_seconds: float = BURST_SECONDS,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        """As of RateLimit. kind: 0 to 255, of this limit among those that are shared."""
        super().__init__(rate, unit, burst_seconds=burst_seconds, seconds=seconds)
        self._kind = bytes([kind])
        self._names = names
        self._taken: defaultdict[bytes, float] = defaultdict(float)
        self._owed: dict[bytes, float] = {}  # could not be shared; as of `_owed_at`
        self._owed_at = 0.0
        self._lock = Lock()

    def admits(self, name: str, amount: int = 1) -> bool:
        """Count `amount` units of a name if its bucket has them; say whether it had."""
        if not self.is_on:
            return True
        hashed = self._kind + self._names.hash_of(name)
        admitted = self._admits(hashed, amount, self._rate)
        if admitted:
            with self._lock:
                self._taken[hashed] += amount / self._rate
        return admitted

    def take_out(self) -> dict[bytes, float]:
        """Return what this process let through since the last call and forget it: by hashed
        name, in seconds of refilling.

        Of the MOST_SHARED names that took most; of the rest nothing is shared. What could not be
        shared for a while has been refilled since.
        """
        with self._lock:
            taken, self._taken = self._taken, defaultdict(float)
            owed, self._owed = self._owed, {}
        passed = self._seconds() - self._owed_at
        for name, seconds in owed.items():
            if seconds > passed:
                taken[name] += seconds - passed
        if len(taken) <= MOST_SHARED:
            return taken
        return {name: taken[name] for name in nlargest(MOST_SHARED, taken, key=taken.__getitem__)}

    def put_back(self, taken: Mapping[bytes, float]) -> None:
        """Keep an amount that could not be written to the database, to share it at the next try."""
        own = {name: one for name, one in taken.items() if name.startswith(self._kind)}
        with self._lock:
            self._owed, self._owed_at = own, self._seconds()

    def set_levels(self, waits: Mapping[bytes, float]) -> None:
        """Set each bucket to the level that all processes together have left in it.

        waits: of each bucket, the seconds after which it is full, as the database has them.
        """
        if not self.is_on:
            return
        now = self._seconds()
        for name, seconds in waits.items():
            if name.startswith(self._kind):
                tokens = self._burst - (seconds + self._taken.get(name, 0.0)) * self._rate
                self._buckets[name] = (tokens, now)
        while len(self._buckets) > MAX_REMEMBERED:
            self._buckets.popitem(last=False)


class KeyLimit:
    """A rate for each key, of which every sender has a part of its own that other holders of the
    key cannot use up.

    A key of an app is in every copy of it. Beside the bucket of the key each address has a small
    one of its own, `RESERVE` of the rate: who sends a lot is refused when the key's is empty, who
    sends a little is not.
    """

    def __init__(
        self,
        rate: float,
        unit: str = "requests",
        *,
        reserve: float = 1.0,
        seconds: Callable[[], float] = monotonic,
        shared: SharedRateLimit | None = None,
    ) -> None:
        """As of RateLimit. reserve: units that each address may send at once, at least.

        shared: counts by key, in place of this process alone.
        """
        self.by_key = shared or RateLimit(rate, unit, seconds=seconds)
        self._reserve = RateLimit(
            rate * RESERVE, unit, least_burst=reserve, on_credit=False, seconds=seconds
        )

    @property
    def is_on(self) -> bool:
        """Whether a rate is set; without one every request passes."""
        return self.by_key.is_on

    def take(self, key: str, address: str, amount: int = 1) -> None:
        """Count `amount` units of a key from an address. Raises RateLimitedError."""
        if not self.is_on or self._reserve.admits(f"{key} {address}", amount):
            return
        self.by_key.take(key, amount)


def network_of(address: str) -> str:
    """The unit that a limit applies to: an IPv4 address, or the /64 of an IPv6 address.

    A socket for both gives IPv4 addresses as IPv6 ones, all in one /64: they are taken as IPv4.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
