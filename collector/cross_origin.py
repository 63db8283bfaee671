"""Reports from web pages of other origins (CORS): the origins that the operator names, and no
others.

It protects nobody by itself (any program can send reports); it lets the browsers of listed sites
read the answers. Never `*`, never with credentials: no cookie or client certificate is ever used.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from starlette.types import Message, Send

MAX_ORIGINS = 100
PREFLIGHT_SECONDS = 7200  # the longest that Chromium remembers an answer
_EXTENSIONS = frozenset({"chrome-extension", "moz-extension", "safari-web-extension"})
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)
_PREFLIGHT = [
    (b"access-control-allow-methods", b"POST"),
    (b"access-control-allow-headers", b"authorization, content-encoding, content-type"),
    (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
]
_EXPOSED = [(b"access-control-expose-headers", b"retry-after")]

Header = tuple[bytes, bytes]


def check_origins(origins: Iterable[str]) -> tuple[str, ...]:
    """Check each origin as a browser writes it. Raises ValueError that names the one at fault."""
    checked = tuple(origins)
    if len(checked) > MAX_ORIGINS:
        raise ValueError(f"{len(checked)} origins; {MAX_ORIGINS} at most")
    for origin in checked:
        why = _problem(origin)
        if why:
            raise ValueError(f"origin {origin!a} {why}")
    return checked


def _problem(origin: str) -> str:
    """What is wrong with an origin; "" for nothing."""
    if origin in ("*", "null"):
        return "would let any page read the answers; name each origin"
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return "is not an origin such as https://app.example.org"
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}.get(parts.scheme, 0)
    written = f"{parts.scheme}://{shown}" + ("" if port is None else f":{port}")
    if origin != written or port == default or not (_is_ipv6(host) or _HOST.fullmatch(host)):
        return "is not an origin as browsers write it, such as https://app.example.org"
    if parts.scheme == "http" and not _is_local(host):
        return "can be forged by anybody on the way; use https"
    if parts.scheme not in {"http", "https", *_EXTENSIONS}:
        return "is neither of https nor of an extension"
    return ""


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


class CrossOrigin:
    """The origins whose pages may send reports and read the answers. origins: as `check_origins`
    returns them."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._allowed = {origin.encode("ascii") for origin in origins}

    @property
    def is_on(self) -> bool:
        """Whether any origin is listed."""
        return bool(self._allowed)

    def preflight(self, headers: Mapping[bytes, bytes]) -> list[Header] | None:
        """Headers of the answer to a browser's preflight request; None if the origin is not
        allowed."""
        origin = headers.get(b"origin")
        if origin not in self._allowed or headers.get(b"access-control-request-method") != b"POST":
            return None
        return [*_allow(origin), *_PREFLIGHT]

    def sending(self, headers: Mapping[bytes, bytes], send: Send) -> Send:
        """An ASGI `send` that adds the headers which let a listed origin's page read the answer.

        Every answer says that it depends on the origin, so that no cache gives it to another.
        """
        origin = headers.get(b"origin")
        more = [*_allow(origin), *_EXPOSED] if origin in self._allowed else [(b"vary", b"Origin")]

        async def send_readable(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        return send_readable


def _allow(origin: bytes) -> list[Header]:
    return [(b"access-control-allow-origin", origin), (b"vary", b"Origin")]
