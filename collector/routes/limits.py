"""Request rates of each key, in memory. No name of a sender is stored or logged."""

import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Callable
from time import monotonic

from rappor_server.errors import RateLimitedError

MAX_REMEMBERED = 100_000
BURST_SECONDS = 10.0
MIN_BUSY_RATE = 100.0  # units per second; below it the largest share means nothing
RESERVE = 0.01  # the share of a key's rate that each address may always send


class RateLimit:
    """A token bucket for each name: `rate` units per second, and bursts of some seconds' worth.

    At most MAX_REMEMBERED names are stored; the one that has been unused longest is dropped.
    """

    def __init__(self, rate: float, min_burst: float, seconds: Callable[[], float]) -> None:
        """Start without counts.

        Args:
            rate: The units per second.
            min_burst: The minimum number of units in a full bucket.
            seconds: A clock.
        """
        self._rate = rate
        self._burst = max(min_burst, rate * BURST_SECONDS)
        self._seconds = seconds
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, name: str, amount: float, required: float) -> bool:
        """Count `amount` units of a name if its bucket has `required` units; return whether it has.

        Units beyond the bucket's content are paid back before anything else passes.
        """
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

    The key of an app is in every copy of it, and other holders of the key cannot use up the
    reserve. In addition to the bucket of the key, each address has a small one, `RESERVE` of the
    rate. So a heavy sender is refused when the key's bucket is empty, and a light one is not. The
    key's bucket lends: a request passes as a whole if at least one unit is left.
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
            rate: The units per second; 0 for no limit.
            unit: The name of a unit, for messages.
            reserve: The minimum number of units that each address may send at once.
            seconds: A clock.
        """
        self._rate, self._unit = rate, unit
        self._by_key = RateLimit(rate, 1.0, seconds)
        self._by_address = RateLimit(rate * RESERVE, reserve, seconds)

    def take(self, key: str, address: str, amount: int = 1) -> None:
        """Count `amount` units of a key from an address. Raises RateLimitedError."""
        if not (
            self._rate == 0
            or self._by_address.admits(f"{key} {address}", amount, amount)
            or self._by_key.admits(key, amount, 1)
        ):
            raise RateLimitedError(
                f"more than {self._rate:g} {self._unit} per second; send again later"
            )


class SenderShares:
    """The largest share of one sender in all reports that arrive in a period."""

    def __init__(self, *, seconds: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._counts: Counter[str] = Counter()
        self._since = seconds()

    def count(self, sender: str, amount: int) -> None:
        """Count what a sender sent; a sender without a name is not counted."""
        if sender and (sender in self._counts or len(self._counts) < MAX_REMEMBERED):
            self._counts[sender] += amount

    def largest(self) -> float:
        """Return the largest share since the last call, from 0 to 1; 0 if too little arrived."""
        now, counts = self._seconds(), self._counts
        rate = counts.total() / max(now - self._since, 1.0)
        self._counts, self._since = Counter(), now
        return max(counts.values()) / counts.total() if rate >= MIN_BUSY_RATE else 0.0


def network_of(address: str) -> str:
    """Return the unit to which a limit applies: an IPv4 address, or the /64 of an IPv6 address.

    A dual-stack socket reports IPv4 addresses as IPv6 ones, all in one /64; they are read as IPv4.
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
