"""The server of an app under uvicorn: its socket, its start, and its readiness."""

import asyncio
import errno
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import uvicorn

from rappor_server.errors import ServerError, SettingsError, StorageError
from rappor_server.logs import Log
from rappor_server.request_bounds import MAX_HEAD_BYTES
from rappor_server.settings import is_loopback

MAX_CONNECTIONS = 1_000  # per process; beyond it, requests get 503
MAX_AGE = 5.0  # seconds for which readiness is cached: a probe of a database writes to it
_START_SECONDS = 30.0
_PROXY_HINT = (
    "slow senders, floods of connections and rates by address are a reverse proxy's task: put one "
    "in front, as in docker/nginx.conf"
)


def server_config(
    app: Any, *, host: str, port: int, drain_seconds: int, workers: int = 1
) -> uvicorn.Config:
    """Return the uvicorn configuration of both services, with limited connections.

    `app` is the application, or its factory as "module:function". `drain_seconds` is the time that
    running requests have when the server stops."""
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=workers,
        host=host,
        port=port,
        http="h11",
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        limit_concurrency=MAX_CONNECTIONS,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=drain_seconds,
        lifespan="on",
        ws="none",
    )


class Server(uvicorn.Server):
    """A uvicorn server that does not raise the signal again after a clean shutdown."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down on SIGTERM and SIGINT, and on SIGHUP (a closed terminal) without `nohup`."""
        hangup = getattr(signal, "SIGHUP", signal.SIGINT)  # Windows has none
        with super().capture_signals():
            is_main = threading.current_thread() is threading.main_thread()
            if is_main and signal.getsignal(hangup) is signal.SIG_DFL:
                signal.signal(hangup, self.handle_exit)
            yield
            self._captured_signals.clear()


_HINTS = {
    errno.EADDRINUSE: "another program listens there; stop it, or choose another port with --port "
    "(0 picks a free one)",
    errno.EACCES: "that port is for the administrator of this machine; choose one from 1024 on "
    "with --port (0 picks a free one)",
    errno.EADDRNOTAVAIL: "no such address here; use --host 127.0.0.1, or 0.0.0.0 for all of them",
}


@contextmanager
def listening(host: str, port: int, fd: int | None = None) -> Iterator[socket.socket]:
    """Listen during a `with` block; port 0 picks a free port. Raises SettingsError on failure.

    `fd` is an inherited socket, which replaces host and port."""
    try:
        listener = _bind(host, port) if fd is None else socket.socket(fileno=os.dup(fd))
    except OSError as error:
        where = f"{host}:{port}" if fd is None else f"listen_fd = {fd}"
        code = errno.EADDRNOTAVAIL if isinstance(error, socket.gaierror) else error.errno
        hint = f": {_HINTS[code]}" if code in _HINTS else ""
        reason = error.strerror or error
        raise SettingsError(f"cannot listen on {where}: {reason}{hint}") from error
    with listener:
        yield listener


def _bind(host: str, port: int) -> socket.socket:
    """Bind and listen together, so that the second of two starting servers fails here."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    listener = socket.create_server((host, port), family=family, dualstack_ipv6=both)
    # connections inherit this; asyncio would not set it, which would delay answers by 40 ms
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def address_of(listener: socket.socket) -> dict[str, str | int]:
    """Return the address of a listener: host and port, or the path of an inherited Unix socket."""
    name = listener.getsockname()
    return {"path": name} if isinstance(name, str) else {"host": name[0], "port": name[1]}


def announce(listener: socket.socket, log: Log) -> None:
    """Log the address, and what a reverse proxy must do if other machines can reach it."""
    address = address_of(listener)
    host = str(address.get("host", "localhost"))
    if not is_loopback(host):
        log.warning("listening_beyond_loopback", host=host, hint=_PROXY_HINT)
    log.info("listening", **address)


@contextmanager
def running(server: Server, listener: socket.socket, host: str, name: str) -> Iterator[str]:
    """Run a server on a thread during a `with` block; yield its URL.

    Raises ServerError with the server's reason if it does not start."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            server.run(sockets=[listener])
        except BaseException as error:  # passed to the thread that waits for the start
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        deadline = monotonic() + _START_SECONDS
        while not server.started:
            if not thread.is_alive() or monotonic() > deadline:
                reason = failures[0] if failures else "see the log"
                raise ServerError(f"the {name} did not start: {reason}")
            sleep(0.01)
        address = f"[{host}]" if ":" in host else host
        yield f"http://{address}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


class Readiness:
    """A readiness check whose result is cached for MAX_AGE seconds. Used by one event loop."""

    def __init__(self, check: Callable[[], None], *, seconds: Callable[[], float] = monotonic):
        self._check, self._seconds = check, seconds
        self._error: StorageError | None = None
        self._checked = float("-inf")
        self._lock = asyncio.Lock()

    async def check(self) -> None:
        """Raise StorageError if the cached check failed; check again if it is too old."""
        async with self._lock:
            if self._seconds() - self._checked >= MAX_AGE:
                try:
                    await asyncio.to_thread(self._check)
                    self._error = None
                except StorageError as error:
                    self._error = error
                self._checked = self._seconds()
        if self._error is not None:
            raise StorageError(str(self._error))
