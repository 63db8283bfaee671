"""The app's delivery options, with their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from client_sdk.delivery.addresses import split_url
from rappor_core.errors import ParameterError, shown
from rappor_core.frozen import Frozen

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from client_sdk.delivery.relay import Relay
    from client_sdk.randomization.key_derivation import Randomness
    from client_sdk.storage.directory import StateDirectory

LAST_SECOND = 253_370_764_800.0  # 9999-01-01


class Delivery(Frozen):
    """The app's options for sending; none of them changes the contents of a report.

    Raises ParameterError if a number is out of range or the proxy has no address.
    """

    # The mean time, in seconds, between queuing the first report and sending. The delay is
    # geometric, so that the time of sending does not reveal the time of use. 0 sends immediately.
    mean_delay: float = 600.0
    # The maximum number of reports in a batch, 1 to 200 (the collector's default).
    batch_reports: int = 100
    # Bodies are padded to a multiple of this number of bytes, so that their size does not reveal
    # the number of reports; 0 for no padding.
    pad_to: int = 256
    timeout: float = 10.0  # the time limit for one exchange, in seconds
    # max_queued, max_queued_bytes, max_age_days: The limits of the queue. Beyond them, the oldest
    # reports are dropped and counted. Age matters only while the collector is unreachable.
    max_queued: int = 20_000
    max_queued_bytes: int = 4 << 20
    max_age_days: int = 90
    # first_pause, longest_pause: The limits in seconds of a pause after failures (full jitter).
    first_pause: float = 1.0
    longest_pause: float = 600.0
    # The maximum Retry-After, in seconds, that the client obeys.
    longest_retry_after: float = 3600.0
    proxy: str | None = None  # the proxy, `http://host:port`
    tls: ssl.SSLContext | None = None  # the app's own `ssl.SSLContext`
    # The relay for all requests, so that the collector does not see the device's address.
    relay: Relay | None = None

    def __post_init__(self) -> None:
        """Check each option now, because otherwise the sending thread would fail later."""
        for name, (lowest, highest) in RANGES.items():
            value: Any = getattr(self, name)
            whole = type(getattr(Delivery, name)) is int
            kinds, kind = ((int,), "whole number") if whole else ((int, float), "number")
            if type(value) not in kinds or not lowest <= value <= highest:
                raise ParameterError(
                    f"{name} = {shown(value)} is not a {kind} from {lowest} to {highest:,}"
                )
        if self.relay is not None and not hasattr(self.relay, "transport"):
            raise ParameterError(f"relay = {shown(self.relay)} is not a Relay")
        if self.proxy is not None:
            try:
                split_url(self.proxy)
            except ParameterError as error:
                raise ParameterError(f"proxy: {error}") from error


RANGES = {
    "mean_delay": (0, 7 * 86_400),
    "batch_reports": (1, 200),
    "pad_to": (0, 32_768),
    "timeout": (0.01, 600),
    "max_queued": (1, 10_000_000),
    "max_queued_bytes": (1, 1 << 40),
    "max_age_days": (1, 36_500),
    "first_pause": (0.001, 3600),
    "longest_pause": (0.001, 86_400),
    "longest_retry_after": (0, 7 * 86_400),
}


class SenderSetup(Frozen):
    """The settings from `client_sdk.session.Setup` that the sending thread needs.

    `certificates` are the certificate authority file and directory from the environment.
    """

    directory: StateDirectory
    collector: str
    key: str | None
    delivery: Delivery
    randomness: Randomness
    clock: Callable[[], float]
    certificates: tuple[str | None, str | None]

    def now(self) -> float:
        """Return the seconds since 1970, UTC, clipped to a valid range if the clock is not set."""
        now = float(self.clock())
        return now if 0.0 <= now <= LAST_SECOND else min(max(now, 0.0), LAST_SECOND)

    def __repr__(self) -> str:
        """Format the setup without its key, because the text may end up in a log."""
        return f"{type(self).__name__}({self.collector!r}, {self.directory.path!r})"
