"""Old libraries, frozen apps, and clocks that are not set."""

import os
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import time
import zipapp
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, Delivery
from client_sdk.storage.damage import trouble
from rappor_core import hashing
from rappor_core.metrics.file import parse_metrics
from tests.client.location_support import declared
from tests.metric_texts import declaration

ROOT = Path(__file__).parents[2]
APP = """
import sys
import sysconfig
from client_sdk import Client
with Client.open(sys.argv[1], state_dir=sys.argv[2], collector="http://127.0.0.1:9",
                 consent=True) as client:
    print(client.record("theme", "dark"), client.status.condition, client.last_refusal)
"""
CODES = declaration(
    "found",
    "discover",
    epsilon_infinity=4.0,
    max_reports=1,
    max_memoized_values=2,
    fallback="other",
)


@pytest.fixture
def app(tmp_path: Path, metrics_text: str) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text(APP)
    (tmp_path / "metrics.toml").write_text(metrics_text)
    return tmp_path


def run(app: Path, *command: object, **environment: str) -> str:
    """Run a command with the metrics file and a state directory; returns what it prints."""
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, command), app / "metrics.toml", app / "state"],
        capture_output=True, text=True, check=False, timeout=120, env=alone | environment,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_statements_are_those_of_sqlite_3_24() -> None:
    """aiosqlite #281, synapse #17577: RHEL 9 has 3.34, and these came with 3.35."""
    sources = [path.read_text() for path in (ROOT / "client_sdk").rglob("*.py")]
    assert not any("ON CONFLICT DO UPDATE" in text or "RETURNING" in text for text in sources)


def test_what_the_library_cannot_read_is_no_damage(open_client: Any) -> None:
    state = open_client()._life.session.state
    with state.lock, pytest.raises(sqlite3.OperationalError) as unknown:
        state.database.execute("INSERT INTO meta VALUES (1, 2) RETURN name")
    error = trouble("state.sqlite", unknown.value)
    assert error.condition == "state_unavailable"
    assert f"SQLite {sqlite3.sqlite_version}" in str(error)
    assert "reset()" not in str(error)


@pytest.mark.long
def test_a_device_with_sqlite_3_34(app: Path) -> None:
    """The library is built from the sources that the npm package sqlite3 5.0.2 carries."""
    if not (shutil.which("npm") and shutil.which("gcc")) or sys.platform != "linux":
        pytest.skip("npm and gcc, on Linux, build the old library")
    lines = (
        "npm pack --silent sqlite3@5.0.2 > name",
        "tar xzf $(cat name) && tar xzf package/deps/sqlite-autoconf-3340000.tar.gz",
        "gcc -O1 -fPIC -shared -DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_COLUMN_METADATA "
        "-DSQLITE_ENABLE_DESERIALIZE -DSQLITE_ENABLE_FTS3 -DSQLITE_ENABLE_RTREE "
        "-DSQLITE_ENABLE_JSON1 -Wl,-soname,libsqlite3.so.0 -o libsqlite3.so.0 "
        "sqlite-autoconf-3340000/sqlite3.c -lpthread -ldl -lm",
    )
    subprocess.run(" && ".join(lines), shell=True, check=True, cwd=app)
    (app / "app.py").write_text("import sqlite3; print(sqlite3.sqlite_version)\n" + APP)
    said = run(app, sys.executable, app / "app.py", LD_LIBRARY_PATH=str(app),
               PYTHONPATH=str(ROOT))  # fmt: skip
    assert said.split("\n")[:2] == ["3.34.0", "True active "]


def test_a_zip_without_its_hash_library_says_so(app: Path) -> None:
    """cython #1515: in a zip mmh3 is an empty package, and no value was recorded in silence."""
    for package in ("client_sdk", "rappor_core"):
        shutil.copytree(ROOT / package, app / "app" / package)
    (app / "app" / "mmh3").mkdir()  # as pip leaves it: a library that no zip can load
    zipapp.create_archive(app / "app", app / "app.pyz")
    said = run(app, sys.executable, "-S", "-E", app / "app.pyz")
    assert said.startswith("False unusable_here"), said


def test_a_zip_with_its_hash_library_beside_it_records(app: Path) -> None:
    for package in ("client_sdk", "rappor_core"):
        shutil.copytree(ROOT / package, app / "app" / package)
    (app / "metrics.toml").write_text((app / "metrics.toml").read_text() + CODES)
    zipapp.create_archive(app / "app", app / "app.pyz")
    said = run(app, sys.executable, "-S", app / "app.pyz",
               PYTHONPATH=sysconfig.get_path("platlib"))  # fmt: skip
    assert said.startswith("True active"), said


def test_a_wrong_hash_is_no_mistake_of_the_call(open_client, monkeypatch) -> None:
    monkeypatch.setattr(hashing, "KNOWN_ANSWER", (1, 2))
    client = open_client(development=False)
    assert client.status.condition == "unusable_here"
    assert "mmh3 gives a wrong hash" in client.status.sentence
    assert not client.record("theme", "dark")


def test_a_fault_of_the_sdk_is_no_mistake_of_the_call(open_client, monkeypatch) -> None:
    client = open_client(development=False)

    def fail(*_: object) -> None:
        raise AttributeError("no such thing")

    monkeypatch.setattr("client_sdk.recording.recorder.Recorder.record", fail)
    assert not client.record("theme", "dark")
    assert client.last_refusal.startswith("the SDK failed, which is not a mistake of the call")
    assert client.inspect()["counters"] == {"fault:AttributeError": 1}


@pytest.mark.long
@pytest.mark.parametrize("form", ["--onedir", "--onefile"])
def test_a_frozen_app_records(app: Path, form: str) -> None:
    """githubkit #258, pyinstaller #602: modules that are loaded by name were left out."""
    pytest.importorskip("PyInstaller")
    (app / "app.py").write_text(APP)
    (app / "metrics.toml").write_text((app / "metrics.toml").read_text() + CODES)
    freeze = [sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "ERROR", form]
    left_out = [word for name in ("numpy", "scipy") for word in ("--exclude-module", name)]
    subprocess.run([*freeze, *left_out, "app.py"], cwd=app, check=True)
    program = app / "dist" / "app" / "app" if form == "--onedir" else app / "dist" / "app"
    assert run(app, program).startswith("True active")


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Tokyo"])
def time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("now", [-1.0, -86_400 * 400.5, 0.0, -1e11, 1e13])
def test_a_clock_that_is_not_set_breaks_nothing(tmp_path: Path, time_zone: str, now: float) -> None:
    """Without a battery it shows 1970, or in a time zone to the west the year before."""
    client = Client.open(
        declared("fresh"), state_dir=tmp_path, collector="http://127.0.0.1:9",
        consent=True, delivery=Delivery(mean_delay=86_400.0), development=True, clock=lambda: now,
    )  # fmt: skip
    with client:
        client.record_location("density", 1.5, 1.5)
        client.record_location("density", 1.5, 1.5, datetime(1, 1, 2, tzinfo=UTC))
        client._life.session._close_periods()  # type: ignore[union-attr]
        assert not [name for name in client.inspect()["counters"] if name.startswith("fault")]


def test_codes_are_read_from_where_the_package_is(metrics_text: str) -> None:
    assert "found" in parse_metrics(metrics_text + CODES).metrics
