"""What is no message: a clear error, whatever the bytes are, and no plain text in it."""

import os
import random
from contextlib import suppress

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from rappor_core.errors import EncapsulationError, UnknownKeyError
from rappor_core.ohttp.binary_http import (
    MAX_FIELDS,
    BinaryRequest,
    BinaryResponse,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from rappor_core.ohttp.encapsulation import (
    KeyConfig,
    decapsulate,
    decode_keys,
    encapsulate,
    encode_keys,
)

KEY = X25519PrivateKey.generate()
CONFIG = KeyConfig(7, KEY.public_key().public_bytes_raw())
REQUEST = BinaryRequest(b"POST", b"https", b"", b"/v1/reports", ((b"a", b"b"),), b"body")


def test_each_flipped_bit_is_refused() -> None:
    sealed, device = encapsulate(CONFIG, b"one request")
    _, collector = decapsulate({7: KEY}, sealed)
    answer = collector.seal_response(b"one answer")
    for bit in range(8 * len(sealed)):
        with pytest.raises(EncapsulationError):
            decapsulate({7: KEY}, flipped(sealed, bit))
    for bit in range(8 * len(answer)):
        with pytest.raises(EncapsulationError):
            device.open_response(flipped(answer, bit))


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 128 >> bit % 8
    return bytes(changed)


@pytest.mark.parametrize("point", [bytes(32), b"\1" + bytes(31)])
def test_a_point_of_small_order_is_refused(point: bytes) -> None:
    sealed, _ = encapsulate(CONFIG, b"")
    with pytest.raises(EncapsulationError, match="agreed"):
        decapsulate({7: KEY}, sealed[:7] + point + sealed[39:])
    with pytest.raises(EncapsulationError, match="agreed"):
        encapsulate(KeyConfig(7, point), b"")


def test_an_unknown_key_has_its_own_error() -> None:
    sealed, _ = encapsulate(CONFIG, b"")
    with pytest.raises(UnknownKeyError, match="no key 7"):
        decapsulate({8: KEY}, sealed)
    with pytest.raises(EncapsulationError, match="decrypted"):
        decapsulate({7: X25519PrivateKey.generate()}, sealed)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (decode_request, decode_response, decode_keys, lambda d: decapsulate({7: KEY}, d)):
        with suppress(EncapsulationError):
            read(data)


def test_messages_come_back_however_they_are_padded() -> None:
    draw = random.Random(1)
    for _ in range(200):
        fields = tuple(
            (b"x-%d" % n, os.urandom(8).hex().encode()) for n in range(draw.randrange(MAX_FIELDS))
        )
        content = os.urandom(draw.choice([0, 63, 64, 16_383, 16_384, 70_000]))
        request = BinaryRequest(b"POST", b"https", b"", b"/", fields, content)
        response = BinaryResponse(draw.choice([200, 404, 503]), fields, content)
        for pad_to in (0, 1024):
            data, answer = encode_request(request, pad_to), encode_response(response, pad_to)
            assert pad_to == 0 or len(data) % pad_to == len(answer) % pad_to == 0
            assert decode_request(data) == request
            assert decode_response(answer) == response


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encode_response(BinaryResponse(200)), "expected kind"),
        (b"\2" + encode_request(REQUEST)[1:], "expected kind"),  # of indeterminate length
        (encode_request(REQUEST) + b"\0\1", "padding"),
        (encode_request(REQUEST)[:-1] + b"\4\1a\1b", "trailer"),
        (encode_request(REQUEST._replace(fields=((b"A", b"b"),))), "name"),
        (encode_request(REQUEST._replace(fields=((b"a", b"b\r\nc: d"),))), "line break"),
        (encode_request(REQUEST._replace(fields=((b"a", b"b"),) * 33)), "more than 32"),
        (b"\0" + b"\xff" * 8, "ends early"),
        (b"", "ends early"),
    ],
)
def test_a_message_that_is_none_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(EncapsulationError, match=reason):
        decode_request(data)


def test_keys_of_other_suites_are_passed_over() -> None:
    other = b"\x01\x00\x10" + bytes(65) + b"\x00\x04\x00\x01\x00\x01"  # P-256
    framed = len(other).to_bytes(2, "big") + other
    chacha = KeyConfig(3, CONFIG.public_key, ((1, 3),))
    assert decode_keys(framed + encode_keys([chacha, CONFIG])) == [CONFIG]
    for data in (b"", framed, encode_keys([chacha])):
        with pytest.raises(EncapsulationError, match="ohttp-keys create"):
            decode_keys(data)
