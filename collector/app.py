"""`create_app`: the collector as an ASGI application. Nothing is built at import."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from collector.broker.front import make_front
from collector.chores import do_chores, keep_house
from collector.domain.access import KeyKeeper
from collector.domain.batch_writer import ReportWriter
from collector.domain.clock import Clock, utc_now
from collector.domain.commit_queue import BatchQueue, Bounds, CommitQueue
from collector.domain.operations import COMMAND_LINE, Collector
from collector.domain.report_validation import ReportJudge
from collector.errors import NotFoundError, RequestError, SettingsError
from collector.openapi import document
from collector.problems import Refuser
from collector.request_body import GzipBounds
from collector.routes import admin, aggregates
from collector.routes.dependencies import AppComponents, make_limits
from collector.routes.reports import OHTTP_PATH, REPORTS_PATH, ReportsEndpoint
from collector.settings import Settings
from collector.store.database import CollectorDatabase, make_engine, try_to_read, try_to_write
from collector.telemetry import Telemetry, forget_process
from rappor_core.errors import RapporError
from rappor_core.metrics.compiled import load_metrics
from rappor_server.logs import Log, make_log, redirect_libraries
from rappor_server.problems import problem, routing_detail
from rappor_server.readiness import Readiness
from rappor_server.request_bounds import refuse_head
from rappor_server.schema import check_connections, prepare
from rappor_server.validation import request_problem

if TYPE_CHECKING:
    from collector.domain.relay_keys import RelayKeys

API_VERSION = "1"
LARGE_BODIES = 2
_OHTTP = ("POST", OHTTP_PATH)


class App(FastAPI):
    """The collector's routes; reports go past the layers that the other routes need.

    ohttp: takes reports through a relay; None where no relay is set up.
    """

    def __init__(self, reports: ReportsEndpoint, ohttp: ASGIApp | None, **options: Any) -> None:
        super().__init__(**options)
        self.reports = reports
        self.ohttp = ohttp
        self.router.routes.append(Route(REPORTS_PATH, reports, methods=["POST"]))
        self.router.routes.append(Route(OHTTP_PATH, ohttp or _no_relay, methods=["POST"]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. (Reports with another method than POST get FastAPI's 405.)"""
        if refusal := refuse_head(scope):
            await refusal(scope, receive, send)
            return
        if self.ohttp is not None and (scope.get("method"), scope.get("path")) == _OHTTP:
            await self.ohttp(scope, receive, send)
            return
        method = scope.get("method") if scope.get("path") == REPORTS_PATH else None
        if method == "POST":
            await self.reports(scope, receive, send)
        elif method != "OPTIONS" or not await self.reports.preflight(scope, send):
            await super().__call__(scope, receive, send)


def create_app(settings: Settings, *, clock: Clock = utc_now) -> App:
    """Build the collector's ASGI application for these settings. The database is opened when the
    app starts.

    clock: the current time, UTC.
    """
    log = make_log(settings.log_level)
    redirect_libraries(log)
    parts = _make_parts(settings, clock, log)
    refuser = Refuser(log, settings.retry_after_seconds)
    app = App(
        ReportsEndpoint(parts, refuser),
        _make_ohttp(parts, refuser),
        title="rappor-telemetry collector",
        version=API_VERSION,
        lifespan=_lifespan(parts, log),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # to an address made of the Host that the client sent, without TLS
    )
    app.state.parts = parts
    app.include_router(admin.router)
    app.include_router(aggregates.router)
    app.openapi = cache(partial(document, app))  # type: ignore[method-assign]
    _add_error_handlers(app, refuser)
    return app


def _make_parts(settings: Settings, clock: Clock, log: Log) -> AppComponents:
    collector = Collector(_database(settings, settings.database_connections), clock=clock)
    writing = _database(settings, 1)
    judge = ReportJudge(refuse_implausible=settings.refuse_implausible)
    writer = ReportWriter(writing, judge, clock, settings.clock_skew)
    telemetry = Telemetry()
    queue, readiness = _make_queue(settings, collector, writer, judge, telemetry, log)
    return AppComponents(
        settings=settings,
        collector=collector,
        queue=queue,
        keys=KeyKeeper(collector.key_ring),
        telemetry=telemetry,
        large_bodies=asyncio.Semaphore(LARGE_BODIES),
        body_bounds=GzipBounds(
            settings.max_body_bytes, settings.body_seconds, settings.max_inflated_bytes
        ),
        limits=make_limits(settings),
        writing=writing,
        readiness=readiness,
        relay_keys=_relay_keys(settings),
    )


