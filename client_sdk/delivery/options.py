"""The app's options for delivery, each with its default and the reason for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rappor_core.errors import ParameterError, shown
from rappor_core.frozen import Frozen

if TYPE_CHECKING:
    import ssl

    from client_sdk.delivery.relay import Relay


class Delivery(Frozen):
    """Options of the app for sending; none of them changes what a report says.

    mean_delay: seconds from the first waiting report to sending, on average; geometric, so that the
        time of sending does not tell the time of use. 0 sends at once.
    batch_reports: most reports in a batch, 1 to 10,000.
    pad_to: bodies are padded to a multiple of so many bytes, so that their size does not tell the
        number of reports; 0 leaves them as they are.
    timeout: seconds for one exchange.
    max_queued, max_queued_bytes, max_age_days: bounds of what waits; past them the oldest goes,
        counted. Age counts only while the collector cannot be reached.
    first_pause, longest_pause: bounds in seconds of the pause after failures (full jitter).
    longest_retry_after: seconds for which a collector's Retry-After is followed at most.
    proxy: `http://host:port`.  tls: an `ssl.SSLContext` of the app's own.
    relay: the only way to the collector, which then does not see the device's address.

    Raises ParameterError for a number outside its range, and for a proxy without an address.
    """

    mean_delay: float = 600.0
    batch_reports: int = 100
    pad_to: int = 256
    timeout: float = 10.0
    max_queued: int = 20_000
    max_queued_bytes: int = 4 << 20
    max_age_days: int = 90
    first_pause: float = 1.0
    longest_pause: float = 600.0
    longest_retry_after: float = 3600.0
    proxy: str | None = None
    tls: ssl.SSLContext | None = None
    relay: Relay | None = None

    def __post_init__(self) -> None:
        """Check each choice: a wrong one would stop the sending thread, long after `open`."""
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
    "batch_reports": (1, 10_000),
    "pad_to": (0, 32_768),
    "timeout": (0.01, 600),
    "max_queued": (1, 10_000_000),
    "max_queued_bytes": (1, 1 << 40),
    "max_age_days": (1, 36_500),
    "first_pause": (0.001, 3600),
    "longest_pause": (0.001, 86_400),
    "longest_retry_after": (0, 7 * 86_400),
}

PORTS = {"http": 80, "https": 443}
MAX_PORT = 65_535
MAX_NAME_CHARS, MAX_LABEL_CHARS = 253, 63


class Address(NamedTuple):
    """The address to connect to. host: a name in ASCII, or an IP address without brackets."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether the address is of this machine, so that nobody on a network can read along."""
        four = self.host.split(".")
        inside = four[0] == "127" and len(four) == 4 and all(part.isdecimal() for part in four)
        return inside or self.host.lower() in ("localhost", "::1")


def split_url(url: str) -> tuple[str, str, str]:
    """Split a URL into scheme, `host[:port]`, and path without a slash at its end. Raises
    ParameterError."""
    scheme, _, rest = str(url).partition("://")
    host, slash, path = rest.partition("/")
    if scheme not in PORTS or not host or set(rest) & set("@?# \t\r\n"):
        raise _not_an_address(url, "no user, query or fragment")
    if not (path.isascii() and (path + " ").isprintable()):
        raise _not_an_address(url, "the path is printable ASCII; write the rest as %XX")
    address_of(scheme, host)
    if not host.isascii():
        name, colon, port = host.partition(":")
        host = _in_ascii(name) + colon + port
    return scheme, host, (slash + path).rstrip("/")


def address_of(scheme: str, host: str) -> Address:
    """The host and the port in `host[:port]`. Raises ParameterError."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        fine = bool(bracket) and port[:1] in ("", ":") and _is_ip6(name)
    else:
        name, colon, port = host.partition(":")
        port = colon + port
        name = _in_ascii(name)
        fine = _is_name(name)
    number = port[1:]
    if not fine or not (port == "" or (number.isascii() and number.isdecimal())):
        raise _not_an_address(f"{scheme}://{host}", "the host or its port is none")
    if port and not 0 < int(number[:6]) <= MAX_PORT:
        raise _not_an_address(f"{scheme}://{host}", f"ports go from 1 to {MAX_PORT}")
    return Address(name, int(number) if port else PORTS[scheme])


def check_key(key: str | None) -> None:
    """Raises ParameterError for a key that a header cannot carry. The message does not show it."""
    if key is None:
        return
    if not (type(key) is str and key and key.isascii() and key.isprintable() and " " not in key):
        raise ParameterError(
            "the key is empty, no text, or holds characters that a header cannot carry: "
            "pass it as the operator gave it, or None where the collector asks for none"
        )


def check_key_is_hidden(key: str | None, url: str) -> None:
    """Raises ParameterError where the key of a collector would travel in clear text."""
    scheme, host, _ = split_url(url)
    if key is not None and scheme == "http" and not address_of(scheme, host).is_loopback:
        raise ParameterError(
            f"{url!r}: over plain http anybody on the way can read the key; use https (plain http "
            "is for loopback addresses, or without a key)"
        )


def _in_ascii(name: str) -> str:
    """An international name as DNS has it; the codec is loaded for nothing else."""
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return ""


def _is_name(name: str) -> bool:
    """A host name (RFC 1123, and `_`, which internal names have), or an IPv4 address."""
    labels = name.removesuffix(".").split(".")
    return len(name) <= MAX_NAME_CHARS and all(
        0 < len(label) <= MAX_LABEL_CHARS and label.replace("-", "").replace("_", "").isalnum()
        for label in labels
    )


def _is_ip6(name: str) -> bool:
    digits, _, zone = name.partition("%")
    return ":" in digits and set(digits) <= set("0123456789abcdefABCDEF:.") and zone.isascii()


def _not_an_address(url: object, why: str) -> ParameterError:
    return ParameterError(f"{url!r} is not an address such as https://host:port/prefix ({why})")
