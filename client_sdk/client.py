"""`Client`: record values, send reports. This first form keeps its state in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime

from client_sdk.answers import Result
from client_sdk.encoder import Encoder
from client_sdk.randomness import Randomness, system_randomness
from client_sdk.transport import Transport
from rappor_core.metrics_file import MetricsFile
from rappor_core.report import Report, make_batch

REPORTS_PER_BATCH = 100


def utc_today() -> date:
    """The day of a report: UTC, as the device believes it to be."""
    return datetime.now(UTC).date()


class Client:
    """Records values of declared metrics and sends randomised reports to a collector."""

    def __init__(
        self,
        metrics: MetricsFile,
        transport: Transport,
        secret: bytes,
        *,
        randomness: Randomness = system_randomness,
        today: Callable[[], date] = utc_today,
    ) -> None:
        """secret: 32 bytes of `identity.new_secret`, kept by the caller in this form."""
        self._encoder = Encoder(metrics.metrics, secret, randomness)
        self._transport = transport
        self._randomness = randomness
        self._today = today
        self._queue: list[Report] = []

    def record(self, name: str, value: object) -> None:
        """Queue a report of a value. Raises UnknownMetricError or ValueRefusedError."""
        self._queue.append(self._encoder.encode(name, value, self._today()))

    def flush(self) -> list[Result]:
        """Send what is queued, in batches; return the results. Raises TransportError."""
        results: list[Result] = []
        while self._queue:
            reports = self._queue[:REPORTS_PER_BATCH]
            batch = make_batch(self._randomness(16), reports)
            results.extend(self._transport.send(batch).results)
            del self._queue[: len(reports)]
        return results

    def close(self) -> None:
        """Close the connection; what was not flushed is lost in this form."""
        self._transport.close()

    def __enter__(self) -> Client:
        """Use it in a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()
