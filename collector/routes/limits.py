"""Rates of each key, in memory. No name of a sender is stored or logged."""

import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Callable
from time import monotonic

from rappor_server.errors import RateLimitedError

MAX_REMEMBERED = 100_000
BURST_SECONDS = 10.0
MIN_BUSY_RATE = 100.0  # units a second; of less nobody takes most
RESERVE = 0.01  # of the rate of a key: what each address may always send


class RateLimit:
    """A token bucket for each name: `rate` units a second, and a burst of some seconds' worth.

    At most MAX_REMEMBERED names are held; the longest unused one goes.
    """

    def __init__(self, rate: float, min_burst: float, seconds: Callable[[], float]) -> None:
        """Count nothing yet.

        Args:
            rate: Units a second.
            min_burst: Units that a full bucket holds at least.
            seconds: A clock.
        """
        self._rate = rate
        self._burst = max(min_burst, rate * BURST_SECONDS)
        self._seconds = seconds
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, name: str, amount: float, required: float) -> bool:
        """Count `amount` units of a name if its bucket holds `required`; return whether it does.

        What is used beyond is paid back before anything else passes.
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
    """A rate for each key, of which every sender has a separate part that other holders of the
    key cannot use up.

    The key of an app is in every copy of it. Alongside the bucket of the key each address has a
    small one, `RESERVE` of the rate: a heavy sender is refused when the key's bucket is empty, a
    light one is not. The key's bucket lends: a request passes whole while it holds a unit.
    """

    def __init__(
        self,
        rate: float,
        unit: str = "requests",
        *,
        reserve: float = 1.0,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        """Count nothing yet.

        Args:
            rate: Units a second; 0 for no limit.
            unit: What is counted, for messages.
            reserve: Units that each address may send at once, at least.
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
                f"more than {self._rate:g} {self._unit} a second; send again later"
            )


class SenderShares:
    """The largest share that one sender has of all that arrives in a minute."""

    def __init__(self, *, seconds: Callable[[], float] = monotonic) -> None:
        """Count nothing yet. seconds: a clock."""
        self._seconds = seconds
        self._counts: Counter[str] = Counter()
        self._since = seconds()

    def count(self, sender: str, amount: int) -> None:
        """Count what a sender sent; one without a name is not counted."""
        if sender and (sender in self._counts or len(self._counts) < MAX_REMEMBERED):
            self._counts[sender] += amount

    def largest(self) -> float:
        """Return the largest share since the last look, from 0 to 1; 0 where too little arrived."""
        now, counts = self._seconds(), self._counts
        rate = counts.total() / max(now - self._since, 1.0)
        self._counts, self._since = Counter(), now
        return max(counts.values()) / counts.total() if rate >= MIN_BUSY_RATE else 0.0


def network_of(address: str) -> str:
    """Return the unit that a limit applies to: an IPv4 address, or the /64 of an IPv6 address.

    A socket for both gives IPv4 addresses as IPv6 ones, all in one /64: they are read as IPv4.
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
