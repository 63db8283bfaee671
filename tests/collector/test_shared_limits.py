"""Limits that hosts share through PostgreSQL: one rate for all, and no address in the database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path

import pytest
from sqlalchemy import text

from collector.domain.shared_limits import SharedLimits, Taken
from collector.errors import SettingsError
from collector.settings import load_settings
from collector.store.database import back_up
from rappor_server.limits import Names, SharedRateLimit
from tests.collector.support import Bench, Clock, Server, make_bench, make_metric, running_server
from tests.waiting import until

METRIC = make_metric()
SECRET = "a secret of forty characters, not stored"
RATE = 20.0  # a second: bursts of 200


class Seconds:
    """A clock that is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def url(new_postgresql: Callable[[], str]) -> str:
    return new_postgresql()


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    made = make_bench(url, Clock())
    yield made
    made.database.close()


class Process:
    """One of several that share a rate; its own clock stands still."""

    def __init__(self, bench: Bench, secret: str = SECRET, hours: int = 0) -> None:
        names = Names(secret.encode(), seconds=lambda: 1.8e9 + 3_600 * hours)
        self.clock = Seconds()
        self.limit = SharedRateLimit(1, RATE, names, seconds=self.clock)
        self._shared = SharedLimits([self.limit], bench.database)

    def share(self) -> None:
        async def at_once(act: Callable[[Taken], Taken], taken: Taken) -> Taken:
            return act(taken)

        asyncio.run(self._shared.share(at_once))

    def pass_many(self, name: str, many: int) -> int:
        return sum(self.limit.admits(name) for _ in range(many))


def names_stored(bench: Bench) -> set[bytes]:
    with bench.database.read() as connection:
        return set(map(bytes, connection.execute(text("SELECT name FROM rate_limits")).scalars()))


def test_what_was_taken_unknowing_is_paid_back(bench: Bench) -> None:
    processes = [Process(bench) for _ in range(4)]
    assert [one.pass_many("key", 300) for one in processes] == [200] * 4
    for one in [*processes, *processes]:
        one.share()
    for one in processes:
        one.clock.now += 15.0  # 4 x 200 were taken: 40 s to refill, less what has passed
        assert one.pass_many("key", 1) == 0
        one.clock.now += 16.0
        assert one.pass_many("key", 1) == 1


def test_databases_tell_no_address_backups_nothing(
    bench: Bench, url: str, tmp_path: Path, with_pg_programs: None
) -> None:
    """The attack: all addresses of a network are tried against what is stored."""
    network = [f"192.0.2.{last}" for last in range(256)]
    process = Process(bench)
    for address in network[:20]:
        process.limit.admits(address)
    process.share()
    stored = names_stored(bench)
    assert len(stored) == 20

    def found(names: Names) -> int:
        return sum(bytes([1]) + names.hash_of(address) in stored for address in network)

    at = 1.8e9
    assert found(Names(SECRET.encode(), seconds=lambda: at)) == 20  # the attack itself works
    assert found(Names(b"", seconds=lambda: at)) == 0
    assert found(Names(SECRET.encode(), seconds=lambda: at + 3_600)) == 0  # an hour later
    plain = {blake2b(address.encode(), digest_size=15).digest() for address in network}
    assert not {one[1:] for one in stored} & plain
    for _ in range(2):  # the second with what there is later
        copy = tmp_path / f"{time.monotonic()}.backup"
        back_up(url, copy)
        held = copy.read_bytes()
        assert not any(one in held or one.hex().encode() in held for one in stored)
    with bench.database.read() as connection:
        kind = "SELECT relpersistence FROM pg_class WHERE relname = 'rate_limits'"
        assert connection.execute(text(kind)).scalar_one() == "u"  # in no write-ahead log


def test_two_hosts_share_key_and_address_rates(url: str, clock: Clock) -> None:
    """Over HTTP: what the first let through, the second refuses two seconds later."""
    shared = {"database": url, "rate_limit_store": "database", "rate_limit_secret": SECRET}
    with (
        running_server([METRIC], clock, **shared, max_requests_per_address=2) as one,
        running_server(None, clock, **shared, max_requests_per_address=2) as other,
    ):
        assert _sent(one, 60).count(200) >= 20
        until(lambda: 429 in _sent(other, 1), every=0.3)


def _sent(server: Server, many: int) -> list[int]:
    body = server.sender.body(server.sender.reports(METRIC, 1))
    return [server.post_body(body).status_code for _ in range(many)]


def test_a_secret_is_asked_for_and_never_repeated(sqlite_url: str) -> None:
    postgresql = "postgresql+psycopg://a@b/c"
    with pytest.raises(SettingsError, match="32 or more random characters"):
        load_settings(database=postgresql, rate_limit_store="database")
    with pytest.raises(SettingsError) as refused:
        load_settings(
            database=postgresql, rate_limit_store="database", rate_limit_secret="too-short"
        )
    assert "too-short" not in str(refused.value)
    with pytest.raises(SettingsError, match="one process"):
        load_settings(database=sqlite_url, rate_limit_store="database", rate_limit_secret=SECRET)
    settings = load_settings(
        database=postgresql, rate_limit_store="database", rate_limit_secret=SECRET
    )
    assert SECRET not in repr(settings)
