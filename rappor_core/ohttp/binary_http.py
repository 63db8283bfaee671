"""Binary HTTP messages of known length (RFC 9292), with padding.

Both decoders accept the messages that their peer may send and reject everything else. Error
messages never repeat the input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rappor_core.errors import EncapsulationError

REQUEST, RESPONSE = 0, 1  # framing indicators
SIZE_STEP = 1024  # messages are padded to a multiple of this number of bytes
MAX_FIELDS = 32
_BAD_IN_VALUES = (b"\0", b"\r", b"\n")
_TCHAR = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")  # lower case only

Fields = tuple[tuple[bytes, bytes], ...]  # pairs of a name in lower case and a value


class BinaryRequest(NamedTuple):
    """An HTTP request, whose path includes the query as in a request line."""

    method: bytes
    scheme: bytes
    authority: bytes
    path: bytes
    fields: Fields = ()
    content: bytes = b""


class BinaryResponse(NamedTuple):
    """A final HTTP response; decoding skips any informational responses before it."""

    status: int
    fields: Fields = ()
    content: bytes = b""


def encode_request(request: BinaryRequest, pad_to: int = 0) -> bytes:
    """Encode a request as binary HTTP (RFC 9292).

    Args:
        request: The request.
        pad_to: Zeros pad the message to a multiple of this number of bytes; 0 for no padding.
    """
    control = b"".join(map(_with_length, request[:4]))
    return _encode(REQUEST, control, request.fields, request.content, pad_to)


def encode_response(response: BinaryResponse, pad_to: int = 0) -> bytes:
    """Encode a response as binary HTTP (RFC 9292).

    Args:
        response: The response.
        pad_to: Zeros pad the message to a multiple of this number of bytes; 0 for no padding.
    """
    control = _integer(response.status)
    return _encode(RESPONSE, control, response.fields, response.content, pad_to)


def decode_request(data: bytes) -> BinaryRequest:
    """Decode a request; the inverse of `encode_request`. Raises EncapsulationError if invalid."""
    reader = _begin(data, REQUEST)
    control = reader.part(), reader.part(), reader.part(), reader.part()
    return BinaryRequest(*control, *reader.fields_and_content())


def decode_response(data: bytes) -> BinaryResponse:
    """Decode a response; the inverse of `encode_response`. Raises EncapsulationError if invalid."""
    reader = _begin(data, RESPONSE)
    status = reader.integer()
    while 100 <= status < 200:
        reader.fields()
        status = reader.integer()
    if not 200 <= status < 600:
        raise EncapsulationError("a binary response without a final status")
    return BinaryResponse(status, *reader.fields_and_content())


def _encode(
    framing: int, control: bytes, fields: Iterable[tuple[bytes, bytes]], content: bytes, pad_to: int
) -> bytes:
    section = b"".join(_with_length(name) + _with_length(value) for name, value in fields)
    message = _integer(framing) + control + _with_length(section) + _with_length(content) + b"\0"
    return message + bytes(-len(message) % pad_to if pad_to else 0)


def _with_length(part: bytes) -> bytes:
    return _integer(len(part)) + part


def _integer(value: int) -> bytes:
    for code, size in enumerate((1, 2, 4, 8)):
        if value < 1 << (8 * size - 2):
            return (value | code << (8 * size - 2)).to_bytes(size, "big")
    raise EncapsulationError(f"a length of {value} cannot be written")


def _begin(data: bytes, framing: int) -> _Reader:
    reader = _Reader(data)
    if reader.integer() != framing:
        raise EncapsulationError("not a binary message of known length of the expected kind")
    return reader


class _Reader:
    """A reader for the consecutive parts of a message.

    A part beyond the end is empty: a sender may omit trailing empty parts (RFC 9292, 3.8).
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def integer(self) -> int:
        size = 1 << (self._data[self._at] >> 6) if self._at < len(self._data) else 1
        value = int.from_bytes(self._take(size), "big")
        return value & ((1 << (8 * size - 2)) - 1)

    def part(self) -> bytes:
        return self._take(self.integer())

    def fields(self) -> Fields:
        section = b"" if self.is_over else self.part()
        return tuple(_fields(section))

    def fields_and_content(self) -> tuple[Fields, bytes]:
        """Read the final parts of a message and check that only zero padding follows."""
        fields = self.fields()
        content = b"" if self.is_over else self.part()
        if self.fields():
            raise EncapsulationError("a binary message with trailer fields, which are not taken")
        if self._data.count(0, self._at) != len(self._data) - self._at:
            raise EncapsulationError("a binary message with padding that is not zero")
        return fields, content

    @property
    def is_over(self) -> bool:
        return self._at == len(self._data)

    def _take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        if len(part) < size:
            raise EncapsulationError("a binary message that ends early")
        self._at += size
        return part


def _fields(section: bytes) -> Iterable[tuple[bytes, bytes]]:
    """Yield (name, value) of each field in a section. Raises EncapsulationError if invalid."""
    reader = _Reader(section)
    number = 0
    while not reader.is_over:
        name, value = reader.part(), reader.part()
        number += 1
        if number > MAX_FIELDS:
            raise EncapsulationError(f"a binary message with more than {MAX_FIELDS} fields")
        if not name or not _TCHAR.issuperset(name):
            raise EncapsulationError("a binary message with an invalid field name")
        if any(bad in value for bad in _BAD_IN_VALUES):
            raise EncapsulationError("a binary message with a line break in a field")
        yield name, value
