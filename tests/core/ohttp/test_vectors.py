"""Every byte of the vectors of RFC 9458, 9180 and 9292, and of another implementation."""

import json
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rappor_core.ohttp import hpke
from rappor_core.ohttp.binary_http import (
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
    encode_key_config,
)
from rappor_core.ohttp.hpke import HpkeContext

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/v1/ohttp.json").read_text())


def of(name: str) -> dict[str, bytes]:
    return {key: bytes.fromhex(text) for key, text in VECTORS[name].items() if type(text) is str}


def private(data: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(data)


@pytest.fixture
def rfc9458() -> dict[str, bytes]:
    return of("rfc9458")


def config_of(vector: dict[str, bytes]) -> KeyConfig:
    framed = len(vector["key_config"]).to_bytes(2, "big") + vector["key_config"]
    (config,) = decode_keys(framed)
    return config


def test_the_key_configuration_is_that_of_rfc_9458(rfc9458: dict[str, bytes]) -> None:
    config = config_of(rfc9458)
    public = private(rfc9458["private_key"]).public_key().public_bytes_raw()
    assert config == KeyConfig(1, public, ((1, 1), (1, 3)))
    assert encode_key_config(config) == rfc9458["key_config"]


def test_the_request_of_rfc_9458_has_every_byte(rfc9458: dict[str, bytes]) -> None:
    ephemeral = private(rfc9458["ephemeral_private_key"])
    sealed, _ = encapsulate(config_of(rfc9458), rfc9458["request"], lambda: ephemeral)
    assert sealed == rfc9458["encapsulated_request"]
    opened, _ = decapsulate({1: private(rfc9458["private_key"])}, sealed)
    assert opened == rfc9458["request"]


def test_the_response_of_rfc_9458_has_every_byte(rfc9458: dict[str, bytes]) -> None:
    ephemeral = private(rfc9458["ephemeral_private_key"])
    _, device = encapsulate(config_of(rfc9458), rfc9458["request"], lambda: ephemeral)
    keys = {1: private(rfc9458["private_key"])}
    _, collector = decapsulate(keys, rfc9458["encapsulated_request"])
    sealed = collector.seal_response(rfc9458["response"], lambda _: rfc9458["response_nonce"])
    assert sealed == rfc9458["encapsulated_response"]
    assert device.open_response(sealed) == rfc9458["response"]


def test_the_context_of_rfc_9180_has_every_byte() -> None:
    vector = of("rfc9180")
    sent, context = hpke.set_up_sender(
        vector["public_key"], vector["info"], private(vector["ephemeral_private_key"])
    )
    assert sent == vector["ephemeral_public_key"]
    wanted = HpkeContext(vector["key"], vector["base_nonce"], vector["exporter_secret"])
    assert context == wanted
    receiver = hpke.set_up_receiver(sent, private(vector["private_key"]), vector["info"])
    assert receiver == wanted
    assert context.seal(vector["plaintext"], vector["associated"]) == vector["ciphertext"]
    assert receiver.open(vector["ciphertext"], vector["associated"]) == vector["plaintext"]
    for label, secret in VECTORS["rfc9180"]["exports"].items():
        assert context.export(bytes.fromhex(label), 32).hex() == secret


def test_rfc_9292_and_9458_messages_are_read(rfc9458: dict[str, bytes]) -> None:
    data = of("rfc9292")["request"]
    request = decode_request(data)
    assert request[:4] == (b"GET", b"https", b"", b"/hello.txt")
    assert dict(request.fields)[b"host"] == b"www.example.com"
    assert encode_request(request) == data
    short = decode_request(rfc9458["request"])  # without the empty parts at its end
    assert short == BinaryRequest(b"GET", b"https", b"example.com", b"/")
    assert encode_request(short) == rfc9458["request"] + bytes(3)
    assert decode_response(rfc9458["response"]) == BinaryResponse(200)
    assert encode_response(BinaryResponse(200)) == rfc9458["response"] + bytes(3)


@pytest.mark.parametrize("size", [0, 1, 100, 5_000])
def test_another_implementation_opens_and_is_opened(size: int) -> None:
    pyhpke = pytest.importorskip("pyhpke", reason="pyhpke (extra dev) is the outside oracle")
    suite = pyhpke.CipherSuite.new(
        pyhpke.KEMId.DHKEM_X25519_HKDF_SHA256, pyhpke.KDFId.HKDF_SHA256, pyhpke.AEADId.AES128_GCM
    )
    key, plain = X25519PrivateKey.generate(), os.urandom(size)
    public = key.public_key().public_bytes_raw()
    ours, outside = (
        pyhpke.KEMKey.from_pyca_cryptography_key(one) for one in (key, key.public_key())
    )

    sent, context = hpke.set_up_sender(public, b"info", X25519PrivateKey.generate())
    theirs = suite.create_recipient_context(sent, ours, info=b"info")
    assert theirs.open(context.seal(plain, b"with"), b"with") == plain
    assert theirs.export(b"label", 16) == context.export(b"label", 16)

    sent, theirs = suite.create_sender_context(outside, info=b"info")
    context = hpke.set_up_receiver(sent, key, b"info")
    assert context.open(theirs.seal(plain, b"with"), b"with") == plain
