"""Fixtures of the attacks: a collector of this process, by a clock that stands still."""

from tests.collector.conftest import clock, serving, sqlite_url  # noqa: F401 - fixtures
