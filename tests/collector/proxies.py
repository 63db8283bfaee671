"""The proxies and relays of docker/, run for real where their programs are installed."""

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.waiting import until

DOCKER = Path(__file__).parents[2] / "docker"


def stages() -> dict[str, list[tuple[str, str]]]:
    """By name, the instructions of each stage of the Dockerfile, those of its base first."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for line in (DOCKER / "Dockerfile").read_text().replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.split()
            found[name] = list(found.get(base, []))
        elif name and word and not word.startswith("#"):
            found[name].append((word, rest.strip()))
    return found


def program(kind: str) -> str:
    found = shutil.which(kind) or shutil.which(kind, path="/usr/sbin")
    if found is None:
        pytest.skip(f"{kind} is not installed, so its files of docker/ were not run")
    return found


@contextmanager
def running_proxy(
    kind: str,
    name: str,
    folder: Path,
    port: int,
    changes: Iterable[tuple[str, str]],
    *,
    kill: bool = False,
) -> Iterator[None]:
    """nginx or caddy with a file of docker/, of which the changes alone are made for the test.

    kill: with all its processes on leaving, without a word to anybody.
    """
    text = (DOCKER / name).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    config = folder / name
    if kind == "nginx":
        text = re.sub(r"^ *(ssl|proxy_ssl)_.*$", "", text, flags=re.MULTILINE)
        command = [program(kind), "-p", str(folder), "-c", str(config), "-g", "daemon off;"]
    else:
        command = [program(kind), "run", "--adapter", "caddyfile", "--config", str(config)]
    config.write_text(text)
    environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, env=environment, start_new_session=True
    )

    def answers() -> bool:
        assert process.poll() is None, process.communicate()[1]
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        return False

    try:
        until(answers)
        yield
    finally:
        if kill:
            os.killpg(process.pid, signal.SIGKILL)
        process.terminate()
        process.communicate(timeout=20)
