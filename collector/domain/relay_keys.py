"""The relay keys: a file of private keys, outside the database, for devices behind a relay.

So a copy of the database cannot decrypt recorded requests. The file contains at most MAX_KEYS keys.
Only the number of a retired key remains, so that requests recorded for it can never be decrypted.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from time import monotonic
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rappor_core.ohttp.encapsulation import MAX_KEY_ID, KeyConfig
from rappor_core.whole_files import replacing
from rappor_server.errors import NotFoundError, RequestError, SettingsError

MAX_KEYS = 8
RELOAD_SECONDS = 1.0  # between two checks whether the file has changed
_OTHERS = 0o007  # file mode bits of all other users


class RelayKey(BaseModel):
    """A key pair. `private` is secret, 32 bytes; None once the key is retired."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="hex", val_json_bytes="hex", strict=True
    )

    key_id: int = Field(ge=0, le=MAX_KEY_ID)
    created: date
    private: bytes | None = Field(min_length=32, max_length=32, repr=False)
    retired: date | None

    @property
    def config(self) -> KeyConfig:
        """Return the public part, which ships with an app. Raises NotFoundError if retired."""
        if self.private is None:
            raise NotFoundError(f"key {self.key_id} was retired on {self.retired}")
        public = X25519PrivateKey.from_private_bytes(self.private).public_key()
        return KeyConfig(self.key_id, public.public_bytes_raw())


class _KeyFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: Literal[1]
    keys: tuple[RelayKey, ...]


def read_relay_keys(file: Path) -> tuple[RelayKey, ...]:
    """Return the keys in a file, oldest first. Raises SettingsError, without quoting them."""
    try:
        mode, text = file.stat().st_mode, file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise SettingsError(f"{file}: {why}; create it with rappor ohttp-keys create") from None
    if os.name == "posix" and mode & _OTHERS:
        raise SettingsError(f"{file}: everyone on this machine can read it: chmod o= {file}")
    try:
        rows = _KeyFile.model_validate_json(text).keys
    except ValidationError:
        rows = ()
    if not rows or len({row.key_id for row in rows}) != len(rows):
        raise SettingsError(f"{file} is not a file that rappor ohttp-keys create wrote")
    if sum(row.private is not None for row in rows) > MAX_KEYS:
        raise SettingsError(f"{file} has more than {MAX_KEYS} keys; retire those of old releases")
    return rows


def create_relay_key(file: Path, today: date) -> RelayKey:
    """Add a new key to a file, or start a file. Raises RequestError if the file is full."""
    rows = read_relay_keys(file) if file.exists() else ()
    key_ids = {row.key_id for row in rows if row.private is not None}
    if len(key_ids) >= MAX_KEYS:
        raise RequestError(
            f"{file} has {MAX_KEYS} keys, and each one divides the devices: use "
            "rappor ohttp-keys retire for one that no release uses any more"
        )
    key_id = rows[-1].key_id if rows else 0
    while (key_id := key_id % MAX_KEY_ID + 1) in key_ids:
        pass
    private = X25519PrivateKey.generate().private_bytes_raw()
    key = RelayKey(key_id=key_id, created=today, private=private, retired=None)
    _write(file, [*(row for row in rows if row.key_id != key_id), key])
    return key


def retire_relay_keys(file: Path, chosen: Callable[[RelayKey], bool], today: date) -> list[int]:
    """Delete the private part of the chosen keys permanently; return their numbers.

    Raises NotFoundError if no key is chosen, and RequestError if no key would be left.
    """
    rows = read_relay_keys(file)
    gone = [row.key_id for row in rows if row.private is not None and chosen(row)]
    if not gone:
        raise NotFoundError(f"{file} has no such key that is not retired already")
    if all(row.private is None or row.key_id in gone for row in rows):
        raise RequestError(
            "no key would be left, and no device could send: create one and ship it first"
        )
    end = {"private": None, "retired": today}
    _write(file, [row.model_copy(update=end) if row.key_id in gone else row for row in rows])
    return gone


class RelayKeys:
    """The private keys in memory, which are read again when their file changes.

    While the file is unreadable, the last keys stay valid. Used by one event loop.
    """

    def __init__(self, file: Path, *, seconds: Callable[[], float] = monotonic) -> None:
        """Read the file; `seconds` is a clock. Raises SettingsError if it is invalid."""
        self._file = file
        self._seconds = seconds
        self._looked = seconds()
        self._stamp = _stamp(file)
        self.rows = read_relay_keys(file)
        self._private = _private(self.rows)
        self.trouble = ""

    def private_keys(self) -> Mapping[int, X25519PrivateKey]:
        """Return the valid private keys, by number."""
        if self._seconds() - self._looked >= RELOAD_SECONDS:
            self._looked, stamp = self._seconds(), _stamp(self._file)
            if stamp != self._stamp:
                try:
                    self.rows = read_relay_keys(self._file)
                    self._private = _private(self.rows)
                    self._stamp, self.trouble = stamp, ""
                except SettingsError as error:
                    self.trouble = str(error)
        return self._private


def _private(rows: tuple[RelayKey, ...]) -> dict[int, X25519PrivateKey]:
    return {
        row.key_id: X25519PrivateKey.from_private_bytes(row.private)
        for row in rows
        if row.private is not None
    }


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _write(file: Path, rows: Sequence[RelayKey]) -> None:
    """Replace the file in one step; only its owner can read it."""
    text = _KeyFile(version=1, keys=tuple(rows)).model_dump_json(indent=1)
    with replacing(file) as part:
        descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
