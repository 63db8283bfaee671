"""Key configurations (RFC 9458, section 3): the public keys that travel with an app."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rappor_core.ohttp.errors import EncapsulationError
from rappor_core.ohttp.hpke import AEAD_ID, KDF_ID, KEM_ID, PUBLIC_KEY_BYTES

KEYS_TYPE = "application/ohttp-keys"
MAX_KEY_ID = 255
_OWN_SUITE = (KDF_ID, AEAD_ID)


class KeyConfig(NamedTuple):
    """A public key of a collector. Nothing in it is private.

    key_id: 0 to 255, in clear in each request.  public_key: of X25519, 32 bytes.
    suites: pairs of KDF and AEAD that the holder takes.
    """

    key_id: int
    public_key: bytes
    suites: tuple[tuple[int, int], ...] = (_OWN_SUITE,)


def encode_key_config(config: KeyConfig) -> bytes:
    """The bytes of one configuration (RFC 9458, section 3.1)."""
    suites = b"".join(_two(kdf) + _two(aead) for kdf, aead in config.suites)
    return bytes([config.key_id]) + _two(KEM_ID) + config.public_key + _two(len(suites)) + suites


def encode_keys(configs: Iterable[KeyConfig]) -> bytes:
    """The form `application/ohttp-keys`: configurations, the preferred one first."""
    encoded = map(encode_key_config, configs)
    return b"".join(_two(len(one)) + one for one in encoded)


def decode_keys(data: bytes) -> list[KeyConfig]:
    """The configurations of `application/ohttp-keys` that can be used here, in their order.

    Raises EncapsulationError where there is none, or where the bytes are not of this form.
    """
    found = [config for part in _parts(data) if (config := _decode(part)) is not None]
    if not found:
        raise EncapsulationError(
            f"{len(data)} bytes hold no key for X25519, HKDF-SHA256 and AES-128-GCM; an operator "
            "writes the file with rappor ohttp-keys create -o FILE"
        )
    return found


def _parts(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if len(data) < at + 2 or len(data) < end:
            raise EncapsulationError(f"{len(data)} bytes are not {KEYS_TYPE}: they end early")
        yield data[at + 2 : end]
        at = end


def _decode(part: bytes) -> KeyConfig | None:
    """None for a configuration of another suite."""
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
