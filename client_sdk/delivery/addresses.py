"""The addresses of collectors, proxies and relays, and the checks for their keys."""

from typing import NamedTuple

from rappor_core.errors import ParameterError

PORTS = {"http": 80, "https": 443}
MAX_PORT = 65_535
MAX_NAME_CHARS, MAX_LABEL_CHARS = 253, 63


class Address(NamedTuple):
    """The address to connect to."""

    host: str  # a name in ASCII, or an IP address without brackets
    port: int

    @property
    def is_loopback(self) -> bool:
        """Return whether the address is on this machine, so that no one can intercept data."""
        four = self.host.split(".")
        inside = four[0] == "127" and len(four) == 4 and all(part.isdecimal() for part in four)
        return inside or self.host.lower() in ("localhost", "::1")


def split_url(url: str) -> tuple[str, str, str]:
    """Split a URL into scheme, `host[:port]` and path. Raises ParameterError if it is invalid."""
    scheme, _, rest = str(url).partition("://")
    host, slash, path = rest.partition("/")
    if scheme not in PORTS or not host or set(rest) & set("@?# \t\r\n"):
        raise _not_an_address(url, "no user, query or fragment")
    if not (path.isascii() and (path + " ").isprintable()):
        raise _not_an_address(url, "the path must be printable ASCII; encode the rest as %XX")
    address_of(scheme, host)
    if not host.isascii():
        name, colon, port = host.partition(":")
        host = _in_ascii(name) + colon + port
    return scheme, host, (slash + path).rstrip("/")


def address_of(scheme: str, host: str) -> Address:
    """Parse `host[:port]` into host and port. Raises ParameterError if it is invalid."""
    if host.startswith("["):
        name, bracket, port = host[1:].partition("]")
        digits, _, zone = name.partition("%")
        is_ip6 = ":" in digits and set(digits) <= set("0123456789abcdefABCDEF:.")
        fine = bool(bracket) and port[:1] in ("", ":") and is_ip6 and zone.isascii()
    else:
        name, colon, port = host.partition(":")
        port = colon + port
        name = _in_ascii(name)
        fine = _is_name(name)
    number = port[1:]
    if not fine or not (port == "" or (number.isascii() and number.isdecimal())):
        raise _not_an_address(f"{scheme}://{host}", "the host or its port is invalid")
    if port and not 0 < int(number[:6]) <= MAX_PORT:
        raise _not_an_address(f"{scheme}://{host}", f"ports go from 1 to {MAX_PORT}")
    return Address(name, int(number) if port else PORTS[scheme])


def check_key(key: str | None) -> None:
    """Raise ParameterError, without showing the key, if a header cannot contain the key."""
    if key is None:
        return
    if not (type(key) is str and key and key.isascii() and key.isprintable() and " " not in key):
        raise ParameterError(
            "the key is empty, not text, or contains characters that a header cannot carry: "
            "pass it as you received it, or None if the collector requires none"
        )


def check_key_is_hidden(key: str | None, url: str) -> None:
    """Raise ParameterError if a collector's key would be sent unencrypted."""
    scheme, host, _ = split_url(url)
    if key is not None and scheme == "http" and not address_of(scheme, host).is_loopback:
        raise ParameterError(
            f"{url!r}: over plain http, anyone on the way can read the key; use https (plain http "
            "is for loopback addresses, or without a key)"
        )


def _in_ascii(name: str) -> str:
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return ""


def _is_name(name: str) -> bool:
    labels = name.removesuffix(".").split(".")
    return len(name) <= MAX_NAME_CHARS and all(
        0 < len(label) <= MAX_LABEL_CHARS and label.replace("-", "").replace("_", "").isalnum()
        for label in labels
    )


def _not_an_address(url: object, why: str) -> ParameterError:
    return ParameterError(f"{url!r} is not an address such as https://host:port/prefix ({why})")
