"""A process whose randomness, clock and machine are the audit's: for what must depend on one alone.

Imports the standard library only, and `control` is called before the client is imported, so that
no module has taken a function of the system before it was exchanged.
"""

from __future__ import annotations

import datetime
import getpass
import hashlib
import os
import platform
import random
import socket
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FRAMES = 4  # of a line that asks for randomness
SYSTEM = ("/etc/", "/proc/", "/sys/", "/var/lib/dbus/", "/run/")  # where a machine reveals its name
HARMLESS = (
    "/etc/localtime", "/etc/ssl/", "/proc/self/", "/proc/meminfo", "/etc/nsswitch", "/etc/hosts",
    "/etc/resolv", "/etc/host.conf", "/etc/gai.conf", "/etc/mime.types", "/etc/apache2/",
    "/etc/httpd/",
)  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
WRITTEN = {
    "open": 0,
    "os.mkdir": 0,
    "os.rename": 1,
    "os.link": 1,
    "os.symlink": 1,
    "os.truncate": 0,
    "sqlite3.connect": 0,
}  # events of Python that make or change files, and which argument is the file
SPOKEN = {"socket.connect": 1, "socket.sendto": 1, "socket.sendmsg": 1, "socket.bind": 1}
NAMED = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
STARTED = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
           "os.forkpty", "syslog.syslog")  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """The machine that a process is made to see: host, user, path, clock. seconds: by which its
    clocks are ahead."""

    host: str
    user: str
    seconds: float


class Stream:
    """Pseudo-random bytes from a seed, which take the place of the system's; a stream for each
    device, sitting and calling line.

    Each line that asks has its own, so that the order in which threads run changes nothing.
    """

    def __init__(self, seed: bytes) -> None:
        """seed: of all that is drawn."""
        self._seed = seed
        self._where = b""
        self._counts: Counter[tuple[bytes, str]] = Counter()
        self.script: bytearray | None = None
        self.drawn = 0

    def at(self, place: str) -> None:
        """Switch to the bytes of another device and sitting."""
        self._where = place.encode()

    def __call__(self, num_bytes: int) -> bytes:
        """So many bytes; of the script, while there is one."""
        self.drawn += num_bytes
        if self.script is not None:
            taken = bytes(self.script[:num_bytes])
            del self.script[:num_bytes]
            return taken + bytes(num_bytes - len(taken))
        key = self._where, _asking()
        self._counts[key] += 1
        name = f"{key[1]}/{self._counts[key]}".encode()
        return hashlib.shake_256(self._seed + b"/" + self._where + b"/" + name).digest(num_bytes)


