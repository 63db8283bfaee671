"""Addresses and keys, checked when a client is opened, long before the first connection."""

from __future__ import annotations

from rappor_core.errors import ParameterError


def split_url(url: str) -> tuple[str, str, str]:
    """Scheme, `host[:port]`, and path without a slash at its end. Raises ParameterError."""
    scheme, _, rest = str(url).partition("://")
    host, slash, path = rest.partition("/")
    if scheme not in ("http", "https") or not host or set(rest) & set("@?# \t\r\n"):
        raise ParameterError(
            f"{url!r} is not an address such as https://host:port/prefix "
            "(no user, query or fragment)"
        )
    return scheme, host, (slash + path).rstrip("/")


def check_key(key: str | None) -> None:
    """Raises ParameterError for a key that a header cannot carry. The message does not show it."""
    if key is None:
        return
    if not (type(key) is str and key and key.isascii() and key.isprintable() and " " not in key):
        raise ParameterError(
            "the key is empty, no text, or holds characters that a header cannot carry: "
            "pass it as the operator gave it, or None where the collector asks for none"
        )
