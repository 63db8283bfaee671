"""In-memory request rates for each key. No sender name is logged or stored on disk."""

import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Callable
from time import monotonic

from rappor_server.errors import RateLimitedError

MAX_REMEMBERED = 100_000
BURST_SECONDS = 10.0
MIN_BUSY_RATE = 100.0  # units per second, below which the largest share is meaningless
RESERVE = 0.01  # the fraction of a key's rate that each address may always send


class RateLimit:
    """A token bucket for each name: `rate` units per second, and bursts of some seconds' worth.

    At most MAX_REMEMBERED names are stored; the least recently used name is dropped.
    """

    def __init__(self, rate: float, min_burst: float, seconds: Callable[[], float]) -> None:
        """Start without counts.

        Args:
            rate: The units per second.
            min_burst: The minimum number of units in a full bucket.
            seconds: A monotonic clock.
        """
        self._rate = rate
        self._burst = max(min_burst, rate * BURST_SECONDS)
        self._seconds = seconds
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, name: str, amount: float, required: float) -> bool:
        """Take `amount` units from a name's bucket if it has `required`; return whether it does."""
        now = self._seconds()
        tokens, last = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - last) * self._rate)
        admitted = tokens >= required
        self._buckets[name] = (tokens - amount if admitted else tokens, now)
        if len(self._buckets) > MAX_REMEMBERED:
            self._buckets.popitem(last=False)
        return admitted


class KeyLimit:
    """A rate limit for each key, with a reserve for every sender.

    Every copy of an app contains the app's key, and other holders of the key cannot use up the
    reserve. In addition to the key's bucket, each address has a small bucket with `RESERVE` of the
    rate. So when the key's bucket is empty, heavy senders are rejected, but light senders are not.
    The key's bucket can be overdrawn: a request passes as a whole if at least one unit is left.
    """

    def __init__(
        self,
        rate: float,
        unit: str = "requests",
        *,
        reserve: float = 1.0,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        """Start without counts.

        Args:
            rate: The units per second; 0 means no limit.
            unit: The name of a unit, for messages.
            reserve: The minimum number of units that each address may send at once.
            seconds: A monotonic clock.
        """
        self._rate, self._unit = rate, unit
        self._by_key = RateLimit(rate, 1.0, seconds)
        self._by_address = RateLimit(rate * RESERVE, reserve, seconds)

    def take(self, key: str, address: str, amount: int = 1) -> None:
        """Count `amount` units for a key and an address. Raises RateLimitedError if too many."""
        if not (
            self._rate == 0
            or self._by_address.admits(f"{key} {address}", amount, amount)
            or self._by_key.admits(key, amount, 1)
        ):
            raise RateLimitedError(
                f"more than {self._rate:g} {self._unit} per second; send again later"
            )


class SenderShares:
    """The largest fraction of a period's reports that comes from a single sender."""

    def __init__(self, *, seconds: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._counts: Counter[str] = Counter()
        self._since = seconds()

    def count(self, sender: str, amount: int) -> None:
        """Count a sender's reports; senders without a name are not counted."""
        if sender and (sender in self._counts or len(self._counts) < MAX_REMEMBERED):
            self._counts[sender] += amount

    def largest(self) -> float:
        """Return the largest fraction since the last call, in [0, 1]; 0 if too little arrived."""
        now, counts = self._seconds(), self._counts
        rate = counts.total() / max(now - self._since, 1.0)
        self._counts, self._since = Counter(), now
        return max(counts.values()) / counts.total() if rate >= MIN_BUSY_RATE else 0.0


def network_of(address: str) -> str:
    """Return the network to which a limit applies: an IPv4 address, or the /64 of an IPv6 address.

    A dual-stack socket shows IPv4 addresses as IPv6, all in one /64; they are read as IPv4.
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
