"""Bytes that devices chose, as text: what is no UTF-8 comes from no honest device."""

from __future__ import annotations

from codecs import getincrementaldecoder


def text_of(data: bytes, *, whole: bool) -> str | None:
    """Decode a string's bytes, or those of its beginning, as UTF-8; None where they are not.

    whole: the bytes are all of it; else the last character may be cut, and is left out.
    """
    try:
        return getincrementaldecoder("utf-8")().decode(data, whole)
    except UnicodeDecodeError:
        return None
