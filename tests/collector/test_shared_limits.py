"""Limits that hosts share through PostgreSQL: one rate for all, and no address in the database."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path

import pytest
from sqlalchemy import text

from collector.domain.shared_limits import SharedLimits, Taken
from collector.errors import SettingsError, StorageError
from collector.settings import load_settings
from collector.store.database import back_up
from rappor_server.limits import MOST_SHARED, Names, SharedRateLimit
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


def test_without_the_database_nothing_is_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Process(bench), Process(bench)
    one.pass_many("key", 150)
    with monkeypatch.context() as patched:
        patched.setattr("collector.domain.shared_limits.share", _fail)
        with pytest.raises(StorageError):
            one.share()
    assert one.pass_many("key", 100) == 50
    one.share()
    other.share()
    assert other.pass_many("key", 100) < 60


def _fail(*_: object) -> Taken:
    raise StorageError("the database is away")


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


def test_a_flood_does_not_grow_the_table(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more names than are ever read, those that are full soonest go; who took most stays."""
    monkeypatch.setattr("collector.store.rate_limits.MOST_READ", 500)
    heavy = Process(bench)
    heavy.pass_many("heavy", 100)
    heavy.share()
    for number in range(5):
        process = Process(bench)
        for address in range(300):
            process.pass_many(f"{number} {address}", 10)  # full again in half a second
        process.share()
    assert len(names_stored(bench)) <= 500
    other = Process(bench)
    other.share()
    assert other.pass_many("heavy", 200) < 200


def test_a_database_clock_set_back_blocks_nobody(bench: Bench) -> None:
    """What was written an hour later than now is forgotten, not waited for."""
    process = Process(bench)
    process.pass_many("key", 200)
    process.share()
    with bench.database.change() as connection:
        later = "UPDATE rate_limits SET full_at = full_at + 3600, changed_at = changed_at + 3600"
        connection.execute(text(later))
    process.share()
    assert names_stored(bench) == set()
    process.clock.now += 20.0
    assert process.pass_many("key", 1) == 1
    process.share()
    other = Process(bench)
    other.share()
    assert other.pass_many("key", 100) == 100


def test_who_kept_the_rate_is_not_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes at half the rate: what was taken has long been refilled."""
    process = Process(bench)
    with monkeypatch.context() as patched:
        patched.setattr("collector.domain.shared_limits.share", _fail)
        for _ in range(600):
            process.clock.now += 1.0
            assert process.pass_many("key", int(RATE / 2)) == RATE / 2
            with pytest.raises(StorageError):
                process.share()
    process.share()
    process.clock.now += 1.0
    assert process.pass_many("key", 10) == 10


def test_processes_that_share_at_once_lose_nothing(url: str) -> None:
    """Eight threads, each with connections of its own, the same hundred names in any order."""
    benches = [make_bench(url, Clock()) for _ in range(8)]
    names = [f"key {number}" for number in range(100)]

    def act(bench: Bench, seed: int) -> None:
        process = Process(bench)
        for turn in range(5):
            for name in random.Random(seed + turn).sample(names, 100):
                assert process.pass_many(name, 20) == 20
            process.share()
            process.clock.now += 1_000  # its own bucket is full again

    threads = [
        threading.Thread(target=act, args=pair) for pair in zip(benches, range(8), strict=True)
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with benches[0].database.read() as connection:
        rows = "SELECT full_at - extract(epoch FROM now()) FROM rate_limits"
        waits = connection.execute(text(rows)).scalars().all()
    elapsed = time.monotonic() - began
    assert len(waits) == 100
    for wait in waits:  # 8 x 5 x 20 units at 20 a second: 40 s, less what has passed
        assert 40 - elapsed - 1 <= float(wait) <= 40
    for bench in benches:
        bench.database.close()


def test_what_is_taken_meanwhile_counts_too(bench: Bench) -> None:
    process = Process(bench)
    process.pass_many("key", 100)
    taken = process.limit.take_out()
    process.pass_many("key", 100)
    process.limit.set_levels(dict(taken))
    assert process.pass_many("key", 10) == 0


def test_flooding_addresses_share_the_largest_takers(bench: Bench) -> None:
    process = Process(bench)
    for number in range(MOST_SHARED + 500):
        process.limit.admits(f"address {number}")
    process.pass_many("heavy", 50)
    taken = process.limit.take_out()
    assert len(taken) == MOST_SHARED
    assert max(taken.values()) == pytest.approx(50 / RATE)
    assert process.limit.take_out() == {}
