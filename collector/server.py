"""The collector's server: in the foreground, or on a thread for a demo or a test."""

import gc
import json
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from collector.app import create_app, prepare_database
from collector.domain.clock import Clock
from collector.errors import CollectorError
from collector.settings import PREFIX, Settings, load_settings
from collector.store.database import served_alone
from collector.telemetry import MULTIPROCESS_DIR, forget_dead_workers
from rappor_server.errors import SettingsError
from rappor_server.logs import make_log
from rappor_server.serving import (
    Server,
    address_of,
    announce,
    listening,
    running,
    server_config,
)
from rappor_server.settings import is_loopback


def serve(settings: Settings) -> None:
    """Serve until a signal arrives; then finish the current requests and return.

    Raises CollectorError if the server does not start; the log states the reason.
    """
    log = make_log(settings.log_level)
    retired = prepare_database(settings)  # report errors before a port is occupied
    if retired:
        hint = "rappor metrics push FILE --revive collects them again"
        log.warning("metrics_stay_retired", metrics=", ".join(retired), hint=hint)
    with served_alone(settings.database), _listening(settings) as listener:
        if settings.workers > 1:  # several processes on one port, which are restarted when they die
            announce(listener, log)
            os.environ.update(environment_of(settings))
            with tempfile.TemporaryDirectory(prefix="rappor-metrics-") as folder:
                os.environ[MULTIPROCESS_DIR] = folder  # workers sum their counts through files
                config = _config("collector.server:app_of_worker", settings)
                Multiprocess(config, sockets=[listener]).run()
            return
        server = Server(_config(_lasting(create_app(settings)), settings))
        announce(listener, log)
        server.run(sockets=[listener])
    if not server.started:
        raise CollectorError("the collector did not start; the reason is in the log above")


def environment_of(settings: Settings) -> dict[str, str]:
    """Return environment variables from which a worker process reads the same settings."""
    values = settings.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    return {
        f"{PREFIX}{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
    }


def app_of_worker() -> FastAPI:
    """Build the app of one of several worker processes, from environment variables."""
    _end_with_supervisor()
    forget_dead_workers()  # this worker may replace a killed worker
    return _lasting(create_app(load_settings()))


def _end_with_supervisor() -> None:
    """Terminate this worker once the process that started it is gone.

    Otherwise workers of a killed supervisor would occupy the port forever.
    """
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def end() -> None:
        connection.wait([supervisor.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, name="supervisor-watch", daemon=True).start()


def _lasting(app: FastAPI) -> FastAPI:
    """Return the app, after excluding all objects so far from garbage collection, to save time."""
    gc.collect()
    gc.freeze()
    return app


@contextmanager
def running_collector(settings: Settings, *, clock: Clock | None = None) -> Iterator[str]:
    """Run a collector on a thread during a `with` block; yield its URL.

    At the end, requests that have begun are answered. Raises CollectorError, with the reason, if it
    does not start.
    """
    prepare_database(settings, clock)
    server = Server(_config(create_app(settings, clock=clock), settings))
    with (
        served_alone(settings.database),
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
    """Yield the socket to listen on, new or inherited. Raises SettingsError if there is none.

    The address of an inherited socket may differ from `host`.
    """
    with listening(settings.host, settings.port, settings.listen_fd) as listener:
        host = str(address_of(listener).get("host", "localhost"))
        if not (settings.require_keys or settings.open_anywhere or is_loopback(host)):
            raise SettingsError(
                f"require_keys = false on a socket that listens on {host!r} would let anyone close "
                "days and read aggregates; listen on 127.0.0.1, use keys, or set open_anywhere = "
                "true"
            )
        yield listener
