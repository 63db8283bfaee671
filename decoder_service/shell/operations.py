"""What the operations of every feature work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from decoder_service.shell.clock import Clock
from decoder_service.shell.database import ServiceDatabase
from decoder_service.shell.settings import ServiceSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Operations on a database, at the times of a clock."""

    database: ServiceDatabase
    clock: Clock
    random_bytes: Callable[[int], bytes]
    settings: ServiceSettings

    def now(self) -> float:
        """The present time, in seconds since 1970."""
        return self.clock().timestamp()

    def new_id(self) -> str:
        """The id of a new row."""
        return self.random_bytes(8).hex()
