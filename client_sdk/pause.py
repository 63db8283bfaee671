"""Remote pause: an operator stops metrics without a release of the app, and can do nothing else.

A signed list of paused metrics is fetched on a day on which a device sends anything, before its
first batch, the same way as batches go. A paused metric is not recorded, and what waits of it is
deleted, not sent. The key of the list ships with the app, so that nobody on the way can pause. A
device takes no parameter, no metric and no longer time from a list.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from client_sdk.client import Client
from client_sdk.delivery.batches import read_body
from client_sdk.delivery.cancellation import CancelledError
from client_sdk.delivery.options import Delivery
from client_sdk.delivery.replies import failure
from client_sdk.delivery.transport import REPORTS_PATH, Transport
from client_sdk.errors import TransportError
from rappor_core.errors import ParameterError, shown
from rappor_core.whole_files import replacing

try:
    from client_sdk.delivery.relay import RelayTransport
    from ohttp.pause_list import accepted, public_key, read
    from ohttp.pause_wire import LIST_PATH, MOST_BYTES, PauseList, PauseListError
except ModuleNotFoundError as error:
    raise ImportError(
        "a remote pause needs the library cryptography: pip install 'rappor-telemetry[relay]'"
    ) from error

if TYPE_CHECKING:
    from client_sdk.delivery.relay import Relay
    from client_sdk.delivery.replies import Answer
    from client_sdk.delivery.transport import Fields


class PausedMetrics:
    """The list of paused metrics that a device holds, and where the next one comes from.

    Used as the `relay` of a `Delivery`; the way of batches is that of `relay`, or straight.
    """

    def __init__(
        self,
        key: bytes | str | os.PathLike[str],
        *,
        app: str,
        file: str | os.PathLike[str],
        relay: Relay | None = None,
    ) -> None:
        """Read what was kept of an earlier run.

        Args:
            key: the public key in PEM that `rappor release keygen` wrote, or the path of its file.
            app: the name of the app in its lists.
            file: where the last list is kept, outside `state_dir`; public. Where it is deleted, an
                older list that has not expired could be taken again.
            relay: as of `Client.open`.

        Raises:
            ParameterError: for a key that is none.
        """
        self._public = public_key(key if isinstance(key, bytes) else _bytes_of(key))
        self._app, self._file, self._relay = app, os.fspath(file), relay
        self.clock: Callable[[], float] = time.time
        self._held: PauseList | None = None
        self._looked: date | None = None
        self.trouble = ""  # why the last list was not taken
        with suppress(OSError, PauseListError), open(self._file, "rb") as kept:
            self._held = read(self._public, kept.read(MOST_BYTES + 1))

    def until(self, metric: str) -> date | None:
        """The last day on which a metric is paused; None where it is not."""
        held = self._held
        return None if held is None else held.until(metric, self._today())

    def take(self, data: bytes) -> None:
        """Hold a list that was received. Raises PauseListError, and keeps the last one."""
        self._held = accepted(self._public, data, self._app, self._today(), self._held)
        with suppress(OSError), replacing(Path(self._file)) as part:
            part.write_bytes(data)  # on a full disk it is fetched again after the next start

    def fetch(self, transport: _Pausing) -> None:
        """Once a day ask for the list; without an answer the last one goes on to hold."""
        today = self._today()
        if self._looked == today:
            return
        try:
            data = transport.fetch_list()
            self._looked = today
            if data is not None:
                self.take(data)
            self.trouble = ""
        except PauseListError as error:
            self.trouble = str(error)
        except TransportError as error:
            if error.reason == "cancelled":
                raise
            self.trouble = str(error)

    def check(self, delivery: Delivery) -> None:
        """Raise ParameterError where a batch could not be stopped for one of its metrics."""
        if not delivery.isolate_metrics:
            raise ParameterError(
                "isolate_metrics = False: a pause is of one metric; leave it at True"
            )
        if self._relay is not None:
            self._relay.check(delivery)

    def transport(self, collector: str, key: str | None, **options: Any) -> Transport:
        """A way to the collector that looks at the list before each batch."""
        if self._relay is not None:
            return _PausingRelayTransport(self, self._relay, collector, key, **options)
        return _PausingTransport(self, collector, key, **options)

    def account(self, metrics: list[str]) -> list[dict[str, str]]:
        """Which of an app's metrics are paused, until when, in words, for `inspect`."""
        found = {name: self.until(name) for name in metrics}
        return [
            {"metric": name, "until": day.isoformat(), "sentence": sentence(name, day)}
            for name, day in found.items()
            if day is not None
        ]

    def _today(self) -> date:
        return datetime.fromtimestamp(self.clock(), UTC).date()


