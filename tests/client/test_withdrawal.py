"""A withdrawal ends with no secret on the disk, and no limit by period falls to a new secret."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from client_sdk import Client
from client_sdk.storage.directory import StateDirectory
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.conftest import Clock
from tests.client.lock_support import QUIET, holds
from tests.client.period_support import file_of
from tests.client.process_support import output_of
from tests.waiting import until

NOWHERE = "http://127.0.0.1:9"
PATH = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def open_at(folder: Path, metrics: MetricsFile, consent: bool = True) -> Client:
    choices = {"collector": NOWHERE, "delivery": QUIET, "clock": Clock()}
    return Client.open(metrics, state_dir=folder, consent=consent, **choices)


def secret_of(client: Client) -> bytes:
    return client._life.session.state.identity().secret


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A real file system of that size; the test is skipped where none can be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder)]
    mounted = shutil.which("mount") and subprocess.run(mount, capture_output=True, check=False)
    if not mounted or mounted.returncode != 0:
        pytest.skip("a file system cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Take all the room that is left."""
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(1_024)):
            pass


def record_until_full(client: Client) -> None:
    """What an app does on a disk that is nearly full."""
    for number in range(500):
        client.record("homepage", "abcdef"[number % 6])


@pytest.mark.parametrize("kilobytes", [96, 128, 192, 256])
@pytest.mark.parametrize("busy", [False, True])
def test_on_a_full_disk_no_secret_stays(tmp_path, metrics, kilobytes, busy) -> None:
    with small_disk(tmp_path / "small", kilobytes) as small:
        client = open_at(small / "state", metrics)
        if client.status.condition != "active":
            pytest.skip("too small for a first start")
        client.record("crashed", True)
        secret = secret_of(client)
        assert holds(small / "state", secret)
        if busy:
            fill(small)
            record_until_full(client)
        fill(small)
        client.set_consent(False)
        assert "yet" not in client.status.sentence
        assert not holds(small / "state", secret)
        assert not (small / "state" / "withdrawal").exists()
        client.close()
        (small / "filler").unlink()
        subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True)
        with open_at(small / "state", metrics) as client:  # the numbers spent are kept
            if client.status.condition == "state_missing":
                client.reset()
                return
            assert client.status.condition == "active"
            (line,) = (r for r in client.inspect()["metrics"] if r["metric"] == "crashed")
            assert line["values_memoised"] >= 1
            assert line["epsilon_committed"] > 0


def remount(folder: Path, how: str) -> None:
    """Change how a disk is mounted, as soon as no thread of a closed client has its files open."""
    command = ["mount", "-o", f"remount,{how}", str(folder)]
    until(lambda: subprocess.run(command, check=False).returncode == 0, every=0.1)


def test_on_read_only_disks_a_withdrawal_says_so(tmp_path, metrics) -> None:
    with small_disk(tmp_path / "small", 1_024) as small:
        with open_at(small / "state", metrics) as client:
            assert client.record("crashed", True)
            secret = secret_of(client)
        remount(small, "ro")
        with open_at(small / "state", metrics, consent=False) as client:
            assert client.set_consent(False) is False
            assert "could not be wiped yet" in client.status.sentence
            assert "open with consent=False" in client.status.sentence
        assert holds(small / "state", secret)
        remount(small, "rw")
        with open_at(small / "state", metrics, consent=False) as client:
            assert client.set_consent(False) is True
            assert "yet" not in client.status.sentence
            assert not holds(small / "state", secret)
            assert client.set_consent(True) is True
            assert secret_of(client) != secret


def test_overwritten_but_undeletable_counts_as_wiped(tmp_path, metrics, monkeypatch) -> None:
    with open_at(tmp_path / "state", metrics) as client:
        assert client.record("crashed", True)
        secret = secret_of(client)
    directory = StateDirectory(tmp_path / "state")

    def refuse(path: object) -> None:
        raise PermissionError(13, "the directory is read-only", path)

    with monkeypatch.context() as system:
        system.setattr("os.unlink", refuse)
        system.setattr("os.open", lambda path, *_: refuse(path))
        with pytest.raises(PermissionError):
            directory.delete()
        assert holds(tmp_path / "state", secret)
    with monkeypatch.context() as system:
        system.setattr("os.unlink", refuse)
        (tmp_path / "state" / "state.sqlite-wal").touch()
        (tmp_path / "state" / "state.sqlite-shm").touch()
        directory.delete()
    assert not holds(tmp_path / "state", secret)
    with open_at(tmp_path / "state", metrics) as client:
        assert client.status.condition == "state_corrupt"


