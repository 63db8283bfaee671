"""Rates by key and by address. In memory, for a short time; never stored or logged."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from collector.errors import RateLimitedError

MAX_REMEMBERED = 100_000
BURST_SECONDS = 10.0
RESERVE = 0.01  # of the rate of a key: what each address may always send


class RateLimit:
    """A token bucket for each name: `rate` units a second, and a burst of ten seconds' worth.

    At most MAX_REMEMBERED names are held; the longest unused one goes.
    """

    def __init__(
        self,
        rate: float | None,
        unit: str = "requests",
        *,
        least_burst: float = 1.0,
        on_credit: bool = True,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        """Count nothing yet.

        Args:
            rate: units a second; None = no limit.
            unit: what is counted, for messages.
            least_burst: units that a full bucket holds, if ten seconds' worth is less.
            on_credit: what is larger than a whole burst passes when the bucket is full, and is
                paid back before anything else passes. Otherwise it never passes.
            seconds: a clock.
        """
        self._rate = rate
        self._burst = max(least_burst, (rate or 0.0) * BURST_SECONDS)
        self._unit = unit
        self._on_credit = on_credit
        self._seconds = seconds
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    @property
    def is_on(self) -> bool:
        """Whether there is a limit."""
        return self._rate is not None

    def take(self, name: str, amount: int = 1) -> None:
        """Count `amount` units of a name. Raises RateLimitedError, which does not repeat it."""
        if not self.admits(name, amount):
            raise RateLimitedError(
                f"more than {self._rate:g} {self._unit} a second; send again later"
            )

    def admits(self, name: str, amount: int = 1) -> bool:
        """Count `amount` units of a name if its bucket has them; whether it had."""
        if self._rate is None:
            return True
        now = self._seconds()
        tokens, last = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - last) * self._rate)
        admitted = tokens >= (min(amount, self._burst) if self._on_credit else amount)
        self._buckets[name] = (tokens - amount if admitted else tokens, now)
        if len(self._buckets) > MAX_REMEMBERED:
            self._buckets.popitem(last=False)
        return admitted


class KeyLimit:
    """A rate for each key that one sender cannot use up for the others who have the same key.

    A key of an app is in every copy of it. Beside the bucket of the key each address has a small
    one of its own, `RESERVE` of the rate: who sends a lot is refused when the key's is empty, who
    sends a little is not.
    """

    def __init__(
        self,
        rate: float | None,
        unit: str = "requests",
        *,
        reserve: float = 1.0,
        seconds: Callable[[], float] = monotonic,
    ) -> None:
        """As of RateLimit. reserve: units that each address may send at once, at least."""
        own = None if rate is None else rate * RESERVE
        self._by_key = RateLimit(rate, unit, seconds=seconds)
        self._reserve = RateLimit(own, unit, least_burst=reserve, on_credit=False, seconds=seconds)

    @property
    def is_on(self) -> bool:
        """Whether there is a limit."""
        return self._by_key.is_on

    def take(self, key: str, address: str, amount: int = 1) -> None:
        """Count `amount` units of a key from an address. Raises RateLimitedError."""
        if not self.is_on or self._reserve.admits(f"{key} {address}", amount):
            return
        self._by_key.take(key, amount)


def network_of(address: str) -> str:
    """An IPv4 address itself; of an IPv6 address the /64, which one subscriber holds whole.

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