def _relay_keys(settings: Settings) -> RelayKeys | None:
    """The keys of devices behind a relay, where one is set up. Raises SettingsError."""
    if settings.ohttp_keys is None:
        return None
    try:
        module = import_module("collector.domain.relay_keys")
    except ModuleNotFoundError as error:
        raise SettingsError(
            "ohttp_keys needs the library cryptography: pip install 'rappor-telemetry[relay]'"
        ) from error
    return cast("RelayKeys", module.RelayKeys(settings.ohttp_keys))


def _make_ohttp(parts: AppComponents, refuser: Refuser) -> ASGIApp | None:
    """The route for requests through a relay; its code is loaded where one is set up."""
    if parts.relay_keys is None:
        return None
    module = import_module("collector.routes.ohttp")
    return cast(ASGIApp, module.OhttpEndpoint(parts, refuser, parts.relay_keys))


async def _no_relay(_request: Request) -> Response:
    raise NotFoundError("no relay is set up here: the setting ohttp_keys names a file of keys")


def _make_queue(
    settings: Settings,
    collector: Collector,
    writer: ReportWriter,
    judge: ReportJudge,
    telemetry: Telemetry,
    log: Log,
) -> tuple[BatchQueue, Readiness]:
    """Who takes batches, and how it is found out whether they can be taken."""
    if settings.broker is not None:
        front = make_front(settings, collector, judge, telemetry.on_commit, log)
        return front, Readiness(front.check, front.check, lambda: front.is_failing)
    queue = CommitQueue(
        writer.write,
        Bounds(settings.max_queued_bytes, settings.max_group_reports),
        on_commit=telemetry.on_commit,
        on_crash=log.crash,
    )
    read, write = (partial(act, collector.database) for act in (try_to_read, try_to_write))
    database = collector.database
    return queue, Readiness(read, write, lambda: queue.is_failing or database.is_failing)


def _database(settings: Settings, connections: int) -> CollectorDatabase:
    engine = make_engine(
        settings.database, pool_size=connections, timeout=settings.database_seconds
    )
    return CollectorDatabase(engine)


def prepare_database(settings: Settings, clock: Clock = utc_now) -> tuple[str, ...]:
    """Create the tables in an empty database, check any other, and declare the metrics of the
    settings' file.

    Returns the metrics of the file that were retired, and stay so.

    Raises SettingsError, SchemaError, StorageError, MetricsFileError or MetricChangeError.
    """
    metrics = None if settings.metrics is None else load_metrics(settings.metrics)
    database = _database(settings, 1)
    try:
        check_connections(database, settings.connections, settings.who_connects)
        prepare(database)
        if metrics is not None:
            collector = Collector(database, clock=clock)
            push = collector.push_metrics(metrics.metrics.values(), COMMAND_LINE)
            return push.still_retired
        return ()
    finally:
        database.close()


def _start(parts: AppComponents) -> None:
    prepare_database(parts.settings, parts.collector.clock)
    parts.keys.refresh()
    do_chores(parts)
    parts.queue.start()


def _lifespan(
    parts: AppComponents, log: Log
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(_start, parts)
        chores = asyncio.create_task(keep_house(parts, log))
        log.info("started", database=parts.collector.database.engine.dialect.name)
        try:
            yield
        finally:
            chores.cancel()
            await run_in_threadpool(parts.queue.stop)
            parts.collector.database.close()
            parts.writing.close()
            forget_process()
            log.info("stopped")

    return lifespan


def _add_error_handlers(app: FastAPI, refuser: Refuser) -> None:
    async def ours(_request: Request, error: Exception) -> Response:
        return refuser.answer(error)

    async def http(request: Request, error: Exception) -> Response:
        known = cast(HTTPException, error)
        allow = (known.headers or {}).get("Allow", "")
        asked = (request.method, request.url.path, allow)
        detail = routing_detail(known.status_code, known.detail, *asked)
        return problem(known.status_code, "http", detail, headers=known.headers)

    async def invalid(_request: Request, error: Exception) -> Response:
        return refuser.answer(RequestError(request_problem(cast(RequestValidationError, error))))

    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(RapporError, ours)
    app.add_exception_handler(Exception, ours)


if __name__ == "__main__":
    print(json.dumps(create_app(Settings()).openapi(), indent=1, sort_keys=True))
