"""Hybrid public key encryption in base mode (RFC 9180): X25519, HKDF-SHA256, AES-128-GCM.

A context seals one message. The primitives come from `cryptography`. Its HPKE cannot export the
secret with which Oblivious HTTP encrypts responses, so this module implements the key schedule.
"""

import hmac
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from rappor_core.errors import EncapsulationError

KEM_ID, KDF_ID, AEAD_ID = 0x0020, 0x0001, 0x0001
KEY_BYTES, NONCE_BYTES, TAG_BYTES = 16, 12, 16
PUBLIC_KEY_BYTES = 32
_HASH_BYTES = 32
_VERSION = b"HPKE-v1"
_KEM = b"KEM" + KEM_ID.to_bytes(2, "big")
_SUITE = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (KEM_ID, KDF_ID, AEAD_ID))


class HpkeContext(NamedTuple):
    """The secrets that sender and receiver derive for one message (RFC 9180, section 5.1)."""

    key: bytes  # the AES-128-GCM key, 16 bytes
    nonce: bytes  # the nonce for the single message, 12 bytes
    exporter_secret: bytes

    def seal(self, plaintext: bytes, associated: bytes = b"") -> bytes:
        """Encrypt the message, which adds TAG_BYTES; `associated` is only authenticated."""
        return aead_seal(self.key, self.nonce, plaintext, associated)

    def open(self, ciphertext: bytes, associated: bytes = b"") -> bytes:
        """Decrypt the message; the inverse of `seal`. Raises EncapsulationError on failure."""
        return aead_open(self.key, self.nonce, ciphertext, associated)

    def export(self, label: bytes, length: int) -> bytes:
        """Derive a secret of `length` bytes that both sides share (RFC 9180, section 5.3)."""
        return _labeled_expand(_SUITE, self.exporter_secret, b"sec", label, length)


def set_up_sender(
    public_key: bytes, info: bytes, ephemeral: X25519PrivateKey
) -> tuple[bytes, HpkeContext]:
    """Return the sender's public value (32 bytes) and the context for a recipient's public key.

    `ephemeral` is a new key pair, used for this message only. Raises EncapsulationError if no
    secret can be derived from the public key.
    """
    sent = ephemeral.public_key().public_bytes_raw()
    secret = _agree(ephemeral, public_key)
    return sent, _key_schedule(_shared_secret(secret, sent + public_key), info)


def set_up_receiver(sent: bytes, private_key: X25519PrivateKey, info: bytes) -> HpkeContext:
    """Return the receiver's context. Raises EncapsulationError if `sent` is invalid."""
    public = private_key.public_key().public_bytes_raw()
    return _key_schedule(_shared_secret(_agree(private_key, sent), sent + public), info)


def extract(salt: bytes, secret: bytes) -> bytes:
    """Compute HKDF-Extract with SHA-256 (RFC 5869, section 2.2)."""
    return hmac.digest(salt, secret, "sha256")


def expand(pseudorandom_key: bytes, info: bytes, length: int) -> bytes:
    """Compute HKDF-Expand with SHA-256 (RFC 5869, section 2.3)."""
    return HKDFExpand(SHA256(), length, info).derive(pseudorandom_key)


def aead_seal(key: bytes, nonce: bytes, plaintext: bytes, associated: bytes = b"") -> bytes:
    """Encrypt with AES-128-GCM; return the ciphertext with its tag."""
    return AESGCM(key).encrypt(nonce, plaintext, associated)


def aead_open(key: bytes, nonce: bytes, ciphertext: bytes, associated: bytes = b"") -> bytes:
    """Decrypt the output of `aead_seal`. Raises EncapsulationError on failure."""
    try:
        return AESGCM(key).decrypt(nonce, ciphertext, associated)
    except (InvalidTag, ValueError):  # ValueError if shorter than a tag
        raise EncapsulationError("the message cannot be decrypted") from None


def _agree(private_key: X25519PrivateKey, public_key: bytes) -> bytes:
    try:
        return private_key.exchange(X25519PublicKey.from_public_bytes(public_key))
    except ValueError:  # not 32 bytes, or a point of small order
        raise EncapsulationError("no secret can be agreed with this public key") from None


def _shared_secret(agreed: bytes, kem_context: bytes) -> bytes:
    prk = _labeled_extract(_KEM, b"", b"eae_prk", agreed)
    return _labeled_expand(_KEM, prk, b"shared_secret", kem_context, _HASH_BYTES)


def _key_schedule(shared_secret: bytes, info: bytes) -> HpkeContext:
    """Compute KeySchedule in base mode, without a pre-shared key (RFC 9180, section 5.1)."""
    no_psk = _labeled_extract(_SUITE, b"", b"psk_id_hash", b"")
    context = b"\0" + no_psk + _labeled_extract(_SUITE, b"", b"info_hash", info)
    secret = _labeled_extract(_SUITE, shared_secret, b"secret", b"")
    return HpkeContext(
        _labeled_expand(_SUITE, secret, b"key", context, KEY_BYTES),
        _labeled_expand(_SUITE, secret, b"base_nonce", context, NONCE_BYTES),
        _labeled_expand(_SUITE, secret, b"exp", context, _HASH_BYTES),
    )


def _labeled_extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    return extract(salt, _VERSION + suite + label + secret)


def _labeled_expand(suite: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    return expand(prk, length.to_bytes(2, "big") + _VERSION + suite + label + info, length)
