"""Running the service: the web server with a worker, or workers alone."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import connection as pipes

import truststore
import uvicorn
from fastapi import FastAPI

from decoder_service.shell.app import create_app
from decoder_service.shell.database import ServiceDatabase, check_is_there
from decoder_service.shell.errors import ServiceError
from decoder_service.shell.settings import ServiceSettings
from decoder_service.worker.process_limits import check_platform, die_with_parent
from decoder_service.worker.worker import Worker
from rappor_server.database import alone_on_sqlite, make_engine
from rappor_server.logs import Log, make_log
from rappor_server.schema import prepare
from rappor_server.serving import Server, announce, listening, running, server_config

_STOP_SECONDS = 10.0
_DRAIN_SECONDS = 20
_OF_WORKER = 2  # A worker's connections to PostgreSQL


def serve(settings: ServiceSettings) -> None:
    """Serve until a signal arrives, with a worker unless job_slots = 0.

    Raises ServiceError if the service does not start; the log states the reason."""
    log = make_log(settings.log_level)
    _prepare_to_serve(settings)  # Fails before a port is occupied
    _set_up_process()
    _warn_of_key(settings, log)
    with listening(settings.host, settings.port) as listener, _with_worker(settings):
        server = Server(_config(create_app(settings), settings))
        announce(listener, log)
        server.run(sockets=[listener])
    if not server.started:
        raise ServiceError("the service did not start; the reason is in the log above")


def work(settings: ServiceSettings) -> None:
    """Run jobs until a signal arrives.

    Raises ServiceError if the database is not ready, and UnavailableError on Windows."""
    check_platform("no worker can start here")
    check_is_there(settings.database)
    _warn_of_key(settings, make_log(settings.log_level))
    with alone_on_sqlite(settings.database, "worker"):
        _run_worker(settings)


def _run_worker(settings: ServiceSettings) -> None:
    database = _prepared(settings)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # As `nohup` asks
            signal.signal(number, lambda *_: stopping.set())
    try:
        _set_up_process()
        Worker(database, settings, make_log(settings.log_level)).run(stopping.is_set)
    finally:
        database.close()


def _set_up_process() -> None:
    """Trust the system's certificates, and keep child processes from importing local files."""
    truststore.inject_into_ssl()
    os.environ["PYTHONSAFEPATH"] = "1"


def _warn_of_key(settings: ServiceSettings, log: Log) -> None:
    """Log a warning if a collector is set without a key; collectors with --open need none."""
    if settings.collector is not None and settings.collector_key is None:
        hint = (
            "set RAPPOR_DECODER_COLLECTOR_KEY to a key of scope aggregate, which "
            "rappor keys create --scope aggregate makes at the collector"
        )
        log.warning("no_collector_key", collector=settings.collector, hint=hint)


def _prepare_to_serve(settings: ServiceSettings) -> None:
    if settings.job_slots:
        check_platform(f"job_slots = {settings.job_slots}, but no worker can start here (set 0)")
    _prepared(settings).close()


def _prepared(settings: ServiceSettings) -> ServiceDatabase:
    """Create the tables in an empty database, or check an existing one.

    Raises SettingsError, SchemaError and StorageError."""
    engine = make_engine(settings.database, pool_size=_OF_WORKER, timeout=settings.database_seconds)
    database = ServiceDatabase(engine)
    try:
        prepare(database)
    except BaseException:
        database.close()
        raise
    return database


def _work_beside(settings: ServiceSettings) -> None:
    web = multiprocessing.parent_process()
    die_with_parent(web.pid if web else None)  # It may have died while this process started
    _run_worker(settings)


@contextmanager
def _with_worker(settings: ServiceSettings) -> Iterator[None]:
    """Keep a worker running in a separate process, restarted if it dies. Raises SettingsError."""
    if not settings.job_slots:
        yield
        return
    stopping = threading.Event()
    keeper = threading.Thread(target=_keep_worker, args=(settings, stopping), name="keeper")
    with alone_on_sqlite(settings.database, "worker"):
        keeper.start()
        try:
            yield
        finally:
            stopping.set()
            keeper.join()


def _keep_worker(settings: ServiceSettings, stopping: threading.Event) -> None:
    context = multiprocessing.get_context("spawn")
    while not stopping.is_set():
        process = context.Process(target=_work_beside, args=(settings,), name="worker")
        process.start()
        while not stopping.is_set() and not pipes.wait([process.sentinel], timeout=0.2):
            pass
        process.terminate()
        process.join(_STOP_SECONDS)
        process.kill()
        process.join()
        process.close()
        stopping.wait(1.0)  # A worker that dies immediately must not keep the processor busy


@contextmanager
def running_service(settings: ServiceSettings) -> Iterator[tuple[str, FastAPI]]:
    """Run the service on a thread, with a worker unless job_slots = 0; yield its URL and the app.

    Raises ServiceError if it does not start."""
    _prepare_to_serve(settings)
    app = create_app(settings)
    server = Server(_config(app, settings))
    with (
        listening(settings.host, settings.port) as listener,
        _with_worker(settings),
        running(server, listener, settings.host, "service") as url,
    ):
        yield url, app


def _config(app: FastAPI, settings: ServiceSettings) -> uvicorn.Config:
    return server_config(app, host=settings.host, port=settings.port, drain_seconds=_DRAIN_SECONDS)
