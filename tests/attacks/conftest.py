"""Fixtures of the attacks: a collector of this process, and one in memory for clients."""

from tests.client.conftest import collector, metrics  # noqa: F401 - fixtures
from tests.collector.conftest import clock, serving, sqlite_url  # noqa: F401 - fixtures
