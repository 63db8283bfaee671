"""Sending through a relay (Oblivious HTTP, RFC 9458), which hides the device's address.

The relay sees the device's address but no report. The collector sees reports but no address. This
module is loaded only if an app uses a relay. The keys ship with the app. Fetching them would reveal
the device to the key server, which could also give each device a different key.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from client_sdk.delivery.addresses import address_of, split_url
from client_sdk.delivery.messages import failure
from client_sdk.delivery.transport import REPORTS_PATH, Transport
from client_sdk.errors import TransportError
from rappor_core.errors import EncapsulationError, ParameterError, shown

try:
    from rappor_core.ohttp.binary_http import (
        SIZE_STEP,
        BinaryRequest,
        decode_response,
        encode_request,
    )
    from rappor_core.ohttp.encapsulation import (
        REQUEST_TYPE,
        RESPONSE_TYPE,
        decode_keys,
        encapsulate,
    )
except ModuleNotFoundError as error:
    raise ImportError(
        "a relay needs the library cryptography: pip install 'rappor-telemetry[relay]'"
    ) from error

if TYPE_CHECKING:
    from client_sdk.delivery.transport import Fields

UNKNOWN_KEY = b"http-problem-types#ohttp-key"  # RFC 9458, section 5.3


class Relay:
    """A relay, and a public key of the collector behind it.

    Attributes:
        url: The URL at which the relay accepts requests.
        config: The public key with which requests are encrypted.
    """

    def __init__(self, url: str, keys: bytes | str | os.PathLike[str]) -> None:
        """Check the address and the key, long before the first connection.

        Args:
            url: The URL, such as `https://relay.example.net/ohttp`; plain http only for loopback
                addresses.
            keys: The public key file that `rappor ohttp-keys create -o FILE` wrote, or its path.
                The first usable key is used.

        Raises:
            ParameterError: The address or the key is invalid.
        """
        scheme, host, _ = split_url(url)
        if scheme == "http" and not address_of(scheme, host).is_loopback:
            raise ParameterError(f"{url!r}: over plain http, anyone could answer; use https")
        self.url = url
        try:
            self.config = decode_keys(keys if isinstance(keys, bytes) else _read(keys))[0]
        except EncapsulationError as error:
            raise ParameterError(f"keys: {error}") from error

    def __repr__(self) -> str:
        return f"Relay({self.url!r}, key {self.config.key_id})"

    def transport(self, collector: str, key: str | None, **options: Any) -> RelayTransport:
        """Return a transport that reaches the collector only through the relay.

        Args:
            collector: The URL of the collector.
            key: The report key, or None for a collector without keys.
            **options: The options of `Transport`.
        """
        return RelayTransport(self, collector, key, **options)


class RelayTransport(Transport):
    """A transport to one collector through a relay, which connects only to the relay's address.

    The collector's address and key are encrypted, so that only the collector can read them.
    """

    def __init__(self, relay: Relay, collector: str, key: str | None, **options: Any) -> None:
        """Prepare the requests; connect only when the first batch is sent."""
        super().__init__(relay.url, key, **options)
        self._path = split_url(relay.url)[2] or "/"
        scheme, host, _ = split_url(collector)
        self._inner = b"POST", scheme.encode(), host.encode(), REPORTS_PATH.encode()
        self._config = relay.config
        del self._headers["User-Agent"]

    def _try(
        self, body: bytes, headers: dict[str, str], deadline: float
    ) -> tuple[int, Fields, bytes]:
        """Encrypt anew, so that attempts are unlinkable, and send; return status, fields, body."""
        fields = tuple((name.lower().encode(), text.encode()) for name, text in headers.items())
        request = encode_request(BinaryRequest(*self._inner, fields, body), SIZE_STEP)
        sealed, exchange = encapsulate(self._config, request)
        status, outer, answer = super()._try(sealed, {"Content-Type": REQUEST_TYPE}, deadline)
        if status != 200:
            raise self._refusal(status, outer, answer)
        try:
            if outer.get("Content-Type") != RESPONSE_TYPE:
                raise EncapsulationError(f"not {RESPONSE_TYPE}")
            response = decode_response(exchange.open_response(answer))
        except EncapsulationError as error:
            raise TransportError(
                f"status 200, but not an answer from the collector: {error}",
                reason="strange_answer",
                retry=True,
            ) from None
        headers = {
            name.decode().title(): value.decode("latin-1") for name, value in response.fields
        }
        return response.status, headers, response.content

    def _refusal(self, status: int, outer: Fields, answer: bytes) -> TransportError:
        """Return an error that keeps the batch: only the collector's sealed answer may drop it."""
        if UNKNOWN_KEY in answer:
            key_id = self._config.key_id
            return TransportError(
                f"the collector no longer has key {key_id}: reports wait for a release of the "
                "app with a newer one",
                reason="relay_key",
                retry=True,
            )
        return failure(status, answer, outer.get("Retry-After"))


def _read(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, TypeError, ValueError) as error:
        raise ParameterError(f"keys = {shown(path)}: {error}") from error
