"""What a client does apart from the bits of its reports: randomness, requests, files, output.

Lives with the same randomness must show the same but for those bits.
"""

import hashlib
import os
import platform
import socket
import sqlite3
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from client_sdk import Client, Delivery, Encoder
from client_sdk.delivery.messages import read_body
from client_sdk.randomization.key_derivation import new_secret, system_randomness
from client_sdk.testing import MemoryCollector
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.conftest import Clock

DAY = date(2026, 11, 21)
VALUES = {"homepage": ("value-3e1f", "value-9a77"), "theme": ("dark", "light"),
          "crashed": (True, False)}  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
FILES = {"open": 0, "os.mkdir": 0, "os.rename": 1, "os.link": 1, "os.symlink": 1,
         "sqlite3.connect": 0}  # events, and which argument is the file  # fmt: skip
SPOKEN = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "syslog.")
OWN = ("socket.__new__", "socket.connect", "socket.getaddrinfo")  # looked at below
COLLECTOR = ("socket.bind", "socket.gethostbyaddr")  # of the collector of the test
MEANT = {("entries", "digest"), ("entries", "id"), ("queue", "entry"), ("queue", "bits"),
         ("batches", "body")}  # depend on the values  # fmt: skip


class Drawn:
    """Bytes of a seed; each line that asks has its own, so that threads change nothing."""

    def __init__(self, seed: int) -> None:
        self.seed, self.counts, self.all = seed, Counter[str](), set[bytes]()

    def __call__(self, num_bytes: int) -> bytes:
        lines, frame = [str(self.seed)], sys._getframe(1)
        for _ in range(3):
            lines.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
            frame = frame.f_back or frame
        self.counts[key] = self.counts[key := " ".join(lines)] + 1
        found = hashlib.shake_256(f"{key}/{self.counts[key]}".encode()).digest(num_bytes)
        self.all.add(found)
        return found


class Life(NamedTuple):
    """What one life showed. heads: headers and sizes."""

    heads: list[object]
    contents: list[object]
    ids: list[str]
    bodies: list[bytes]
    state: dict[str, list[tuple[object, ...]]]
    drawn: Drawn


def live(metrics: MetricsFile, folder: Path, seed: int, which: int) -> Life:
    """Record one value of each metric on two days, send those of the first."""
    clock, drawn = Clock(), Drawn(seed)
    with MemoryCollector(metrics.metrics) as collector, Client.open(
        metrics, state_dir=folder, collector=collector.url, consent=True, clock=clock,
        delivery=Delivery(mean_delay=3_600.0), randomness=drawn,
    ) as client:  # fmt: skip
        for name, values in VALUES.items():
            assert client.record(name, values[which])
        assert client.flush(20)
        clock.now += 86_400.0
        for name, values in VALUES.items():
            assert client.record(name, values[which])
        requests = list(collector.requests)
    batches = [read_body(body) for _, body in requests]
    shown = [[(k, v) for k, v in headers.items() if k != "Host"] for headers, _ in requests]
    return Life(
        [(headers, len(body)) for headers, (_, body) in zip(shown, requests, strict=True)],
        [[(g.metric, g.day, [cohort for cohort, _ in g.rows]) for g in b.groups] for b in batches],
        [batch.batch_id for batch in batches],
        [body for _, body in requests],
        state_of(folder),
        drawn,
    )


