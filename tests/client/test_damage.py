"""Whatever the files hold: nothing raises, and a withdrawal ends with no secret on the disk."""

import os
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client
from client_sdk.__main__ import main
from client_sdk.delivery.queue import ReportQueue
from client_sdk.randomization.key_derivation import system_randomness
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.lock_support import QUIET, holds
from tests.client.process_support import output_of

FLIPS = 60


class Sample:
    """The files of a used state: a ledger, a queue, batches, counters, notes and a tombstone."""

    def __init__(self, folder: Path, metrics: MetricsFile) -> None:
        self.metrics = metrics
        self.folder = folder / "sample"
        client = self.open(self.folder)
        record_all(client)
        client.reset()
        record_all(client)
        state = client._life.session.state
        ReportQueue(state, QUIET.replace(batch_reports=3), system_randomness).compose()
        record_all(client)
        state.put("send_at", 1.8e9)
        state.put_note("visits:home", "{}")
        client.inspect()  # saves what was counted
        self.secret = state.identity().secret
        shutil.copytree(self.folder, folder / "open")  # with the write-ahead log
        self.opened = folder / "open"
        thread = client._life.session.worker._thread
        client.close()
        thread.join()

    def open(self, folder: Path, consent: bool = True) -> Client:
        choices = {"collector": "http://127.0.0.1:9", "delivery": QUIET, "development": True}
        return Client.open(self.metrics, state_dir=folder, consent=consent, **choices)


def record_all(client: Client) -> None:
    for value in "abcdef":
        client.record("homepage", value)
    client.record("theme", "dark")
    client.record("crashed", True)
    client.record("crashed", False)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory where there is one: some ten thousand syncs wait for nobody's disk."""
    shared = Path("/dev/shm")
    folder = tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory, metrics_text: str) -> Sample:
    return Sample(tmp_path_factory.mktemp("sample"), parse_metrics(metrics_text))


def live_on(sample: Sample, folder: Path) -> str:
    """What an app and its person do with a state; returns its condition after opening."""
    client = sample.open(folder)
    condition = client.status.condition
    record_all(client)
    account = client.inspect()
    assert ("trouble" in account) <= (client.status.condition != "active")
    if (folder / "state.sqlite").exists():
        assert main(["inspect", str(folder)]) in (0, 1)
    client.set_consent(False)
    assert client.status.condition == "no_consent"
    assert "yet" not in client.status.sentence
    assert not holds(folder, sample.secret)
    client.close()
    return condition


def flip(path: Path, draw: random.Random) -> str:
    data = bytearray(path.read_bytes())
    place, bit = draw.randrange(len(data)), draw.randrange(8)
    data[place] ^= 1 << bit
    path.write_bytes(data)
    return f"{path.name}: byte {place}, bit {bit}"


def flip_many(sample: Sample, folder: Path, number: int, seed: int) -> Counter[str]:
    draw, seen = random.Random(seed), Counter[str]()
    for index in range(number):
        where = folder / str(index)
        if index % 5 < 3:
            shutil.copytree(sample.folder, where)
            flipped = flip(where / "state.sqlite", draw)
        else:
            shutil.copytree(sample.opened, where)
            (where / "state.sqlite-shm").unlink(missing_ok=True)  # as after a crash of the system
            name = ("state.sqlite-wal", "state.sqlite")[index % 5 - 3]
            flipped = flip(where / name, draw)
        try:
            seen[live_on(sample, where)] += 1
        except BaseException as error:
            raise AssertionError(f"flip {index}, {flipped}") from error
        shutil.rmtree(where)
    return seen


def test_random_flips(sample: Sample, memory: Path) -> None:
    seen = flip_many(sample, memory, FLIPS, seed=12)
    print(dict(seen))
    assert set(seen) <= {"active", "state_corrupt", "state_newer"}
    assert seen["state_corrupt"] > FLIPS / 20  # the test reaches what it is about
    assert seen["active"] > FLIPS / 20


