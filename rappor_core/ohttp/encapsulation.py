"""Encapsulated requests and responses (RFC 9458, section 4).

A request is one message, answered by one: nothing is remembered between two. A replayed request
opens again; that its batch is counted once is up to the collector.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rappor_core.ohttp.errors import EncapsulationError, UnknownKeyError
from rappor_core.ohttp.hpke import (
    AEAD_ID,
    KDF_ID,
    KEM_ID,
    KEY_BYTES,
    NONCE_BYTES,
    PUBLIC_KEY_BYTES,
    TAG_BYTES,
    HpkeContext,
    aead_open,
    aead_seal,
    expand,
    extract,
    set_up_receiver,
    set_up_sender,
)
from rappor_core.ohttp.key_config import KeyConfig

REQUEST_TYPE, RESPONSE_TYPE = "message/ohttp-req", "message/ohttp-res"
_SUITE = b"".join(one.to_bytes(2, "big") for one in (KEM_ID, KDF_ID, AEAD_ID))
_HEADER_BYTES = 1 + len(_SUITE)
_RESPONSE_NONCE_BYTES = max(KEY_BYTES, NONCE_BYTES)
OVERHEAD = _HEADER_BYTES + PUBLIC_KEY_BYTES + TAG_BYTES  # bytes by which a request grows


class Exchange(NamedTuple):
    """One request and its answer, on either side. sent: the sender's public value."""

    sent: bytes
    context: HpkeContext

    def seal_response(
        self, response: bytes, random_bytes: Callable[[int], bytes] = os.urandom
    ) -> bytes:
        """Encapsulate the answer, at the collector (RFC 9458, section 4.4)."""
        nonce = random_bytes(_RESPONSE_NONCE_BYTES)
        return nonce + aead_seal(*self._response_key(nonce), response)

    def open_response(self, sealed: bytes) -> bytes:
        """Open the answer, on the device. Raises EncapsulationError."""
        nonce, ciphertext = sealed[:_RESPONSE_NONCE_BYTES], sealed[_RESPONSE_NONCE_BYTES:]
        return aead_open(*self._response_key(nonce), ciphertext)

    def _response_key(self, response_nonce: bytes) -> tuple[bytes, bytes]:
        secret = self.context.export(b"message/bhttp response", _RESPONSE_NONCE_BYTES)
        prk = extract(self.sent + response_nonce, secret)
        return expand(prk, b"key", KEY_BYTES), expand(prk, b"nonce", NONCE_BYTES)


def encapsulate(
    config: KeyConfig,
    request: bytes,
    ephemeral: Callable[[], X25519PrivateKey] = X25519PrivateKey.generate,
) -> tuple[bytes, Exchange]:
    """Encrypt a binary request for the holder of a key; what opens the answer comes with it.

    ephemeral: makes the key pair of this one message; two never share one.
    Raises EncapsulationError for a public key with which no secret can be agreed.
    """
    header = bytes([config.key_id]) + _SUITE
    sent, context = set_up_sender(config.public_key, _info(header), ephemeral())
    return header + sent + context.seal(request), Exchange(sent, context)


def key_id_of(encapsulated: bytes) -> int:
    """The key that a request was encrypted for. Raises EncapsulationError for another suite."""
    if len(encapsulated) < OVERHEAD or encapsulated[1:_HEADER_BYTES] != _SUITE:
        raise EncapsulationError("not an encapsulated request for X25519, HKDF-SHA256, AES-128-GCM")
    return encapsulated[0]


def decapsulate(
    keys: Mapping[int, X25519PrivateKey], encapsulated: bytes
) -> tuple[bytes, Exchange]:
    """Decrypt a request, at the collector; what seals the answer comes with it.

    keys: private keys by their id. Raises UnknownKeyError where none has the request's id,
    EncapsulationError where it cannot be opened.
    """
    key_id = key_id_of(encapsulated)
    if key_id not in keys:
        raise UnknownKeyError(f"there is no key {key_id} here, or it was retired")
    header, rest = encapsulated[:_HEADER_BYTES], encapsulated[_HEADER_BYTES:]
    sent, ciphertext = rest[:PUBLIC_KEY_BYTES], rest[PUBLIC_KEY_BYTES:]
    context = set_up_receiver(sent, keys[key_id], _info(header))
    return context.open(ciphertext), Exchange(sent, context)


def _info(header: bytes) -> bytes:
    return b"message/bhttp request\0" + header
