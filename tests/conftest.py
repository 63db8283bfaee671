"""Settings of all tests: property tests draw the same examples at each run, and a process makes
the tables of a database by Alembic once.

`RAPPOR_FUZZ=1 pytest` draws fresh ones, to look for what the fixed ones missed. Libraries take one
thread each: several test processes share the cores, and threads that wait for one another spin.
"""

import os
import sys

import pytest
from hypothesis import settings

for library in ("OMP", "OPENBLAS", "NUMBA"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # read when the library is imported

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=1000)
settings.load_profile("fuzz" if os.environ.get("RAPPOR_FUZZ") else "repeatable")


@pytest.fixture(scope="session", autouse=True)
def _repeated_upgrade() -> None:
    """Where tests that were collected make databases, they make them fast."""
    if schema := sys.modules.get("rappor_server.schema"):
        from tests.migrated import RepeatedUpgrade

        schema._upgrade = RepeatedUpgrade(schema._upgrade)  # type: ignore[attr-defined]


@pytest.fixture
def with_alembic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every database that this test makes is made by Alembic."""
    from rappor_server import schema

    if own := getattr(schema._upgrade, "upgrade", None):
        monkeypatch.setattr(schema, "_upgrade", own)
