"""A second, small file beside the state, by which a missing or rolled-back state is noticed.

It holds how often the state has changed in what the guarantee hangs on, and a check of the secret.
It is written after each such change was committed, so the state is never behind it, unless somebody
put an older one in its place. A restored copy of the whole directory looks right to both, and
cannot be noticed; `docs/privacy.md` says so.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from typing import NamedTuple

WITNESS_VERSION = 1


class Seen(NamedTuple):
    """The state's mark as last written. check: hex of `key_derivation.secret_check`, "" without
    a secret."""

    generation: int
    check: str


class RollbackGuard:
    """The file. path: in the state directory."""

    def __init__(self, path: str) -> None:
        """Nothing is read yet."""
        self._path = path
        self._last: Seen | None = None

    def exists(self) -> bool:
        """Whether the guard's file exists, legible or not; if so, there was a state once."""
        return os.path.exists(self._path)

    def read(self) -> Seen | None:
        """Read the mark that was written last; None where there is no file, or nothing legible
        in it."""
        try:
            with open(self._path, "rb") as file:
                fields = json.loads(file.read())
            if fields["version"] != WITNESS_VERSION:
                return None
            self._last = Seen(int(fields["generation"]), str(fields["check"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
            return None
        return self._last

    def note(self, seen: Seen) -> None:
        """Write a mark, atomically, unless the file holds it already. Raises OSError."""
        if seen == (self._last or self.read()):
            return
        text = json.dumps({"version": WITNESS_VERSION, **seen._asdict()})
        draft = f"{self._path}.{os.getpid()}.{threading.get_ident()}"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            try:
                os.write(handle, text.encode())
                os.fsync(handle)
            finally:
                os.close(handle)
            os.replace(draft, self._path)
        except OSError:
            with suppress(OSError):
                os.unlink(draft)
            raise
        self._last = seen
