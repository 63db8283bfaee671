"""Encapsulated requests and responses (RFC 9458, section 4).

Each request has one response, and no state survives the exchange. A replayed request can be opened
again, so the collector must count its batch only once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from rappor_core.errors import EncapsulationError, UnknownKeyError
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

REQUEST_TYPE, RESPONSE_TYPE = "message/ohttp-req", "message/ohttp-res"
_SUITE = b"".join(number.to_bytes(2, "big") for number in (KEM_ID, KDF_ID, AEAD_ID))
_HEADER_BYTES = 1 + len(_SUITE)
_RESPONSE_NONCE_BYTES = max(KEY_BYTES, NONCE_BYTES)
OVERHEAD = _HEADER_BYTES + PUBLIC_KEY_BYTES + TAG_BYTES  # the number of bytes that encryption adds


class Exchange(NamedTuple):
    """The secrets that protect a request's response; `sent` is the sender's public value."""

    sent: bytes
    context: HpkeContext

    def seal_response(
        self, response: bytes, random_bytes: Callable[[int], bytes] = os.urandom
    ) -> bytes:
        """Encrypt a response on the collector (RFC 9458, section 4.4).

        Args:
            response: The response as binary HTTP.
            random_bytes: The source of the nonce.
        """
        nonce = random_bytes(_RESPONSE_NONCE_BYTES)
        return nonce + aead_seal(*self._response_key(nonce), response)

    def open_response(self, sealed: bytes) -> bytes:
        """Decrypt a response on the device. Raises EncapsulationError if that fails."""
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
    """Encrypt a binary request for the holder of a key (RFC 9458, section 4.3).

    Args:
        config: The key holder's public key and its id.
        request: The request as binary HTTP.
        ephemeral: A function that creates a new key pair for this message; messages never share a
            key pair.

    Returns:
        The encrypted request, and the exchange that opens its response.

    Raises:
        EncapsulationError: No shared secret can be derived from this public key.
    """
    header = bytes([config.key_id]) + _SUITE
    sent, context = set_up_sender(config.public_key, _info(header), ephemeral())
    return header + sent + context.seal(request), Exchange(sent, context)


def key_id_of(encapsulated: bytes) -> int:
    """Return the id of the key for which a request was encrypted.

    Raises EncapsulationError if the request uses a different cipher suite.
    """
    if len(encapsulated) < OVERHEAD or encapsulated[1:_HEADER_BYTES] != _SUITE:
        raise EncapsulationError("not an encapsulated request for X25519, HKDF-SHA256, AES-128-GCM")
    return encapsulated[0]


def decapsulate(
    keys: Mapping[int, X25519PrivateKey], encapsulated: bytes
) -> tuple[bytes, Exchange]:
    """Decrypt a request on the collector.

    Args:
        keys: The private keys, by key id.
        encapsulated: The encrypted request.

    Returns:
        The request as binary HTTP, and the exchange that seals its response.

    Raises:
        UnknownKeyError: No key has the request's id.
        EncapsulationError: The request cannot be opened.
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


KEYS_TYPE = "application/ohttp-keys"
MAX_KEY_ID = 255
_OWN_SUITE = (KDF_ID, AEAD_ID)


class KeyConfig(NamedTuple):
    """A collector's public key, with its id and cipher suites. All of it is public."""

    key_id: int  # 0 to 255; sent unencrypted in each request
    public_key: bytes  # X25519, 32 bytes
    suites: tuple[tuple[int, int], ...] = (_OWN_SUITE,)  # the accepted pairs of KDF and AEAD


def encode_key_config(config: KeyConfig) -> bytes:
    """Encode one key configuration (RFC 9458, section 3.1)."""
    suites = b"".join(_two(kdf) + _two(aead) for kdf, aead in config.suites)
    return bytes([config.key_id]) + _two(KEM_ID) + config.public_key + _two(len(suites)) + suites


def encode_keys(configs: Iterable[KeyConfig]) -> bytes:
    """Encode key configurations as `application/ohttp-keys`, the preferred configuration first."""
    encoded = map(encode_key_config, configs)
    return b"".join(_two(len(config)) + config for config in encoded)


def decode_keys(data: bytes) -> list[KeyConfig]:
    """Return the usable key configurations of `application/ohttp-keys`, in order.

    Raises EncapsulationError if no configuration is usable, or if the bytes are malformed.
    """
    usable = [config for part in _parts(data) if (config := _decode(part)) is not None]
    if not usable:
        raise EncapsulationError(
            f"{len(data)} bytes contain no key for X25519, HKDF-SHA256 and AES-128-GCM; an "
            "operator writes the file with rappor ohttp-keys create -o FILE"
        )
    return usable


def _parts(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if len(data) < at + 2 or len(data) < end:
            raise EncapsulationError(f"{len(data)} bytes are not {KEYS_TYPE}: they end early")
        yield data[at + 2 : end]
        at = end


def _decode(part: bytes) -> KeyConfig | None:
    if part[1:3] != _two(KEM_ID):
        return None
    public_key, rest = part[3 : 3 + PUBLIC_KEY_BYTES], part[3 + PUBLIC_KEY_BYTES :]
    size = int.from_bytes(rest[:2], "big")
    if len(rest) < 2 or size % 4 or len(rest) != 2 + size:
        raise EncapsulationError("a key configuration whose length does not fit its suites")
    numbers = [int.from_bytes(rest[at : at + 2], "big") for at in range(2, len(rest), 2)]
    suites = tuple(zip(numbers[::2], numbers[1::2], strict=True))
    return KeyConfig(part[0], public_key, suites) if _OWN_SUITE in suites else None


def _two(number: int) -> bytes:
    return number.to_bytes(2, "big")
