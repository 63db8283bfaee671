"""The code of strings: complete, prefix-free, the same for every implementation of the text."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metric_design.code_training import train_code
from rappor_core.codes.prefix_code import packaged_code, read_code
from rappor_core.errors import ParameterError
from rappor_core.hashing import normalize

CODE = packaged_code("domains")


def plain_words(lengths: str) -> dict[str, int]:
    """Canonical code words as text, from docs/protocol.md alone."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    order = sorted(range(len(lengths)), key=lambda place: (digits.index(lengths[place]), place))
    words, number, before = {}, 0, 0
    for place in order:
        size = digits.index(lengths[place])
        number <<= size - before
        words[format(number, f"0{size}b")] = place
        number, before = number + 1, size
    return words


def plain_code(document: dict, data: bytes) -> str:
    """All bits of a string's code, as text: a second implementation."""
    symbols = bytes.fromhex(document["symbols"])
    contexts = {bytes.fromhex(key): value for key, value in document["contexts"].items()}
    if document["lower_case"]:
        data = bytes(b + 32 if 65 <= b <= 90 else b for b in data)
    before, bits = b"\0" * document["order"], ""
    for symbol in [*data, None]:
        context = before
        while context not in contexts:
            context = context[1:]
        words = {place: word for word, place in plain_words(contexts[context]).items()}
        if symbol is None:
            return bits + words[len(symbols)]
        if symbol in symbols:
            bits += words[symbols.index(symbol)]
        else:
            bits += words[len(symbols) + 1] + format(symbol, "08b")
        before = (before + bytes([symbol]))[len(before) + 1 - document["order"] :]
    raise AssertionError


@settings(max_examples=80, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_string_comes_back(text: str) -> None:
    data = normalize(text)
    bits = plain_code(json.loads(CODE.text), data)
    assert CODE.size(data) == len(bits)
    for size in (len(bits), len(bits) + 9):
        code = CODE.encode(data, size)
        assert format(code, f"0{size}b") == bits.ljust(size, "0")
        decoded = CODE.decode(code, size)
        assert (decoded.data, decoded.ended, decoded.valid) == (data.lower(), True, True)
    for size in range(1, len(bits), 7):  # a prefix is the beginning of the same string
        decoded = CODE.decode(CODE.encode(data, size), size)
        assert decoded.valid
        assert not decoded.ended
        assert data.lower().startswith(decoded.data)


def test_a_code_after_its_end_is_refused() -> None:
    whole = len(plain_code(json.loads(CODE.text), b"vk.com"))
    code = CODE.encode(b"vk.com", whole + 8)
    assert CODE.decode(code, whole + 8).ended
    assert not CODE.decode(code | 1, whole + 8).valid


def test_a_listed_byte_escaped_is_refused() -> None:
    value, size = CODE._words(b"\0\0")[-1]
    for byte, valid in ((ord("a"), False), (ord("A"), False), (0xC3, True)):
        assert CODE.decode(value << 8 | byte, size + 8).valid is valid


def test_tables_are_read_strictly() -> None:
    document = json.loads(CODE.text)
    assert read_code(CODE.text) == CODE
    assert len(CODE.digest) == 64
    lengths = document["contexts"][""]
    wrong = {
        "an incomplete prefix code": {"contexts": {"": "1" + lengths[1:]}},
        "more than 2 bytes": {"contexts": {"": lengths, "616161": lengths}},
        "no code for|a code for the empty": {"contexts": {"61": lengths}},
        "different, increasing bytes": {"symbols": document["symbols"][:2] * 2},
        "must not list symbols A to Z": {"symbols": CODE.symbols.replace(b"a", b"A").hex()},
        "version 2": {"version": 2},
        "order = 4": {"order": 4},
        "name 'a b'": {"name": "a b"},
    }
    for message, change in wrong.items():
        with pytest.raises(ParameterError, match=message):
            read_code(json.dumps(document | change))
    with pytest.raises(ParameterError, match="needs exactly the keys"):
        read_code("{}")
    with pytest.raises(ParameterError, match="not a code table"):
        read_code("[")
    with pytest.raises(ParameterError, match="is not one of"):
        packaged_code("../secret")


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_a_trained_code_shortens_its_training(order: int) -> None:
    values = [f"item-{i:03}".encode() for i in range(300)]
    code = train_code(values, "items", order=order, lower_case=False)
    assert read_code(code.text) == code
    sizes = [len(plain_code(json.loads(code.text), value)) for value in values]
    assert max(sizes) < 8 * 9 * (0.7 if order else 0.9)
    assert code.decode(code.encode(b"ITEM", 90), 90).data == b"ITEM"


def test_training_needs_strings() -> None:
    with pytest.raises(ParameterError, match="the list is empty"):
        train_code([], "empty")
