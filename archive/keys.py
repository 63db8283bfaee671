"""The key of an archive: 32 random bytes in a file of their owner alone.

Each Parquet file has a key of its own, HMAC-SHA256 of the master key over the file's name (the
expansion of HKDF, RFC 5869, with one block), so that no two files share a key and its nonces.
Entries of the manifest are authenticated by a third use of the same kind. Without a key, an entry
holds a plain digest, which tells damage and not intent.
"""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes

from archive.errors import ArchiveKeyError

KEY_BYTES = 32
_FILE, _ENTRY, _NAME = (
    b"rappor archive file\x00",
    b"rappor archive entry\x00",
    b"rappor archive key",
)


@dataclass(frozen=True, slots=True)
class ArchiveKey:
    """The key of an archive. master: 32 secret bytes, or None for an archive in clear."""

    master: bytes | None = field(repr=False)

    @property
    def name(self) -> str:
        """A fingerprint that distinguishes keys, 16 hex digits; empty in clear."""
        return self._derive(_NAME)[:8].hex() if self.master is not None else ""

    def file_key(self, file_name: str) -> bytes:
        """The AES-256 key of one Parquet file."""
        return self._derive(_FILE + file_name.encode())

    def seal(self, content: bytes) -> str:
        """An HMAC that proves who wrote an entry; in clear, a digest."""
        if self.master is None:
            return sha256(_ENTRY + content).hexdigest()
        return hmac.new(self._derive(_ENTRY), content, sha256).hexdigest()

    def _derive(self, info: bytes) -> bytes:
        if self.master is None:
            raise ArchiveKeyError("this archive is encrypted; name its key with --archive-key FILE")
        return hmac.new(self.master, info + b"\x01", sha256).digest()


IN_CLEAR = ArchiveKey(None)


def make_key(path: Path) -> ArchiveKey:
    """Write a new key into a new file. Raises ArchiveKeyError where the file is there already."""
    master = token_bytes(KEY_BYTES)
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise ArchiveKeyError(f"{path}: there is a file already; a key is never replaced") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(master.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    return ArchiveKey(master)


def load_key(path: Path | None) -> ArchiveKey:
    """Read a key file; None is an archive in clear. Raises ArchiveKeyError."""
    if path is None:
        return IN_CLEAR
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="ascii").strip()
        master = bytes.fromhex(text)
    except (OSError, ValueError):
        raise ArchiveKeyError(
            f"{path}: no key can be read there; it is a file of 64 hex digits, which "
            "rappor archive key FILE makes"
        ) from None
    if len(master) != KEY_BYTES:
        raise ArchiveKeyError(f"{path}: {len(master)} bytes; a key has {KEY_BYTES}")
    if os.name == "posix" and mode & 0o077:
        raise ArchiveKeyError(f"{path}: others may read this key; chmod 600 {path}")
    return ArchiveKey(master)
