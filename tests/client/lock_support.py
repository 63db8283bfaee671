"""A state whose write lock another process has, and waiting until nothing waits for it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from client_sdk import Client, Delivery
from tests.waiting import until

QUIET = Delivery(mean_delay=86_400.0)
NOISE = 0.25  # seconds that other threads of a busy machine may add to one wait


@contextmanager
def held(folder: Path) -> Iterator[sqlite3.Connection]:
    """The write lock, in the hands of another process."""
    database = sqlite3.connect(folder / "state.sqlite", isolation_level=None, timeout=20)
    database.execute("BEGIN IMMEDIATE")
    try:
        yield database
    finally:
        database.close()


def holds(folder: Path, secret: bytes) -> bool:
    """Whether a file has either half of a secret."""
    half = len(secret) // 2
    texts = [path.read_bytes() for path in folder.iterdir()]
    return any(part in text for part in (secret[:half], secret[half:]) for text in texts)


def until_nothing_is_held(client: Client) -> dict[str, Any]:
    until(lambda: client.inspect()["held"] == 0)
    return client.inspect()