LIMITED = """
import resource, sys, time
from pathlib import Path
from client_sdk import Client, Delivery
folder = Path(sys.argv[2])
client = Client.open(sys.argv[1], state_dir=folder, collector="http://127.0.0.1:9", consent=True,
                     delivery=Delivery(mean_delay=86400.0))
client.record("crashed", True)
secret = client._life.session.state.identity().secret
if sys.argv[4] == "closed":
    client.close()
sys.dont_write_bytecode = True  # Python would cut it off at the limit, for every later process
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
if sys.argv[4] == "closed":
    client = Client.open(sys.argv[1], state_dir=folder, collector="http://127.0.0.1:9",
                         consent=False)
else:
    client.set_consent(False)
deadline = time.monotonic() + 20  # a withdrawal is tried again until it is done
while "yet" in client.status.sentence and time.monotonic() < deadline:
    time.sleep(0.05)
texts = [path.read_bytes() for path in folder.iterdir()]
print(any(half in text for half in (secret[:16], secret[16:]) for text in texts))
print(client.status.sentence)
"""


@pytest.mark.skipif(os.name == "nt", reason="limits are of POSIX")
@pytest.mark.parametrize("limit", [0, 1_024, 8_192, 16_384, 32_768, 60_000])
@pytest.mark.parametrize("when", ["open", "closed"])
def test_where_files_may_not_grow_no_secret_stays(tmp_path, metrics_text, limit, when) -> None:
    found, sentence = output_of(LIMITED, tmp_path, metrics_text, str(limit), when)
    assert found == "False"
    assert "yet" not in sentence


OTHER = """
import sys
from client_sdk import Client
choices = {"state_dir": sys.argv[2], "collector": "http://127.0.0.1:9", "consent": True}
client = Client.open(sys.argv[1], **choices)
for _ in range(3):
    print(client.record("crashed", True), flush=True)
    input()
"""


def test_a_process_holding_a_deleted_state_stops(tmp_path, metrics, metrics_text) -> None:
    (tmp_path / "metrics.toml").write_text(metrics_text)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with small_disk(tmp_path / "small", 256) as small, open_at(small / "state", metrics) as first:
        assert first.record("homepage", "a")
        secret = secret_of(first)
        arguments = [tmp_path / "metrics.toml", small / "state"]
        other = subprocess.Popen([sys.executable, "-c", OTHER, *arguments], env=PATH, **pipes)
        assert other.stdout.readline() == "True\n"
        fill(small)
        first.set_consent(False)
        assert not holds(small / "state", secret)
        assert other.communicate("\n" * 3, timeout=20)[0] == "False\n" * 2


def ask_for_reset(folder: Path, metrics: MetricsFile) -> None:
    with open_at(folder, metrics) as client:
        client.reset()


def withdraw(folder: Path, metrics: MetricsFile) -> None:
    with open_at(folder, metrics) as client:
        client.set_consent(False)


def damage_and_reset(folder: Path, metrics: MetricsFile) -> None:
    """Some of it is legible, as after a flipped bit."""
    with closing(sqlite3.connect(folder / "state.sqlite")) as database, database:
        database.execute("INSERT INTO counters VALUES (CAST(x'ff' AS TEXT), 1)")
        database.execute("UPDATE queue SET day = 1 << 40")
    with open_at(folder, metrics) as client:
        assert client.status.condition == "state_corrupt"
        client.reset()
        assert client.status.condition == "active"


ENDS = [ask_for_reset, withdraw, damage_and_reset]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("month", 5), ("month", 5)),
        (("month", 5), ("month", 6)),  # an attack got 6 reports of 5
        (("month", 60), ("month", 73)),  # and 73 of 60
        (("month", 60), ("day", 61)),
        (("day", 5), ("month", 6)),
    ],
)
def test_a_period_limit_survives_a_wiped_secret(tmp_path, end, first, then) -> None:
    folder, metrics = tmp_path / "state", file_of(*first)
    with open_at(folder, metrics) as client:
        assert sum(client.record("m", "a") for _ in range(first[1] + 2)) == first[1]
    for _ in range(2):
        end(folder, metrics)
        with open_at(folder, file_of(*then)) as client:
            assert not any(client.record("m", "a") for _ in range(20))
            assert "m" in client.last_refusal


@pytest.mark.parametrize("end", ENDS)
def test_a_new_secret_records_within_the_limit(tmp_path, end) -> None:
    folder, metrics = tmp_path / "state", file_of("month", 5)
    with open_at(folder, metrics) as client:
        assert client.record("m", "a")
        secret = secret_of(client)
    end(folder, metrics)
    with open_at(folder, metrics) as client:
        assert secret_of(client) != secret
        assert sum(client.record("m", "a") for _ in range(9)) == 4