def _asking() -> str:
    """Lines of the program that asked for randomness, from the innermost one."""
    frame, found = sys._getframe(2), list[str]()
    while frame is not None and len(found) < FRAMES:
        found.append(f"{frame.f_code.co_filename.rpartition(os.sep)[2]}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    return " ".join(found)


_STREAM: list[Stream] = []
_READ: list[str] = []


def control(seed: bytes, machine: Machine) -> Stream:
    """Replace the system's randomness, clocks and machine names in this process by those that
    the audit chose.

    Once for each process, which does nothing else afterwards.
    """
    stream = Stream(seed)
    _STREAM[:] = [stream]
    os.urandom = stream
    os.getrandom = lambda size, flags=0: stream(size)
    random._urandom = stream  # type: ignore[attr-defined]
    _tell_time(machine.seconds)
    answers: dict[tuple[Any, str], object] = {
        (socket, "gethostname"): machine.host,
        (socket, "getfqdn"): machine.host,
        (platform, "node"): machine.host,
        (uuid, "getnode"): int.from_bytes(
            hashlib.sha256(machine.host.encode()).digest()[:6], "big"
        ),
        (getpass, "getuser"): machine.user,
        (os, "getlogin"): machine.user,
    }
    for (module, name), answer in answers.items():
        setattr(module, name, lambda *_, answer=answer: answer)
    known = os.uname()
    os.uname = lambda: os.uname_result((known[0], machine.host, *known[2:]))
    os.environ |= {"USER": machine.user, "LOGNAME": machine.user, "HOSTNAME": machine.host}
    sys.dont_write_bytecode = True
    sys.addaudithook(_notice)
    return stream


def stream() -> Stream:
    """The pseudo-random bytes of this process, after `control`."""
    return _STREAM[0]


def files_read() -> list[str]:
    """Files of the system opened since the last call that identify the machine."""
    found, _READ[:] = sorted(set(_READ)), []
    return found


@dataclass
class Acts:
    """What Python's audit events show of a device: connections, programs it started, files it
    wrote.

    directory: its own.  collector: host and port.  spoken: with whom else, or programs that it
    started.  written: files elsewhere.  connections: to the collector.
    """

    directory: str
    collector: tuple[str, int]
    spoken: list[str]
    written: list[str]
    connections: int = 0

    def notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Keep what is not of the state or for the collector."""
        if event in WRITTEN:
            name = arguments[WRITTEN[event]]
            reading = event == "open" and not (arguments[2] or 0) & WRITING
            if not isinstance(name, int) and not reading and not self._own(event, _path(name)):
                self.written.append(f"{event} {_path(name)}")
        elif event in SPOKEN:
            address = arguments[SPOKEN[event]]
            if event == "socket.connect" and address[:2] == self.collector:
                self.connections += 1
            elif address is not None:
                self.spoken.append(f"{event} {address}")
        elif event in NAMED:
            if _path(arguments[0]) != self.collector[0]:
                self.spoken.append(f"{event} {arguments[0]!r}")
        elif event in STARTED:
            self.spoken.append(f"{event} {arguments[:2]}")

    def _own(self, event: str, name: str) -> bool:
        """Whether a file is of the state; on its way there directories may be made."""
        if name in (":memory:", "", os.devnull):
            return True
        path, own = Path(name).resolve().as_posix(), Path(self.directory).resolve().as_posix()
        return f"{path}/".startswith(f"{own}/") or (
            event == "os.mkdir" and own.startswith(f"{path}/")
        )


def _path(name: Any) -> str:
    text = os.fsdecode(name)
    return text.removeprefix("file:").partition("?")[0]


_ACTS: list[Acts] = []


def watch(directory: str, collector: tuple[str, int]) -> Acts:
    """Record the acts of the device whose state is in this directory, from now on."""
    _ACTS[:] = [Acts(directory, collector, [], [])]
    return _ACTS[0]


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    name = arguments[0] if event == "open" else None
    if isinstance(name, str) and name.startswith(SYSTEM) and not name.startswith(HARMLESS):
        _READ.append(name)
    for acts in _ACTS:
        acts.notice(event, arguments)


def _tell_time(ahead: float) -> None:
    """Clocks of the wall, in whatever form, that many seconds ahead."""
    real, nanoseconds = time.time, time.time_ns
    time.time = lambda: real() + ahead
    time.time_ns = lambda: nanoseconds() + int(ahead * 1e9)
    for name in ("gmtime", "localtime"):
        asked = getattr(time, name)
        setattr(
            time,
            name,
            lambda seconds=None, asked=asked: asked(time.time() if seconds is None else seconds),
        )
    shift = datetime.timedelta(seconds=ahead)
    whole, date = datetime.datetime, datetime.date

    class Datetime(whole):  # type: ignore[valid-type,misc]
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return whole.now(tz) + shift

        @classmethod
        def utcnow(cls) -> Any:
            return whole.now(datetime.UTC).replace(tzinfo=None) + shift

        @classmethod
        def today(cls) -> Any:
            return whole.now() + shift

    class Date(date):  # type: ignore[valid-type,misc]
        @classmethod
        def today(cls) -> Any:
            return date.today() + shift

    datetime.datetime, datetime.date = Datetime, Date  # type: ignore[misc]
