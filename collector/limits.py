"""Rates of requests, by key and by address. In memory, for a short time; never stored or logged."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from collector.errors import RateLimitedError

MAX_REMEMBERED = 100_000
BURST_SECONDS = 10.0


class RateLimit:
    """A token bucket for each name: `rate` requests a second, and a burst of ten seconds' worth.

    rate: None = no limit. At most MAX_REMEMBERED names are held; the longest unused one goes.
    """

    def __init__(self, rate: float | None, *, seconds: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._seconds = seconds
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """Count one request. Raises RateLimitedError; the message does not repeat the name."""
        if self._rate is None:
            return
        burst = max(1.0, self._rate * BURST_SECONDS)
        now = self._seconds()
        tokens, last = self._buckets.pop(name, (burst, now))
        tokens = min(burst, tokens + (now - last) * self._rate)
        self._buckets[name] = (max(tokens - 1, 0.0) if tokens >= 1 else tokens, now)
        if len(self._buckets) > MAX_REMEMBERED:
            self._buckets.popitem(last=False)
        if tokens < 1:
            raise RateLimitedError(f"more than {self._rate:g} requests a second; send again later")


def network_of(address: str) -> str:
    """An IPv4 address itself; of an IPv6 address the /64, which one subscriber holds whole."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
