"""A prefix code of strings: Huffman by context, from a public static table.

A string is coded byte by byte, each with the code of the bytes before it (its context), then END.
A byte that the table does not list is ESCAPE and its eight bits. The table holds lengths of code
words only; the words are canonical, so any implementation derives the same. It is trained once on a
public list (module `training`), and is part of a metric's meaning by its digest.

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
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"  # of a length of a code word: 1 to 35
PACKAGED = ("domains",)
_FIELDS = {"version", "name", "order", "lower_case", "symbols", "contexts"}
_Word = tuple[int, int]  # value and length of a code word


class Decoded(NamedTuple):
    """The bytes that code bits represent, and whether the code ends after them.

    ended: END was read, and only zeros follow it.  valid: some string has these first bits.
    """

    data: bytes
    ended: bool
    valid: bool


class PrefixCode(Frozen):
    """A code table, in which frequent strings are short. Public.

    order: how many bytes before it choose the code of a byte.
    lower_case: A to Z are coded as a to z.
    symbols: the bytes that have a code word, increasing.
    contexts: bytes before -> length of the code word of each symbol, of END and of ESCAPE. The
        longest end of the bytes before that is here is taken; the empty one always does. Two
        zero bytes (as many as `order`) precede the first.

    Raises ParameterError for an incomplete prefix code.
    """

    name: str
    order: int
    lower_case: bool
    symbols: bytes
    contexts: Mapping[bytes, str]

    def __post_init__(self) -> None:
        """Check the fields; each context must be a complete code."""
        _check_fields(self)
        size = len(self.symbols) + 2
        for context, lengths in self.contexts.items():
            if len(context) > self.order or not _complete(lengths, size):
                raise ParameterError(
                    f"code table {self.name!r}: context {context!r}: more than {self.order} bytes, "
                    f"or an incomplete prefix code of {size} symbols"
                )

    def __hash__(self) -> int:
        """By the digest: equal tables have equal digests."""
        return hash(self.digest)

    def encode(self, data: bytes, num_bits: int) -> int:
        """Encode a string and keep the first bits of its code, with zeros after its END.

        Args:
            data: The string's bytes. Private on a device.
            num_bits: Bits to keep.

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
        """Return the number of bits of a string's whole code."""
        size, history = 0, bytes(self.order)
        for byte in self.folded(data):
            words, place = self._words(history), self._places.get(byte)
            size += words[-1][1] + 8 if place is None else words[place][1]
            history = (history + bytes([byte]))[1:] if self.order else b""
        return size + self._words(history)[-2][1]

    def decode(self, bits: int, num_bits: int) -> Decoded:
        """Decode the first bits of a code. Bits at the end that complete no code word are ignored.

        Args:
            bits: The bits as an integer, the first one the most significant.
            num_bits: Their number.

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
        """Return the bytes as they are coded: A to Z in lower case, where the table says so."""
        return data.lower() if self.lower_case else data

    def _next(self, tree: Mapping[_Word, int], bits: int, remaining: int) -> tuple[int | None, int]:
        """Return the place of the next symbol and the bits that are left; None where they end
        before."""
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
        """Return the longest end of the bytes before that has a code."""
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
        """Return the table as canonical JSON: keys sorted, no spaces, ASCII; `read_code` reads
        it."""
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
        """SHA-256 of `text`, in hexadecimal: part of the meaning of a metric that uses the code."""
        return sha256(self.text.encode("ascii")).hexdigest()


def read_code(text: str) -> PrefixCode:
    """Read a code table from its JSON. Raises ParameterError that says what is wrong."""
    if len(text) > MAX_TABLE_CHARACTERS:
        raise ParameterError(f"a code table of {len(text):,} characters; {MAX_TABLE_CHARACTERS:,}")
    try:
        document = parse_strict_json(text.encode("utf-8", "surrogatepass"))
    except WireFormatError as error:
        raise ParameterError(f"not a code table: {error}") from None
    if not isinstance(document, dict) or document.keys() != _FIELDS:
        raise ParameterError(f"a code table has the keys {', '.join(sorted(_FIELDS))}")
    if type(document["version"]) is not int or document["version"] != TABLE_VERSION:
        raise ParameterError(
            f"code table of version {shown(document['version'])}; this reads {TABLE_VERSION}"
        )
    try:
        symbols = bytes.fromhex(document["symbols"])
        contexts = {bytes.fromhex(key): value for key, value in document["contexts"].items()}
    except (TypeError, ValueError, AttributeError):
        raise ParameterError("a code table writes symbols and contexts as hexadecimal") from None
    return PrefixCode(
        document["name"], document["order"], document["lower_case"], symbols, contexts
    )


def packaged_code(name: str) -> PrefixCode:
    """Return a code that comes with the package. Raises ParameterError for a name that does not."""
    if name not in PACKAGED:
        raise ParameterError(f"code = {shown(name)} is not one of {', '.join(PACKAGED)}")
    data = get_data(__package__, f"tables/{name}.json")  # also out of a zip
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
        raise ParameterError(f"a code table has 1 to {MAX_SYMBOLS} different symbols, increasing")
    if code.folded(symbols) != symbols:
        raise ParameterError("a code table with lower_case has no symbol A to Z")
    if b"" not in code.contexts:
        raise ParameterError("a code table has a code for the empty context")


def _complete(lengths: Any, size: int) -> bool:
    """Return whether the lengths are those of a complete prefix code (Kraft's sum is 1)."""
    if not isinstance(lengths, str) or len(lengths) != size:
        return False
    numbers = [DIGITS.find(digit) for digit in lengths]
    top = len(DIGITS)
    return min(numbers) >= 1 and sum(1 << (top - number) for number in numbers) == 1 << top


def _canonical(lengths: str) -> list[_Word]:
    """Code words by place: shorter first, then by place, each the next number (RFC 1951)."""
    sizes = [DIGITS.index(digit) for digit in lengths]
    words: list[_Word] = [(0, 0)] * len(sizes)
    value, before = 0, 0
    for place in sorted(range(len(sizes)), key=lambda place: (sizes[place], place)):
        value <<= sizes[place] - before
        before = sizes[place]
        words[place] = value, before
        value += 1
    return words