@pytest.mark.long
def test_three_thousand_flips(sample: Sample, memory: Path) -> None:
    """If none of so many raises, fewer than 1 in 1,000 do, or it is chance of 1 in 20."""
    print(dict(flip_many(sample, memory, 3_000, seed=13)))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE lines SET agreed = '{'",
        "UPDATE entries SET params = '[]'",
        "UPDATE entries SET params = CAST(x'ff7b7d' AS TEXT)",
        "UPDATE entries SET reports = 1 << 62",
        "UPDATE entries SET line = 'homepagd' WHERE line = 'homepage'",
        "UPDATE meta SET value = 'x' WHERE name = 'secret'",
        "UPDATE meta SET value = x'00' WHERE name = 'generation'",
        "UPDATE tombstones SET ledger = '{'",
        "UPDATE queue SET day = 1 << 40",
        "UPDATE queue SET bits = 'text'",
        "UPDATE sources SET params_id = 'zz'",
        "UPDATE batches SET reports = 0",
        "DROP TABLE notes",
        "PRAGMA user_version = -1",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, 'past', 'pbst')",
    ],
)
def test_what_no_version_wrote_is_damage(sample: Sample, tmp_path: Path, change: str) -> None:
    where = shutil.copytree(sample.folder, tmp_path / "state")
    with closing(sqlite3.connect(where / "state.sqlite")) as database:
        database.executescript(change)
    assert live_on(sample, where) in ("state_corrupt", "state_missing")


def test_a_head_that_forbids_writing_is_damage(sample: Sample, tmp_path: Path) -> None:
    """SQLite takes a file of a later write format for read-only: then it could not be wiped."""
    where = shutil.copytree(sample.folder, tmp_path / "state")
    path = where / "state.sqlite"
    data = path.read_bytes()
    assert data[18] == 2
    path.write_bytes(data[:18] + b"\6" + data[19:])
    assert live_on(sample, where) == "state_corrupt"


def test_damage_that_shows_while_the_client_runs(sample: Sample, tmp_path: Path) -> None:
    where = shutil.copytree(sample.folder, tmp_path / "state")
    client = sample.open(where)
    with closing(sqlite3.connect(where / "state.sqlite")) as database, database:
        database.execute("UPDATE lines SET agreed = '{'")
        database.execute("UPDATE counters SET name = CAST(x'ff' AS TEXT)")
    assert "trouble" in client.inspect()
    assert client.status.condition == "state_corrupt"
    assert not client.record("homepage", "a")
    client.set_consent(False)
    assert not holds(where, sample.secret)
    client.close()


def test_a_damaged_batch_does_not_stop_the_others(open_client: Any, collector: Any) -> None:
    client = open_client(delivery=QUIET)
    for _ in range(9):
        client.record("homepage", "a")
    state = client._life.session.state
    ReportQueue(state, QUIET.replace(batch_reports=3), system_randomness).compose()
    with state.transaction() as database:
        database.execute("UPDATE batches SET reports = 2 WHERE id = 1")
        database.execute("UPDATE batches SET body = x'1f8b' WHERE id = 2")
    assert not client.flush(20)  # what was damaged is lost
    assert collector.counted() == {"homepage": 3}
    assert client.inspect()["counters"]["dropped:damaged"] == 5


FIRST_START = """
import resource, sys
from client_sdk import Client
sys.dont_write_bytecode = True  # Python would cut it off at the limit, for every later process
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
nowhere = "http://127.0.0.1:9"
client = Client.open(sys.argv[1], state_dir=sys.argv[2], collector=nowhere, consent=True)
print(client.status.condition, client.status.sentence)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
client.inspect()  # tries again at once
print(client.status.condition, client.record("homepage", "a"))
"""


@pytest.mark.parametrize("limit", [0, 1_024, 4_096, 12_288, 30_000, 49_152])
def test_a_failed_first_start_is_made_good(tmp_path: Path, metrics_text: str, limit: int) -> None:
    first, then = output_of(FIRST_START, tmp_path, metrics_text, str(limit))
    assert then == "active True"
    assert first.split()[0] in ("state_unavailable", "active")
    if limit < 30_000:
        assert first.startswith("state_unavailable")


@pytest.mark.skipif(os.name == "nt", reason="modes are of POSIX")
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o707])
def test_a_directory_open_to_all_is_left_alone(open_client: Any, tmp_path: Path, mode: int) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    client = open_client(state_dir=shared)
    assert client.status.condition == "state_unavailable"
    assert f"mode {mode:o}" in client.status.sentence
    assert shared.stat().st_mode & 0o7777 == mode
    assert not list(shared.iterdir())
    assert open_client(state_dir=shared / "own").status.condition == "active"
    assert (shared / "own").stat().st_mode & 0o7777 == 0o700


@pytest.mark.skipif(os.name == "nt", reason="modes are of POSIX")
def test_a_directory_that_was_there_keeps_its_mode(open_client: Any, tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    given.chmod(0o2775)
    assert open_client(state_dir=given).status.condition == "active"
    assert given.stat().st_mode & 0o7777 == 0o2775
    for path in given.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_directory_name_that_no_system_takes(open_client: Any, tmp_path: Path) -> None:
    assert open_client(state_dir=f"{tmp_path}/a\0b").status.condition == "state_unavailable"
