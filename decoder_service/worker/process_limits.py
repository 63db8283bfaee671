"""Limits of a job's process, what they need of the system, and its end with its parent; and large
uploads, which are read in a process with such limits.

Python reads JSON and CSV under its one lock, so that a large file would hold up everybody else. One
processor is left to the service, and those that read give way to it. Processes read this first,
before the imports that take long.
"""

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, TypeVar

from decoder_service.shell.errors import ServiceError, UnavailableError
from rappor_core.errors import RapporError
from rappor_core.own_packages import FOLDER, prefer_own_packages
from rappor_server.errors import RequestError

PREFIX = "RAPPOR_DECODER_"
PARENT_VARIABLE = f"{PREFIX}PARENT"  # a worker names itself to the process that forks its jobs
_PR_SET_PDEATHSIG = 1
_ORPHANED = 3  # exit code
SMALL_BYTES = 256 << 10  # read in the process of the service
SECONDS = 60  # of processor time
_FILE_BYTES = 1 << 30
_WALL_SECONDS = 600
_NICE = 5  # less of the processor for those that read, where there is too little
# as -m, but for the folder in which the service was started: that may hold any `json.py`
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from decoder_service.worker.process_limits import main; main()"
)
MAX_WAITING = 16  # large files that are read or wait: each has a thread of the service's 40
Read = TypeVar("Read")


def die_with_parent(started_by: int | None = None) -> None:
    """On Linux, let the kernel kill this process when its parent dies.

    started_by: the parent's number; one that died before this call is found out by it.
    """
    if sys.platform != "linux":
        return
    parent = os.getppid() if started_by is None else started_by
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before
        os._exit(_ORPHANED)


def end_with_pipe(life: Connection) -> None:
    """End this process when the other end of a pipe is closed, as a dead worker's is."""

    def wait() -> None:
        with suppress(EOFError, OSError):
            life.recv_bytes()
        os._exit(_ORPHANED)

    threading.Thread(target=wait, name="worker-watch", daemon=True).start()


def limit_resources(memory: int, file_size: int, seconds: int | None = None) -> None:
    """Limit the memory that is taken from now on, and the size of a file, in bytes.

    seconds: of processor, after which SIGXCPU ends the process.
    """
    import resource

    pages = 0  # that the process has mapped already, where the system says
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    bounds = {
        resource.RLIMIT_AS: pages * resource.getpagesize() + memory,
        resource.RLIMIT_FSIZE: file_size,
        resource.RLIMIT_CORE: 0,
    }
    for which, value in bounds.items():
        _, hard = resource.getrlimit(which)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (most, most))


def check_platform(what: str) -> None:
    """Raises UnavailableError where processes cannot be bounded, as on Windows.

    what: is not done there.
    """
    try:
        import fcntl  # noqa: F401 (here it is asked whether there is one)
        import resource  # noqa: F401
    except ImportError:
        raise UnavailableError(
            f"{what}: that takes processes with bounds of memory and time, which this system has "
            "not; use Linux or macOS, or on Windows WSL or a container"
        ) from None


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads uploaded files within bounds.

    memory: bytes that a process may take.  seconds: of processor.  at_once: the processes that
    read at the same time.  places: those and the files that wait for their turn.
    """

    memory: int = 2 << 30
    seconds: int = SECONDS
    at_once: BoundedSemaphore = field(
        default_factory=lambda: BoundedSemaphore(max(1, (os.cpu_count() or 1) - 1))
    )
    places: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(MAX_WAITING))

    def read(self, function: Callable[..., Read], content: bytes, *arguments: Any) -> Read:
        """Call a function of a module on a file, in a separate process if the file is large.
        Raises what it raises of the product's errors, RequestError of a file over the bounds, and
        UnavailableError where too many wait."""
        if len(content) <= SMALL_BYTES:
            return function(content, *arguments)
        check_platform(f"a file of more than {SMALL_BYTES >> 10} KiB is not read here")
        if not self.places.acquire(blocking=False):
            raise UnavailableError(
                f"{MAX_WAITING} large files are read or wait to be read; send it again in a minute"
            )
        try:
            with self.at_once:
                call = (self.memory, self.seconds, function, (content, *arguments))
                done = subprocess.run(  # noqa: S603 (this module)
                    [sys.executable, "-P", "-c", _PROGRAM, FOLDER],
                    input=pickle.dumps(call),
                    stdout=subprocess.PIPE,
                    check=False,
                    timeout=_WALL_SECONDS,
                )
        except subprocess.TimeoutExpired:
            raise RequestError("the file could not be read in time; send it again later") from None
        finally:
            self.places.release()
        if done.returncode == -signal.SIGXCPU:
            raise RequestError(
                f"the file takes more than {self.seconds} seconds to read; send it in parts"
            )
        if done.returncode:
            raise ServiceError(f"the process that reads a file ended with {done.returncode}")
        answer: Read | RapporError = pickle.loads(done.stdout)  # noqa: S301 (from a process that we started)
        if isinstance(answer, RapporError):
            raise answer
        return answer


def main() -> None:
    """The main function of the reading process: take a file from standard input, write the
    function's result."""
    die_with_parent()
    prefer_own_packages()
    os.nice(_NICE)
    memory, seconds, function, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 (our parent's)
    limit_resources(memory, _FILE_BYTES, seconds)
    answer: Any
    try:
        answer = function(*arguments)
    except MemoryError:
        answer = RequestError(
            f"the file takes more than {memory >> 20:,} MiB of memory to read; send it in parts"
        )
    except RapporError as error:
        answer = error
    sys.stdout.buffer.write(pickle.dumps(answer))
