"""Resource limits and lifetimes of job processes, and resource-limited reading of uploads.

Python parses JSON and CSV under its global lock, so a large file would block all other requests.
One processor is reserved for the service, and reading processes have a lower priority. Processes
import this module first, before the slow imports."""

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
PARENT_VARIABLE = f"{PREFIX}PARENT"  # Names the worker to the process that forks its jobs
_PR_SET_PDEATHSIG = 1
_ORPHANED = 3  # Exit code
SMALL_BYTES = 256 << 10  # Maximum size read in the service's own process
SECONDS = 60  # Processor time
_FILE_BYTES = 1 << 30
_WALL_SECONDS = 600
_NICE = 5  # Lower priority for reading processes
# Like -m, but without the folder in which the service was started, which may contain a `json.py`.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from decoder_service.worker.process_limits import main; main()"
)
MAX_WAITING = 16  # Large files being read or waiting; each occupies one of the service's 40 threads
Read = TypeVar("Read")


def die_with_parent(started_by: int | None = None) -> None:
    """Let the Linux kernel kill this process when its parent dies.

    `started_by` is the parent's process id, which detects a parent that died before this call."""
    if sys.platform != "linux":
        return
    parent = os.getppid() if started_by is None else started_by
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # It has already died
        os._exit(_ORPHANED)


def end_with_pipe(life: Connection) -> None:
    """End this process when the other end of a pipe is closed, such as by a worker's death."""

    def wait() -> None:
        with suppress(EOFError, OSError):
            life.recv_bytes()
        os._exit(_ORPHANED)

    threading.Thread(target=wait, name="worker-watch", daemon=True).start()


def limit_resources(memory: int, file_size: int, seconds: int | None = None) -> None:
    """Limit the memory allocated from now on and the size of files, in bytes.

    `seconds` limits the processor time, after which SIGXCPU ends the process."""
    import resource

    pages = 0  # Pages that are mapped already, if the system reports them
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
    """Raise UnavailableError if processes cannot be limited, as on Windows.

    `what` is the impossible action, with which the message begins."""
    try:
        import fcntl  # noqa: F401 (only whether it exists)
        import resource  # noqa: F401
    except ImportError:
        raise UnavailableError(
            f"{what}: it needs processes with limits of memory and time, which this system lacks; "
            "use Linux or macOS, or on Windows WSL or a container"
        ) from None


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of uploaded files, with limits on memory, time and concurrency."""

    memory: int = 2 << 30  # Bytes per process
    seconds: int = SECONDS  # Processor time per process
    at_once: BoundedSemaphore = field(  # Limits the processes that read concurrently
        default_factory=lambda: BoundedSemaphore(max(1, (os.cpu_count() or 1) - 1))
    )
    # The files being read or waiting.
    places: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(MAX_WAITING))

    def read(self, function: Callable[..., Read], content: bytes, *arguments: Any) -> Read:
        """Call a module's function on a file, in a separate process if the file is large.

        Raises the function's RapporErrors, RequestError if the file exceeds the limits, and
        UnavailableError if too many files wait."""
        if len(content) <= SMALL_BYTES:
            return function(content, *arguments)
        check_platform(f"a file of more than {SMALL_BYTES >> 10} KiB cannot be read here")
        if not self.places.acquire(blocking=False):
            raise UnavailableError(
                f"{MAX_WAITING} large files are being read or waiting; send it again in a minute"
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
    """Run the reading process: read a file from standard input and write the function's result."""
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
