"""A device behind a relay without the client: what it sends, and the answers that it opens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import httpx

from collector.domain.relay_keys import create_relay_key
from ohttp.binary_http import (
    SIZE_STEP,
    BinaryRequest,
    BinaryResponse,
    decode_response,
    encode_request,
)
from ohttp.encapsulation import REQUEST_TYPE, RESPONSE_TYPE, Exchange, encapsulate
from ohttp.key_config import KeyConfig

OUTER = {"content-type": REQUEST_TYPE}
JSON = {b"content-type": b"application/json"}


def new_keys(folder: Path, number: int = 1) -> tuple[Path, list[KeyConfig]]:
    """A file of keys, and their public parts."""
    file = folder / "ohttp-keys.json"
    return file, [create_relay_key(file, date(2026, 11, 21)).config for _ in range(number)]


@dataclass
class Behind:
    """Sends requests for one key to a URL, as a relay passes them on."""

    http: httpx.Client
    config: KeyConfig
    url: str = "/v1/ohttp"

    def seal(
        self,
        body: bytes,
        fields: Mapping[bytes, bytes] = JSON,
        method: bytes = b"POST",
        path: bytes = b"/v1/reports",
    ) -> tuple[bytes, Exchange]:
        request = BinaryRequest(method, b"https", b"", path, tuple(fields.items()), body)
        return encapsulate(self.config, encode_request(request, SIZE_STEP))

    def pass_on(self, sealed: bytes, **headers: str) -> httpx.Response:
        return self.http.post(self.url, content=sealed, headers={**OUTER, **headers})

    def post(
        self,
        body: bytes,
        fields: Mapping[bytes, bytes] = JSON,
        method: bytes = b"POST",
        path: bytes = b"/v1/reports",
    ) -> BinaryResponse:
        sealed, exchange = self.seal(body, fields, method, path)
        return opened(self.pass_on(sealed), exchange)


def opened(response: httpx.Response, exchange: Exchange) -> BinaryResponse:
    """The answer within one that a collector sealed."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == RESPONSE_TYPE
    return decode_response(exchange.open_response(response.content))
