"""Running the service: the web and a worker in one command, or workers alone."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection as pipes
from multiprocessing.process import BaseProcess
from time import monotonic, sleep

import uvicorn
from fastapi import FastAPI

from decoder.service.app import create_app
from decoder.service.errors import ServiceError, SettingsError
from decoder.service.jobs.process_limits import die_with_parent
from decoder.service.jobs.worker import Worker
from decoder.service.logs import make_log
from decoder.service.settings import Settings
from decoder.service.store.engine import Database, make_engine
from decoder.service.store.schema import prepare

_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_MOST_CONNECTIONS = 256


def serve(settings: Settings) -> None:
    """Serve until a signal comes, with a worker beside unless job_slots = 0.

    Raises ServiceError when it does not start; the log says why.
    """
    prepare_database(settings)  # what is wrong is said before a port is taken
    with _listening(settings) as listener, _with_worker(settings):
        server = _Server(_config(create_app(settings), settings))
        log = make_log(settings.log_level)
        host, port = listener.getsockname()[:2]
        log.info("listening", host=host, port=port)
        server.run(sockets=[listener])
    if not server.started:
        raise ServiceError("the service did not start; the reason is in the log above")


def work(settings: Settings) -> None:
    """Do jobs until a signal comes. Raises ServiceError where the database is not ready."""
    log = make_log(settings.log_level)
    prepare_database(settings)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    database = _database(settings)
    try:
        Worker(database, settings, log).run(stopping.is_set)
    finally:
        database.close()


def prepare_database(settings: Settings) -> None:
    """Bring an empty database up, check any other. Raises SchemaError, StorageError."""
    database = _database(settings)
    try:
        prepare(database)
    finally:
        database.close()


def _database(settings: Settings) -> Database:
    engine = make_engine(settings.database, pool_size=2, timeout=settings.database_seconds)
    return Database(engine)


def _work_beside(settings: Settings) -> None:
    """The process of a worker that the web started; it ends with the web."""
    die_with_parent()
    work(settings)


@contextmanager
def _with_worker(settings: Settings) -> Iterator[None]:
    """A worker in a process of its own; one that dies is started again."""
    if not settings.job_slots:
        yield
        return
    stopping = threading.Event()
    keeper = threading.Thread(target=_keep_worker, args=(settings, stopping), name="keeper")
    keeper.start()
    try:
        yield
    finally:
        stopping.set()
        keeper.join()


def _keep_worker(settings: Settings, stopping: threading.Event) -> None:
    context = multiprocessing.get_context("spawn")
    while not stopping.is_set():
        process = context.Process(target=_work_beside, args=(settings,), name="worker")
        process.start()
        while not stopping.is_set() and not pipes.wait([process.sentinel], timeout=0.2):
            pass
        _stop(process)
        stopping.wait(1.0)  # before another: one that dies at once must not take the processor


def _stop(process: BaseProcess) -> None:
    process.terminate()
    process.join(_STOP_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
    process.close()


class _Server(uvicorn.Server):
    """uvicorn's server; a signal that ended in a clean shutdown is not raised again."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            yield
            self._captured_signals.clear()


@contextmanager
def running_service(settings: Settings) -> Iterator[tuple[str, FastAPI]]:
    """The service on a thread, with a worker unless job_slots = 0; yields its URL and the app.

    Raises ServiceError when it does not start.
    """
    prepare_database(settings)
    app = create_app(settings)
    server = _Server(_config(app, settings))
    with _listening(settings) as listener, _with_worker(settings):
        options = {"sockets": [listener]}
        thread = threading.Thread(target=server.run, kwargs=options, daemon=True)
        thread.start()
        try:
            _await_start(server, thread)
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            yield f"http://{host}:{listener.getsockname()[1]}", app
        finally:
            server.should_exit = True
            thread.join()


def _await_start(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or monotonic() > deadline:
            raise ServiceError("the service did not start; see the log")
        sleep(0.01)


def _config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=20,
        lifespan="on",
        ws="none",
    )


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """The socket to listen on. Raises SettingsError."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((settings.host, settings.port))
        except OSError as error:
            where = f"{settings.host}:{settings.port}"
            raise SettingsError(f"cannot listen on {where}: {error.strerror or error}") from error
        yield listener