def state_of(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """All rows of the state but columns that depend on values, and the planned time of sending."""
    found = {}
    with closing(sqlite3.connect(folder / "state.sqlite")) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            columns = ", ".join(name for name in names if (table, name) not in MEANT)
            rows = database.execute(f"SELECT {columns} FROM {table}").fetchall()
            found[table] = sorted((row for row in rows if row[0] != "send_at"), key=repr)
    return found


def test_values_do_not_show_around_the_bits(metrics, tmp_path) -> None:
    for seed in range(4):
        one, other = (live(metrics, tmp_path / f"{seed}-{which}", seed, which) for which in (0, 1))
        assert one.bodies != other.bodies
        assert one[:3] == other[:3]
        assert one.state == other.state


def test_a_machine_does_not_show(metrics, tmp_path, monkeypatch) -> None:
    here = live(metrics, tmp_path / "here", 5, 0)
    for module, name in ((socket, "gethostname"), (socket, "getfqdn"), (platform, "node")):
        monkeypatch.setattr(module, name, lambda *_: "another-host")
    monkeypatch.setattr(uuid, "getnode", lambda: 0x123456789ABC)
    there = live(metrics, tmp_path / "a" / "longer" / "path", 5, 0)
    assert (here.heads, here.bodies) == (there.heads, there.bodies)
    for headers, size in here.heads:  # type: ignore[misc]
        assert dict(headers) == {
            "Accept-Encoding": "identity", "User-Agent": "rappor/1",
            "Content-Type": "application/vnd.rappor.batch", "Content-Encoding": "gzip",
            "Content-Length": str(size),
        }  # fmt: skip
    assert {bytes.fromhex(one) for one in here.ids} <= here.drawn.all


def test_batches_leave_in_random_order(metrics, tmp_path) -> None:
    lives = (live(metrics, tmp_path / str(seed), seed, 0) for seed in range(6))
    assert len({repr([groups[0][0] for groups in life.contents]) for life in lives}) > 1  # type: ignore[index]


def test_a_secret_is_32_bytes_of_the_system(monkeypatch) -> None:
    drawn = Drawn(1)
    monkeypatch.setattr(os, "urandom", drawn)
    secrets = [new_secret(system_randomness) for _ in range(2)]
    assert set(secrets) == drawn.all
    assert [len(secret) for secret in secrets] == [32, 32]


def test_each_report_shows_fresh_random_bits(metrics) -> None:

    def report(randomness: Any) -> bytes:
        return Encoder(metrics.metrics, bytes(32), randomness).encode("homepage", "a", DAY).bits

    drawn, showing = Drawn(1), 0
    usual = report(drawn)
    (base,) = drawn.all
    for bit in range(8 * len(base)):
        turned = (int.from_bytes(base, "little") ^ 1 << bit).to_bytes(len(base), "little")
        showing += report(lambda _, turned=turned: turned) != usual
    assert showing >= 64


_WATCHING: list[list[tuple[str, tuple[Any, ...]]]] = []


@contextmanager
def acts() -> Iterator[list[tuple[str, tuple[Any, ...]]]]:
    """Python's audit events within the block, of files, sockets and programs."""
    seen: list[tuple[str, tuple[Any, ...]]] = []
    if not _WATCHING:
        sys.addaudithook(_notice)  # which stays for the life of the process
    _WATCHING[:] = [seen]
    try:
        yield seen
    finally:
        _WATCHING[:] = [[]]


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    if event in FILES or event.startswith(SPOKEN):
        _WATCHING[0].append((event, arguments))


def test_reports_are_all_that_a_client_sends_and_writes(metrics, tmp_path, capfd, caplog) -> None:
    caplog.set_level(0)
    with acts() as seen:
        life = live(metrics, tmp_path / "state", 3, 0)
    spoken = [(event, found) for event, found in seen if event.startswith("socket.")]
    connections = [found[1] for event, found in spoken if event == "socket.connect"]
    assert len(connections) == len(set(life.ids)) == len(VALUES)
    assert len(set(connections)) == 1
    assert {found[0] for event, found in spoken if event == "socket.getaddrinfo"} <= {b"127.0.0.1"}
    assert [
        event for event, _ in seen if event.startswith(SPOKEN) and event not in OWN + COLLECTOR
    ] == []
    written = []
    for event, found in seen:
        if event in FILES and not isinstance(name := found[FILES[event]], int):
            path = Path(os.fsdecode(name).removeprefix("file:").partition("?")[0]).resolve()
            reading = event == "open" and not (found[2] or 0) & WRITING
            if not reading and str(path) != os.devnull and ":memory:" not in str(path):
                written.append(path)
    assert written
    assert {
        path for path in written if not path.is_relative_to(tmp_path.resolve() / "state")
    } == set()
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
