"""Sending a webhook: to public addresses over https, signed, without redirects.

The host is looked up once, its addresses are checked, and the connection goes to the address that
was checked: a name that changes meanwhile leads nowhere else.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from threading import Event, Timer
from typing import Any
from urllib.parse import urlsplit

import httpx

from decoder_service.shell.errors import RequestError, UnavailableError

SIGNATURE = "Rappor-Signature"
EVENT = "Rappor-Event"
_SECONDS = 10.0  # of the whole exchange
Resolve = Callable[[str, int], list[str]]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")  # all that IANA has given out
_OF_NO_HOST = [  # which Python takes for global
    ipaddress.ip_network("192.88.99.0/24"),  # relays of 6to4, withdrawn (RFC 7526)
    ipaddress.ip_network("3fff::/20"),  # documentation (RFC 9637)
]
_LAST_32_BITS = [  # networks whose addresses end in an IPv4 address
    ipaddress.IPv6Network(one)
    for one in (
        "::/96",  # IPv4-compatible, RFC 4291
        "::ffff:0:0/96",  # IPv4-mapped, RFC 4291
        "::ffff:0:0:0/96",  # IPv4-translated, RFC 7915
        "64:ff9b::/96",  # NAT64, RFC 6052
    )
]


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host. Raises UnavailableError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnavailableError("the host of the webhook is not found") from error
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def check_target(target: str, *, allow_loopback: bool) -> tuple[str, int]:
    """The host and port of a webhook's URL. Raises RequestError for a URL that is not allowed."""
    try:
        parts = urlsplit(target)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise RequestError(f"webhook {target[:100]!a} is not a URL") from None
    if not target.isascii() or not target.isprintable() or " " in target or not host:
        raise RequestError(f"webhook {target[:100]!a} is not a URL")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise RequestError("a webhook has no name, password or fragment in its URL")
    if parts.scheme == "http" and not (allow_loopback and is_loopback_name(host)):
        raise RequestError("a webhook is an https:// URL")
    if parts.scheme not in ("http", "https"):
        raise RequestError("a webhook is an https:// URL")
    literal = _literal(host)
    if literal is not None:
        check_addresses([literal], allow_loopback=allow_loopback)
    return host, port or (443 if parts.scheme == "https" else 80)


def is_loopback_name(host: str) -> bool:
    """Whether a host name means this machine."""
    literal = _literal(host)
    return host == "localhost" or (literal is not None and _innermost(literal).is_loopback)


def check_addresses(addresses: list[str], *, allow_loopback: bool) -> str:
    """Require that all addresses of a host are public, and return the first. Raises
    RequestError."""
    for text in addresses:
        innermost = _innermost(text)
        if innermost.is_loopback and allow_loopback:
            continue
        if not _is_public(innermost):
            raise RequestError("the webhook's host has an address that is not public")
    if not addresses:
        raise RequestError("the webhook's host has no address")
    return addresses[0]


def _literal(host: str) -> str | None:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def _innermost(text: str) -> Address:
    """An address; where it embeds IPv4 addresses, the first that is not public, else the first.

    A gateway delivers to what is embedded. Teredo (RFC 4380) embeds its server and its client.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    inner: list[Address] = []
    if isinstance(address, ipaddress.IPv6Address):
        inner.extend(_embedded(address))
    return next((one for one in inner if not _is_public(one)), (inner or [address])[0])


def _embedded(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """IPv4 addresses that an IPv6 address stands for, of every translation that is standardised."""
    if any(address in network for network in _LAST_32_BITS) and not address.is_loopback:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo
    if (int(address) >> 32) & 0xFDFFFFFF == 0x5EFE:  # ISATAP (RFC 5214), in any prefix
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


def _is_public(address: Address) -> bool:
    """Whether an address that embeds no other is given out to hosts of the Internet."""
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_UNICAST:
        return False
    if any(address in network for network in _OF_NO_HOST):
        return False
    return address.is_global and not address.is_multicast


def sign(secret: str, at: int, body: bytes) -> str:
    """The signature header: HMAC-SHA-256 of `TIME.BODY` by the alarm's secret, hexadecimal.

    at: seconds since 1970; a receiver refuses what is too old.
    """
    made = hmac.new(secret.encode(), f"{at}.".encode() + body, sha256).hexdigest()
    return f"t={at},v1={made}"


def post(
    target: str,
    body: bytes,
    *,
    event: str,
    secret: str,
    at: int,
    allow_loopback: bool,
    resolver: Resolve = resolve,
) -> None:
    """Send a message to a webhook, once.

    Args:
        target: URL of the webhook.
        body: JSON.
        event: its id, the same in each try.
        secret: of the alarm.
        at: the time now, seconds since 1970.
        allow_loopback: whether this machine may be the target, over http too.
        resolver: looks the host up.

    Raises:
        RequestError: the target is not taken.
        UnavailableError: it does not answer with 2xx.
    """
    host, port = check_target(target, allow_loopback=allow_loopback)
    literal = _literal(host)
    found = [literal] if literal else resolver(host, port)
    address = check_addresses(found, allow_loopback=allow_loopback)
    parts = urlsplit(target)
    place = f"[{address}]" if ":" in address else address
    url = parts._replace(netloc=f"{place}:{port}").geturl()
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "User-Agent": "rappor-decoder",
        EVENT: event,
        SIGNATURE: sign(secret, at, body),
    }
    try:
        status = _status_of(url, body, headers, host)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnavailableError(f"the webhook does not answer ({type(error).__name__})") from error
    if not 200 <= status < 300:
        raise UnavailableError(f"the webhook answered {status}")


def _status_of(url: str, body: bytes, headers: dict[str, str], host: str) -> int:
    """Send a request; the status of its answer. Raises httpx.HTTPError, httpx.InvalidURL."""
    with (
        _deadline(_SECONDS) as trace,
        httpx.Client(timeout=_SECONDS, follow_redirects=False, trust_env=False) as client,
        client.stream(
            "POST",
            url,
            content=body,
            headers=headers,
            extensions={"sni_hostname": host, "trace": trace},
        ) as answer,
    ):
        return answer.status_code


@contextmanager
def _deadline(seconds: float) -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """Shut the connection of an exchange that takes too long: a timeout is of each read alone.

    Yields the `trace` of httpx, which is told of the connection, then of TLS on it.
    """
    opened: list[socket.socket] = []
    over = Event()

    def trace(event: str, info: dict[str, Any]) -> None:
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            opened.append(info["return_value"].get_extra_info("socket"))
            if over.is_set():  # while it was connecting
                shut()

    def shut() -> None:
        over.set()
        for one in opened[-1:]:
            with suppress(OSError):
                socket.socket.shutdown(one, socket.SHUT_RDWR)

    timer = Timer(seconds, shut)
    timer.start()
    try:
        yield trace
    finally:
        timer.cancel()
