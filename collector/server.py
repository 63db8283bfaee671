"""Running the app under uvicorn: in the foreground, or on a thread for a demo or a test."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import connection
from time import sleep

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from collector.app import create_app, prepare_database
from collector.domain.clock import Clock
from collector.errors import CollectorError, SettingsError
from collector.settings import PREFIX, Settings, load_settings
from collector.store.database import COLLECTOR
from collector.telemetry import MULTIPROCESS_DIR, forget_dead_workers
from rappor_server.database import served_alone
from rappor_server.logs import make_log
from rappor_server.serving import (
    Server,
    bind,
    listening_problem,
    running,
    server_config,
    warn_beyond_loopback,
)
from rappor_server.settings import is_loopback


def serve(settings: Settings) -> None:
    """Serve until a signal comes; then take nothing new, finish what has begun, and return.

    Raises CollectorError when it does not start; the log says why.
    """
    log = make_log(settings.log_level)
    retired = prepare_database(settings)  # what is wrong is said before a port is taken
    if retired:
        way_out = "rappor metrics push FILE --revive collects them again"
        log.warning("metrics_stay_retired", metrics=", ".join(retired), way_out=way_out)
    with served_alone(settings.database, COLLECTOR), _listening(settings) as listener:
        warn_beyond_loopback(_host(listener), log)
        announce = partial(log.info, "listening", **_address(listener))
        if settings.workers > 1:
            _announce_when_answered(listener, announce)
            _serve_many(settings, listener)
            return
        server = Server(_config(_lasting(create_app(settings)), settings), announce)
        server.run(sockets=[listener])
    if not server.started:
        raise CollectorError("the collector did not start; the reason is in the log above")


def _announce_when_answered(listener: socket.socket, announce: Callable[[], None]) -> None:
    """Call `announce`, on a thread, when a worker answers at the address of the listener."""

    def wait() -> None:
        while not _answers(listener):
            sleep(0.05)
        announce()

    threading.Thread(target=wait, name="announce", daemon=True).start()


def _answers(listener: socket.socket) -> bool:
    """Whether something that listens there answers to a request for /healthz."""
    with socket.socket(listener.family, socket.SOCK_STREAM) as probe, suppress(OSError):
        probe.settimeout(2)
        probe.connect(listener.getsockname())
        probe.sendall(b"GET /healthz HTTP/1.1\r\nHost: collector\r\nConnection: close\r\n\r\n")
        return probe.recv(16).startswith(b"HTTP/1.1 200")
    return False


def _serve_many(settings: Settings, listener: socket.socket) -> None:
    """Several processes on one port, started anew when one dies. They read the environment."""
    os.environ.update(environment_of(settings))
    with tempfile.TemporaryDirectory(prefix="rappor-metrics-") as folder:
        os.environ[MULTIPROCESS_DIR] = folder  # the workers add up their counts through files
        config = _config("collector.server:app_of_worker", settings)
        Multiprocess(config, sockets=[listener]).run()


def environment_of(settings: Settings) -> dict[str, str]:
    """Environment variables from which a worker process reads the same settings."""
    given = settings.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    return {
        f"{PREFIX}{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
    }


def app_of_worker() -> FastAPI:
    """Build the app of one of several worker processes, from environment variables."""
    _end_with_supervisor()
    forget_dead_workers()  # this one may stand in for one that was killed
    return _lasting(create_app(load_settings()))


def _end_with_supervisor() -> None:
    """End this worker as a signal would, once the process that started it is gone.

    Without it, workers of a supervisor that was killed would hold the port for ever.
    """
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def end() -> None:
        connection.wait([supervisor.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, name="supervisor-watch", daemon=True).start()


def _lasting(app: FastAPI) -> FastAPI:
    """Tell the garbage collector that all that is here now stays, so that it looks at it no more.

    For a process that only serves.
    """
    gc.collect()
    gc.freeze()
    return app


@contextmanager
def running_collector(settings: Settings, *, clock: Clock | None = None) -> Iterator[str]:
    """Run a collector on a thread for the block; yield its URL.

    Shut down cleanly on leaving: what was begun is answered. Raises CollectorError when it does
    not start, with the reason that it gave.
    """
    prepare_database(settings, clock)
    server = Server(_config(create_app(settings, clock=clock), settings))
    with (
        served_alone(settings.database, COLLECTOR),
        _listening(settings) as listener,
        running(server, listener, settings.host, "collector") as url,
    ):
        yield url


def _config(app: FastAPI | str, settings: Settings) -> uvicorn.Config:
    return server_config(
        app,
        host=settings.host,
        port=settings.port,
        drain_seconds=settings.drain_seconds,
        workers=settings.workers,
    )


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """The socket to listen on: a new one, or one that was inherited. Raises SettingsError."""
    fd = settings.listen_fd
    where = f"{settings.host}:{settings.port}" if fd is None else f"listen_fd = {fd}"
    try:
        listener = (
            bind(settings.host, settings.port) if fd is None else socket.socket(fileno=os.dup(fd))
        )
    except OSError as error:
        raise SettingsError(listening_problem(where, error)) from error
    with listener:
        _refuse_open(listener, settings)
        yield listener


def _refuse_open(listener: socket.socket, settings: Settings) -> None:
    """An inherited socket may listen elsewhere than `host` says. Raises SettingsError."""
    host = _host(listener)
    if not (settings.require_keys or settings.open_anywhere or is_loopback(host)):
        raise SettingsError(
            f"require_keys = false on a socket that listens on {host!r} would let anyone close "
            "days and read aggregates; listen on 127.0.0.1, use keys, or set open_anywhere = true"
        )


def _host(listener: socket.socket) -> str:
    """The address that a socket listens on; of a Unix socket, this machine."""
    return str(_address(listener).get("host", "localhost"))


def _address(listener: socket.socket) -> dict[str, str | int]:
    """Where it listens: host and port, or the path of an inherited Unix socket."""
    name = listener.getsockname()
    return {"path": name} if isinstance(name, str) else {"host": name[0], "port": name[1]}