class PausableClient(Client):
    """The client, which neither records nor sends what a list has paused."""

    _pauses: PausedMetrics

    @classmethod
    def open(  # type: ignore[override]
        cls, *args: Any, pauses: PausedMetrics, **named: Any
    ) -> PausableClient:
        """Open as `Client.open`; the relay is that of `pauses`. Raises as it does."""
        if named.get("relay") or getattr(named.get("delivery"), "relay", None):
            raise ParameterError("relay: give it to PausedMetrics, through which batches go")
        if not isinstance(pauses, PausedMetrics):
            raise ParameterError(f"pauses = {shown(pauses)} is not a PausedMetrics")
        pauses.clock = named.get("clock", time.time)
        client = cast(PausableClient, super().open(*args, relay=pauses, **named))  # type: ignore[arg-type]
        client._pauses = pauses
        return client

    @property
    def last_refusal(self) -> str:
        """As of `Client`; of a paused metric, until when."""
        reason, _, name = self._refused[0].partition(":")
        day = self._pauses.until(name) if reason == "paused" else None
        return super().last_refusal if day is None else sentence(name, day)

    def inspect(self, *, debug: bool = False) -> dict[str, Any]:
        """As of `Client`, with `paused`: which metrics are, until when."""
        names = [metric.base_name for metric in self._setup.metrics.declared]
        return {**super().inspect(debug=debug), "paused": self._pauses.account(names)}

    def _guarded(self, name: str, act: Callable[..., str | None]) -> bool:
        if self._pauses.until(name) is not None:
            return self._not_recorded(f"paused:{name}")
        return super()._guarded(name, act)


def sentence(metric: str, until: date) -> str:
    """What a pause means, for whoever owns the device."""
    return (
        f"{metric} is paused by the operator until {until}: nothing of it is recorded, and what "
        "waited is deleted, not sent."
    )


class _Pausing(Transport):
    """Looks at the list before each batch."""

    pauses: PausedMetrics

    def post(self, body: bytes, batch_id: str, num_reports: int, **options: Any) -> Answer:
        """Send a batch unless its metric is paused: then its queue deletes it."""
        self.pauses.fetch(self)
        for group in read_body(body, json="json" in options["content_type"]).groups:
            day = self.pauses.until(group.metric)
            if day is not None:
                raise TransportError(sentence(group.metric, day), reason="paused", retry=False)
        return super().post(body, batch_id, num_reports, **options)

    def fetch_list(self) -> bytes | None:
        """Ask the collector for the list; None where it has none. Raises TransportError."""
        try:
            status, fields, data = self._get()
        finally:
            self.close()
        if status == 404:
            return None
        if status != 200:
            raise failure(status, data, fields.get("Retry-After"), fields.get("Content-Type"))
        return data

    def _get(self) -> tuple[int, Fields, bytes]:
        """Straight: over a connection of its own."""
        deadline = time.monotonic() + self._timeout
        target = self._target().removesuffix(REPORTS_PATH) + LIST_PATH
        head = f"GET {target} HTTP/1.1\r\nHost: {self._host}\r\nAccept-Encoding: identity\r\n\r\n"
        try:
            with self._cancellation.exchange():
                connection = self._connect(deadline)
                connection.begin(deadline)
                connection.send(head.encode("ascii"))
                response = connection.answer("GET")
                return response.status, response.headers, response.read(MOST_BYTES + 1)
        except CancelledError:
            raise TransportError("sending was ended", reason="cancelled", retry=True) from None
        except (OSError, HTTPException, ValueError) as error:
            raise self._trouble(error) from error


class _PausingTransport(_Pausing):
    """Straight to the collector."""

    def __init__(
        self, pauses: PausedMetrics, collector: str, key: str | None, **options: Any
    ) -> None:
        super().__init__(collector, key, **options)
        self.pauses = pauses


class _PausingRelayTransport(_Pausing, RelayTransport):
    """Through a relay, for which a look at the list is a request like any other."""

    def __init__(
        self, pauses: PausedMetrics, relay: Relay, collector: str, key: str | None, **options: Any
    ) -> None:
        RelayTransport.__init__(self, relay, collector, key, **options)
        self.pauses = pauses

    def _get(self) -> tuple[int, Fields, bytes]:
        reports = self._inner
        self._inner = b"GET", *reports[1:3], LIST_PATH.encode()
        try:
            return self._exchange(b"", {})
        finally:
            self._inner = reports


def _bytes_of(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, TypeError, ValueError) as error:
        raise ParameterError(f"key = {shown(path)}: {error}") from error
