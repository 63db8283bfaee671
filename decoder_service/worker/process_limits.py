"""Limits of a job's process, what they need of the system, and its end with its parent.

Processes read this first, before the imports that take long."""

import ctypes
import os
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from decoder_service.shell.errors import UnavailableError

PREFIX = "RAPPOR_DECODER_"
PARENT_VARIABLE = f"{PREFIX}PARENT"  # a worker names itself to the process that forks its jobs


_PR_SET_PDEATHSIG = 1
_ORPHANED = 3  # exit code


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
