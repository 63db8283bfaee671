"""What the operations of every feature work with: the clock, forms of times, the version."""

import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

from decoder_service.shell.database import ServiceDatabase
from decoder_service.shell.settings import ServiceSettings

LIBRARIES = ("rappor-telemetry", "numpy", "scipy", "scikit-learn", "numba", "pyarrow")
DAY_SECONDS = 86_400.0
Clock: TypeAlias = Callable[[], datetime]


def utc_now() -> datetime:
    """The time of this machine, UTC."""
    return datetime.now(UTC)


def text_of(seconds: float) -> str:
    """Format seconds since 1970 as ISO 8601, UTC, to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown(row: object, names: str) -> dict[str, Any]:
    """Some properties of a row as JSON. All its floats are times.

    names: of the properties, separated by blanks.
    """
    values = {name: getattr(row, name) for name in names.split()}
    return {n: text_of(one) if isinstance(one, float) else one for n, one in values.items()}


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


def decoder_version() -> str:
    """Versions of all on which the bytes of results depend; it is part of their keys."""
    found = [f"{name} {_version(name)}" for name in LIBRARIES]
    return ", ".join([*found, f"python {platform.python_version()}"])


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "from source"
