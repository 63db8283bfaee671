"""Attacks on the withdrawal of consent: forks, files cut short, DO_NOT_TRACK."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from client_sdk import Client, Delivery
from client_sdk.testing import MemoryCollector
from rappor_core.metrics.metrics_file import MetricsFile
from tests.client.conftest import METRICS

QUIET = Delivery(mean_delay=86_400.0)


def open_at(
    folder: Path, metrics: MetricsFile, collector: MemoryCollector, **changes: object
) -> Client:
    given: dict[str, object] = {"consent": True, "delivery": QUIET} | changes
    return Client.open(metrics, state_dir=folder, collector=collector.url, **given)  # type: ignore[arg-type]


FORKED = """
import os, sys
from client_sdk import Client, Delivery
metrics, folder, url, who = sys.argv[1:]
client = Client.open(metrics, state_dir=folder, collector=url, consent=True,
                     delivery=Delivery(mean_delay=86_400.0))
for _ in range(20):
    assert client.record("homepage", "a")
told, tell = os.pipe()
child = os.fork()
if child == 0:
    assert client.record("homepage", "b")
if (child == 0) == (who == "child"):
    client.set_consent(False)
    os.write(tell, b"x")
else:
    os.read(told, 1)
    client.flush(2)
    client.record("homepage", "c")
    client.flush(2)
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize("who", ["parent", "child"])
def test_nothing_leaves_a_forked_process(who, collector, tmp_path) -> None:
    (tmp_path / "metrics.toml").write_text(METRICS)
    arguments = [str(tmp_path / "metrics.toml"), str(tmp_path / "state"), collector.url, who]
    subprocess.run([sys.executable, "-c", FORKED, *arguments], check=True, timeout=60)
    assert collector.requests == []


@pytest.mark.parametrize("keeps_open", [True, False], ids=["open", "closed"])
def test_with_a_state_that_was_cut_short(keeps_open, metrics, collector, tmp_path) -> None:
    """At 12 lengths, while the client is open and while it is not; with the log and without."""
    rng = random.Random(3)
    for number in range(12):
        folder = tmp_path / str(number)
        client = open_at(folder, metrics, collector)
        secret = client._life.session.state.identity().secret  # type: ignore[union-attr]
        assert secret is not None
        assert all(client.record("homepage", "a") for _ in range(50))
        if not keeps_open:
            client.close()
        for file in folder.glob("state.sqlite*"):
            if not file.name.endswith("-shm"):
                os.truncate(file, rng.randrange(file.stat().st_size + 1))
        if not keeps_open:
            client = open_at(folder, metrics, collector, consent=False)
        client.set_consent(False)
        client.flush(0.2)
        client.close()
        assert collector.requests == []
        halves = (secret[:16], secret[16:])
        assert not any(half in f.read_bytes() for f in folder.iterdir() for half in halves)


def test_with_do_not_track_set(metrics, collector, tmp_path, monkeypatch) -> None:
    """It stops the sending, wipes nothing; a withdrawal under it wipes all the same."""
    client = open_at(tmp_path / "state", metrics, collector)
    assert client.record("homepage", "a")
    secret = client._life.session.state.identity().secret  # type: ignore[union-attr]
    assert secret is not None
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    client.set_consent(True)
    assert client.status.condition == "do_not_track"
    assert not client.record("homepage", "a")
    client.flush(0.2)
    client.close()
    client = open_at(tmp_path / "state", metrics, collector)
    client.flush(0.2)
    assert collector.requests == []
    client.set_consent(False)
    monkeypatch.delenv("DO_NOT_TRACK")
    assert not any(secret in file.read_bytes() for file in (tmp_path / "state").iterdir())
    client.set_consent(True)
    assert client.flush(5)
    assert collector.requests == []
    client.close()
