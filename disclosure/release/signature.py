"""Ed25519 signatures of manifests (RFC 8032), by the optional library `cryptography`.

A private key is read from a file of mode 0600 and never appears in a message."""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from disclosure.errors import ReleaseError, VerificationError
from rappor_core.errors import file_problem

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

PRIVATE_NAME = "release-key.pem"
PUBLIC_NAME = "release-key.pub.pem"
_CONTEXT = b"rappor-release manifest v1\n"  # no other document can be mistaken for a manifest


def make_keys(folder: Path) -> tuple[Path, Path, str]:
    """Create a key pair, and the folder (mode 0700) if needed. Nothing is overwritten.

    Returns:
        The files of the private key (mode 0600) and the public key, and the public key's id.

    Raises:
        ReleaseError: A file exists or cannot be written, or the library is missing.
    """
    serialization, ed25519 = _library()
    private = ed25519.Ed25519PrivateKey.generate()
    secret = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    paths = folder / PRIVATE_NAME, folder / PUBLIC_NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ReleaseError(f"{folder}: {file_problem(error)}") from None
    _write_new(paths[0], secret, 0o600)
    try:
        _write_new(paths[1], public, 0o644)
    except ReleaseError:
        paths[0].unlink()
        raise
    return (*paths, key_id(private.public_key()))


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key. Raises ReleaseError if it is invalid or if other users may read it."""
    serialization, ed25519 = _library()
    try:
        mode, text = stat.S_IMODE(path.stat().st_mode), path.read_bytes()
    except OSError as error:
        raise ReleaseError(f"{path}: {file_problem(error)}") from None
    if b"PRIVATE KEY" not in text:
        raise ReleaseError(f"{path}: not a private key; `rappor release keygen` makes one")
    if os.name == "posix" and mode & 0o077:
        raise ReleaseError(
            f"{path}: others may read this private key (mode {mode:04o}); chmod 600 {path}"
        )
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError):  # the messages of these errors may quote the file
        raise ReleaseError(f"{path}: not a private key in PEM without a passphrase") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise ReleaseError(f"{path}: not an Ed25519 key")
    return cast("Ed25519PrivateKey", key)


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key. Raises ReleaseError if invalid."""
    serialization, ed25519 = _library()
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise ReleaseError(f"{path}: {file_problem(error)}") from None
    except (ValueError, TypeError):
        raise ReleaseError(f"{path}: not a public key in PEM") from None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise ReleaseError(f"{path}: not an Ed25519 key")
    return cast("Ed25519PublicKey", key)


def key_id(public: Ed25519PublicKey) -> str:
    """Return the SHA-256 digest of the public key's 32 bytes in hexadecimal."""
    return sha256(public.public_bytes_raw()).hexdigest()


def sign_manifest(private: Ed25519PrivateKey, text: bytes) -> bytes:
    """Return the signature of a manifest's bytes in base64."""
    return base64.b64encode(private.sign(_CONTEXT + text))


def load_signer(path: Path | None) -> tuple[Callable[[bytes], bytes] | None, str]:
    """Read a private key; return a function that signs a manifest, and the public key's id.

    If there is no key, they are None and "". Raises ReleaseError as `load_private_key` does."""
    if path is None:
        return None, ""
    private = load_private_key(path)
    return partial(sign_manifest, private), key_id(private.public_key())


def check_signature(keys: Sequence[Ed25519PublicKey], text: bytes, signature: bytes) -> None:
    """Raise VerificationError unless one of the keys has signed these bytes."""
    from cryptography.exceptions import InvalidSignature  # an optional library

    for public in keys:
        with suppress(InvalidSignature, binascii.Error, ValueError):
            public.verify(base64.b64decode(signature.strip(), validate=True), _CONTEXT + text)
            return
    raise VerificationError(
        "the manifest is not signed by any of the given keys: it was changed, or someone else "
        "signed it"
    )


def _library() -> tuple[Any, Any]:
    """Return the used modules of `cryptography`. Raises ReleaseError if it is missing."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise ReleaseError(
            "signatures need the library cryptography: pip install 'rappor-telemetry[signing]'"
        ) from None
    return serialization, ed25519


def _write_new(path: Path, content: bytes, mode: int) -> None:
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(content)
            path.chmod(mode)  # regardless of the umask
        except OSError:
            path.unlink(missing_ok=True)  # a partial key file would block the next attempt
            raise
    except FileExistsError:
        raise ReleaseError(f"{path} exists; keys are never overwritten") from None
    except OSError as error:
        raise ReleaseError(f"{path}: {file_problem(error)}") from None
