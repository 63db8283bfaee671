"""Running the app under uvicorn: in the foreground, or on a thread for a demo or a test."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from collector.app import create_app, prepare_database
from collector.errors import CollectorError, SettingsError
from collector.protocol import BoundedHttpProtocol
from collector.service.days import Clock, utc_now
from collector.settings import Settings, load_settings
from collector.telemetry import MULTIPROCESS_DIR

_START_SECONDS = 30.0


def serve(settings: Settings) -> None:
    """Serve until a signal comes; then take nothing new, finish what has begun, and return.

    Raises SettingsError where the address cannot be listened on, and CollectorError when it does
    not start; the log says why.
    """
    prepare_database(settings)  # what is wrong is said before a port is taken
    listener = _listen(settings)
    if settings.workers > 1:
        _serve_many(settings, listener)
        return
    server = _Server(_config(create_app(settings), settings))
    server.run(sockets=[listener])
    if not server.started:
        raise CollectorError("the collector did not start; the reason is in the log above")


def _serve_many(settings: Settings, listener: socket.socket) -> None:
    """Several processes on one port, started anew when one dies. They read the environment."""
    given = settings.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    os.environ.update({f"RAPPOR_{name.upper()}": str(value) for name, value in given.items()})
    with tempfile.TemporaryDirectory(prefix="rappor-metrics-") as folder:
        os.environ[MULTIPROCESS_DIR] = folder  # the workers add up their counts through files
        listener.set_inheritable(True)
        Multiprocess(_config("collector.server:app_of_worker", settings), sockets=[listener]).run()


def app_of_worker() -> FastAPI:
    """The app of one of several workers, from the environment."""
    return create_app(load_settings())


class _Server(uvicorn.Server):
    """uvicorn's server; a signal that ended in a clean shutdown is not raised again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            yield
            self._captured_signals.clear()


@contextmanager
def running_collector(settings: Settings, *, clock: Clock = utc_now) -> Iterator[str]:
    """A collector on a thread, on `settings.host` and a free port if port is 0; yields its URL.

    Shut down cleanly on leaving: what was begun is answered. Raises CollectorError when it does
    not start, with the reason that it gave.
    """
    prepare_database(settings, clock)
    listener = _listen(settings)
    server = _Server(_config(create_app(settings, clock=clock), settings))
    failures: list[BaseException] = []
    thread = threading.Thread(target=_run, args=(server, listener, failures), daemon=True)
    thread.start()
    try:
        _await_start(server, thread, failures)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        yield f"http://{host}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _config(app: FastAPI | str, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=settings.workers,
        host=settings.host,
        port=settings.port,
        http=BoundedHttpProtocol,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=settings.drain_seconds,
        lifespan="on",
        ws="none",
    )


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it an answer waits 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise SettingsError(f"cannot listen on {settings.host}:{settings.port}: {error}") from error
    return listener


def _run(server: uvicorn.Server, listener: socket.socket, failures: list[BaseException]) -> None:
    try:
        server.run(sockets=[listener])
    except BaseException as error:  # handed to the thread that waits for the start
        failures.append(error)


def _await_start(
    server: uvicorn.Server, thread: threading.Thread, failures: list[BaseException]
) -> None:
    deadline = monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or monotonic() > deadline:
            reason = failures[0] if failures else "see the log"
            raise CollectorError(f"the collector did not start: {reason}")
        sleep(0.01)
