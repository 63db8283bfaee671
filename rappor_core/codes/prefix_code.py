"""A prefix code for strings: context-dependent Huffman codes from a public static table.

A string is coded byte by byte, then END follows. The preceding bytes (the context) determine the
code of each byte. A byte that the table does not list is coded as ESCAPE and the byte's bits. The
table contains only the lengths of the code words. The words are canonical, so every implementation
derives the same words. The table is trained once on a public list (module `training`). Its digest
is part of the metric's meaning.

Huffman 1952; canonical code words as in RFC 1951, section 3.2.2.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from pkgutil import get_data
from typing import Any, NamedTuple

from rappor_core.errors import ParameterError, WireFormatError, shown
from rappor_core.frozen import Frozen
from rappor_core.strict_json import parse_strict_json

TABLE_VERSION = 1
MAX_TABLE_CHARACTERS = 200_000
MAX_ORDER = 3
MAX_SYMBOLS = 200
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"  # each digit is the length of a code word, 1 to 35
PACKAGED = ("domains",)
_FIELDS = {"version", "name", "order", "lower_case", "symbols", "contexts"}
_Word = tuple[int, int]  # the value and the length of a code word


class Decoded(NamedTuple):
    """The bytes that code bits represent, and whether the code ends after them."""

    data: bytes
    ended: bool  # END was read, and only zeros follow it
    valid: bool  # the code of some string begins with these bits


class PrefixCode(Frozen):
    """A public code table that assigns short codes to frequent strings.

    Raises ParameterError if the code is incomplete.
    """

    name: str  # the name of the table
    order: int  # the number of preceding bytes that determine the code of a byte
    lower_case: bool  # whether A to Z are encoded as a to z
    symbols: bytes  # the bytes that have a code word, increasing
    # The lengths of the code words of each symbol, of END and of ESCAPE, by context. The longest
    # listed suffix of the preceding bytes applies; the empty suffix is always listed. `order` zero
    # bytes precede the first byte.
    contexts: Mapping[bytes, str]

    def __post_init__(self) -> None:
        _check_fields(self)
        size = len(self.symbols) + 2
        for context, lengths in self.contexts.items():
            if len(context) > self.order or not _complete(lengths, size):
                raise ParameterError(
                    f"code table {self.name!r}: context {context!r}: more than {self.order} bytes, "
                    f"or an incomplete prefix code of {size} symbols"
                )

    def __hash__(self) -> int:
        return hash(self.digest)

    def encode(self, data: bytes, num_bits: int) -> int:
        """Encode a string; return the first bits of its code, filled with zeros after END.

        Args:
            data: The string's bytes. Private on a device.
            num_bits: The number of bits to return.

        Returns:
            The bits as an integer; the first one is the most significant.
        """
        bits, length, history = 0, 0, bytes(self.order)
        for byte in self.folded(data):
            words, place = self._words(history), self._places.get(byte)
            value, size = words[-1] if place is None else words[place]
            if place is None:
                value, size = value << 8 | byte, size + 8
            bits, length = bits << size | value, length + size
            if length >= num_bits:
                return bits >> (length - num_bits)
            history = (history + bytes([byte]))[1:] if self.order else b""
        value, size = self._words(history)[-2]
        bits, length = bits << size | value, length + size
        return bits >> (length - num_bits) if length > num_bits else bits << (num_bits - length)

    def size(self, data: bytes) -> int:
        """Return the number of bits in the complete code of a string."""
        size, history = 0, bytes(self.order)
        for byte in self.folded(data):
            words, place = self._words(history), self._places.get(byte)
            size += words[-1][1] + 8 if place is None else words[place][1]
            history = (history + bytes([byte]))[1:] if self.order else b""
        return size + self._words(history)[-2][1]

    def decode(self, bits: int, num_bits: int) -> Decoded:
        """Decode the first bits of a code. Ignore trailing bits that complete no code word.

        Args:
            bits: The bits as an integer; the first one is the most significant.
            num_bits: The number of bits.

        Returns:
            The bytes, whether the string ends there, and whether the bits are a valid code.
        """
        data, history, remaining = bytearray(), bytes(self.order), num_bits
        end = len(self.symbols)
        while True:
            place, remaining = self._next(self._tree(history), bits, remaining)
            if place is None:
                return Decoded(bytes(data), ended=False, valid=True)
            if place == end:
                rest = bits & ((1 << remaining) - 1)
                return Decoded(bytes(data), ended=rest == 0, valid=rest == 0)
            if place < end:
                byte = self.symbols[place]
            else:
                if remaining < 8:
                    return Decoded(bytes(data), ended=False, valid=True)
                remaining -= 8
                byte = bits >> remaining & 0xFF
                if byte in self._places or self.folded(bytes([byte]))[0] != byte:
                    return Decoded(bytes(data), ended=False, valid=False)
            data.append(byte)
            history = (history + bytes([byte]))[1:] if self.order else b""

    def folded(self, data: bytes) -> bytes:
        """Return the bytes that are encoded: in lower case if `lower_case` is set."""
        return data.lower() if self.lower_case else data

    def _next(self, tree: Mapping[_Word, int], bits: int, remaining: int) -> tuple[int | None, int]:
        """Return the next symbol's index (None if its code word is cut off) and the bits left."""
        value = 0
        for size in range(1, min(remaining, len(DIGITS)) + 1):
            value = value << 1 | bits >> (remaining - size) & 1
            place = tree.get((value, size))
            if place is not None:
                return place, remaining - size
        return None, remaining

    def _words(self, history: bytes) -> list[_Word]:
        context = self._context(history)
        words = self._code_words.get(context)
        if words is None:
            words = self._code_words[context] = _canonical(self.contexts[context])
        return words

    def _tree(self, history: bytes) -> Mapping[_Word, int]:
        context = self._context(history)
        tree = self._trees.get(context)
        if tree is None:
            words = _canonical(self.contexts[context])
            tree = self._trees[context] = {word: place for place, word in enumerate(words)}
        return tree

    def _context(self, history: bytes) -> bytes:
        while history not in self.contexts:
            history = history[1:]
        return history

    @cached_property
    def _places(self) -> dict[int, int]:
        return {byte: place for place, byte in enumerate(self.symbols)}

    @cached_property
    def _code_words(self) -> dict[bytes, list[_Word]]:
        return {}

    @cached_property
    def _trees(self) -> dict[bytes, Mapping[_Word, int]]:
        return {}

    @cached_property
    def text(self) -> str:
        """Return the table as canonical JSON for `read_code`: sorted keys, no spaces, ASCII."""
        document = {
            "version": TABLE_VERSION,
            "name": self.name,
            "order": self.order,
            "lower_case": self.lower_case,
            "symbols": self.symbols.hex(),
            "contexts": {context.hex(): lengths for context, lengths in self.contexts.items()},
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":"))

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of `text` in hexadecimal. The params_id of a metric depends on it."""
        return sha256(self.text.encode("ascii")).hexdigest()


def read_code(text: str) -> PrefixCode:
    """Read a code table from JSON. Raises ParameterError if it is invalid."""
    if len(text) > MAX_TABLE_CHARACTERS:
        raise ParameterError(
            f"a code table of {len(text):,} characters; the limit is {MAX_TABLE_CHARACTERS:,}"
        )
    try:
        document = parse_strict_json(text.encode("utf-8", "surrogatepass"))
    except WireFormatError as error:
        raise ParameterError(f"not a code table: {error}") from None
    if not isinstance(document, dict) or document.keys() != _FIELDS:
        raise ParameterError(f"a code table needs exactly the keys {', '.join(sorted(_FIELDS))}")
    if type(document["version"]) is not int or document["version"] != TABLE_VERSION:
        raise ParameterError(
            f"code table of version {shown(document['version'])}; this reads {TABLE_VERSION}"
        )
    try:
        symbols = bytes.fromhex(document["symbols"])
        contexts = {bytes.fromhex(key): value for key, value in document["contexts"].items()}
    except (TypeError, ValueError, AttributeError):
        raise ParameterError("symbols and contexts of a code table must be hexadecimal") from None
    return PrefixCode(
        document["name"], document["order"], document["lower_case"], symbols, contexts
    )


def packaged_code(name: str) -> PrefixCode:
    """Load a code table of this package. Raises ParameterError if the name is unknown."""
    if name not in PACKAGED:
        raise ParameterError(f"code = {shown(name)} is not one of {', '.join(PACKAGED)}")
    data = get_data(__package__, f"tables/{name}.json")  # also works inside a zip file
    if data is None:
        raise ParameterError(f"code = {name!r}: its table is not installed here")
    return read_code(data.decode("ascii").rstrip())


def _check_fields(code: PrefixCode) -> None:
    name, symbols = code.name, code.symbols
    if not (isinstance(name, str) and name.isascii() and name.isidentifier() and len(name) <= 40):
        raise ParameterError(f"code table name {shown(name)}: use up to 40 letters, digits and _")
    if type(code.order) is not int or not 0 <= code.order <= MAX_ORDER:
        raise ParameterError(f"order = {shown(code.order)} is not a whole number, 0 to {MAX_ORDER}")
    if type(code.lower_case) is not bool:
        raise ParameterError(f"lower_case = {shown(code.lower_case)} is not true or false")
    if sorted(set(symbols)) != list(symbols) or not 1 <= len(symbols) <= MAX_SYMBOLS:
        raise ParameterError(f"symbols must be 1 to {MAX_SYMBOLS} different, increasing bytes")
    if code.folded(symbols) != symbols:
        raise ParameterError("a code table with lower_case must not list symbols A to Z")
    if b"" not in code.contexts:
        raise ParameterError("a code table needs a code for the empty context")


def _complete(lengths: Any, size: int) -> bool:
    if not isinstance(lengths, str) or len(lengths) != size:
        return False
    numbers = [DIGITS.find(digit) for digit in lengths]
    top = len(DIGITS)
    return min(numbers) >= 1 and sum(1 << (top - number) for number in numbers) == 1 << top


def _canonical(lengths: str) -> list[_Word]:
    """Return the canonical code words (RFC 1951) by symbol index.

    Words are numbered in order of length, then index.
    """
    sizes = [DIGITS.index(digit) for digit in lengths]
    words: list[_Word] = [(0, 0)] * len(sizes)
    value, before = 0, 0
    for place in sorted(range(len(sizes)), key=lambda place: (sizes[place], place)):
        value <<= sizes[place] - before
        before = sizes[place]
        words[place] = value, before
        value += 1
    return words
