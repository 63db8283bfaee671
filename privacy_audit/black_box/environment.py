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
from typing import Any

FRAMES = 4  # of a line that asks for randomness
SYSTEM = ("/etc/", "/proc/", "/sys/", "/var/lib/dbus/", "/run/")  # where a machine tells its name
HARMLESS = (
    "/etc/localtime", "/etc/ssl/", "/proc/self/", "/proc/meminfo", "/etc/nsswitch", "/etc/hosts",
    "/etc/resolv", "/etc/host.conf", "/etc/gai.conf", "/etc/mime.types", "/etc/apache2/",
    "/etc/httpd/",
)  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """What a process is told of where it runs. seconds: by which its clocks are ahead."""

    host: str
    user: str
    seconds: float


class Stream:
    """Bytes of a seed, in place of the system's: by device, sitting and what asks, in order.

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
        """From now on bytes are those of a device and sitting."""
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
    """Exchange what the system tells this process for what the audit tells it.

    Once for each process, which does nothing else afterwards.
    """
    stream = Stream(seed)
    _STREAM[:] = [stream]
    os.urandom = stream
    os.getrandom = lambda size, flags=0: stream(size)  # noqa: ARG005
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
    sys.addaudithook(_notice)
    return stream


def stream() -> Stream:
    """Of this process, once it is controlled."""
    return _STREAM[0]


def files_read() -> list[str]:
    """Files of the system that were opened since the last call and tell of the machine."""
    found, _READ[:] = sorted(set(_READ)), []
    return found


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    name = arguments[0] if event == "open" else None
    if isinstance(name, str) and name.startswith(SYSTEM) and not name.startswith(HARMLESS):
        _READ.append(name)


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
